"""Ctrl-C, a closed terminal and a polite kill: the first cancels, the second quits at once."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

EXIT_CANCELLED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MARKER = "_HEADGATE_COMMAND_"
"""How the names of the variables begin that mark commands."""


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
    kill_commands()
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")  # the live display hides the cursor
    os._exit(EXIT_CANCELLED)


def kill_commands() -> None:
    """Kills the process group of each command that this process runs, where /proc tells which they are."""
    own = sum(name.startswith(_MARKER) for name in os.environ)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # gone by now, or another user's
            # The name in parentheses may hold anything, so the fields are counted from its end.
            parent, group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1:3]
            if int(parent) == os.getpid() and _markers(folder) > own:
                os.killpg(int(group), signal.SIGKILL)


def _markers(process: Path) -> int:
    variables = (process / "environ").read_bytes().split(b"\0")
    return sum(variable.startswith(_MARKER.encode()) for variable in variables)
