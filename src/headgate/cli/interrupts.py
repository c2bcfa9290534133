"""Ctrl-C, a closed terminal and a polite kill: the first cancels, the second quits at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType

from headgate.host.leftovers import kill_own_commands

EXIT_CANCELLED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_interrupt(cancel: Callable[[], None]) -> None:
    """Calls `cancel` on the first signal; on the second, kills the running command and ends this process.

    The store survives that: what is not committed never was, and the cancellation itself is committed.
    """
    loop = asyncio.get_running_loop()

    def first() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, quit_at_once)  # is called even while the event loop is busy
        cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, first)


def quit_at_once(number: int, frame: FrameType | None) -> None:
    """Ends this process without waiting for anything."""
    kill_own_commands()
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")  # the live display hides the cursor
    os._exit(EXIT_CANCELLED)
