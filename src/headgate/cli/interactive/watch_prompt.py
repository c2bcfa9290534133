"""The prompt of `headgate watch`: the same as in the interactive mode, for one task of another process."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from prompt_toolkit.completion import DummyCompleter

from headgate.cli.interactive.kept_lines import KeptLines, state_folder
from headgate.cli.interactive.screen import Screen, TaskView
from headgate.cli.interactive.typed_lines import Typed, read_line
from headgate.log import Bus


class WatchPrompt(TaskView):
    """Shows a task above a prompt. What is typed there goes to `say`, which answers with a sentence.

    Needs a running event loop. Ctrl-C and Ctrl-D cancel the asyncio task that entered `shown`.
    """

    def __init__(self, bus: Bus, repo: Path, say: Callable[[str], str]) -> None:
        history = KeptLines(state_folder(), repo, os.environ)
        screen = Screen(history, DummyCompleter(), self.status, self._stop)
        history.expand = screen.pasted.expand
        super().__init__(bus, screen)
        self._say = say
        self._watching: asyncio.Task[object] | None = None

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """The prompt is on the terminal for the duration of the block."""
        self._watching = asyncio.current_task()
        showing = asyncio.create_task(self._screen.run())
        showing.add_done_callback(lambda _: self._stop())  # the terminal is gone
        beside = [asyncio.create_task(self._speak()), asyncio.create_task(self._screen.keep_fresh())]
        try:
            yield
        finally:
            self._watching = None
            for task in beside:
                task.cancel()
            unsaid = self._screen.buffer.text.strip()
            if self._screen.is_shown:
                self._screen.close()
            else:
                showing.cancel()
            with suppress(EOFError, asyncio.CancelledError):
                await showing
            if unsaid:
                self._screen.show(f"Not said: {unsaid}", "dim")

    def _stop(self) -> None:
        if self._watching:
            self._watching.cancel()

    async def _speak(self) -> None:
        while (line := await self._screen.lines.get()) is not None:
            match read_line(line):
                case None:
                    pass
                case Typed("command", "quit"):
                    break
                case Typed("command", name):
                    self._explain(f"/{name}")
                case Typed("shell", command):
                    self._explain(f"!{command}")
                case typed:
                    self._screen.show(self._say(self._screen.pasted.expand(typed.text)), "dim")
        self._stop()

    def _explain(self, typed: str) -> None:
        told = f"{typed} works in the interactive terminal: headgate without a command."
        self._screen.show(f"{told} Here, what you type is said to the task, and /quit quits.")
