"""The server's own worker: carries out what is queued, as soon as no other process does."""

import asyncio
from collections.abc import Callable

from headgate.engine import Engine
from headgate.errors import HeadgateError
from headgate.log import find_pause

LOOK_SECONDS = 0.5
"""How often to look whether another process has queued something, or has stopped working."""


class Worker:
    """Drains the queue again and again. A paused queue waits until somebody asks to try again."""

    def __init__(self, engine: Engine, on_crash: Callable[[Exception], None]) -> None:
        self._engine, self._on_crash = engine, on_crash
        self._wake = asyncio.Event()
        self._try_again = False

    def wake(self, *, try_again: bool = False) -> None:
        """There is something new to do; `try_again`: also if the queue is paused."""
        self._try_again |= try_again
        self._wake.set()

    async def run(self) -> None:
        """Works until it is cancelled, which cancels the task that runs: end the process instead."""
        while True:
            if self._engine.store.is_lost():
                raise HeadgateError(f"{self._engine.folder.path} was deleted. Start the server again.")
            try_again, self._try_again = self._try_again, False
            self._wake.clear()
            if try_again or not find_pause(self._engine.store):
                await self._engine.drain(on_crash=self._on_crash)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue
