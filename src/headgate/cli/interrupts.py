"""Ctrl-C, a closed terminal and a polite kill: the first cancels, the second quits at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from headgate.host.leftovers import kill_own_commands

EXIT_CANCELLED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_interrupt(cancel: Callable[[], None], last_words: Callable[[], str]) -> None:
    """Calls `cancel` on the first signal; on the second, kills the running command and ends this process.

    The store survives that: what is not committed never was, and the cancellation itself is committed.
    `last_words` are for whoever watches then.
    """
    loop = asyncio.get_running_loop()

    def first() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, second)  # is called even while the event loop is busy
        cancel()

    def second(number: int, frame: FrameType | None) -> None:
        quit_at_once(number, frame, last_words())

    for number in SIGNALS:
        loop.add_signal_handler(number, first)


def quit_at_once(number: int, frame: FrameType | None, last_words: str = "") -> None:
    """Ends this process without waiting for anything."""
    kill_own_commands()
    with suppress(OSError):  # the terminal may be gone, and with it everyone who could be told
        os.write(2, last_words.encode("utf-8", "replace"))
    os._exit(EXIT_CANCELLED)
