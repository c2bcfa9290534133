"""SIGINT and SIGTERM: the first cancels, the second quits. A closed terminal cancels nothing."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from headgate.cli.exit_codes import EXIT_CANCELLED
from headgate.cli.terminal import redirect_to_null, terminal_descriptors
from headgate.process import kill_own_commands

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def on_interrupt(
    cancel: Callable[[], None], quit_message: Callable[[], str], hang_up: Callable[[], None]
) -> None:
    """Calls `cancel` on the first signal; on the second, kills the running command and ends this process.

    The store survives that: every change is committed as a whole, and so is the cancellation. The text of
    `quit_message` is printed then. When the terminal is closed, `hang_up` is called. From then on this
    process is a worker: it goes on, and a signal ends it without cancelling its task.
    """
    loop = asyncio.get_running_loop()
    open_terminals = terminal_descriptors()

    def first() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, second)  # is called even while the event loop is busy
        cancel()

    def second(number: int, frame: FrameType | None) -> None:
        quit_at_once(number, frame, quit_message())

    def closed() -> None:
        loop.remove_signal_handler(signal.SIGHUP)
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        use_worker_signals()
        hang_up()
        for descriptor in open_terminals:
            redirect_to_null(descriptor)

    for number in SIGNALS:
        loop.add_signal_handler(number, first)
    loop.add_signal_handler(signal.SIGHUP, closed)


def use_worker_signals() -> None:
    """Sets the signal handlers of a worker.

    A signal ends the process and the command that it runs, and cancels nothing: nobody asked for that. The
    next process goes on with the task. A worker has no terminal that could be closed.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in SIGNALS:
        signal.signal(number, quit_at_once)


def quit_at_once(number: int, frame: FrameType | None, quit_message: str = "") -> None:
    """Ends this process without waiting for anything."""
    kill_own_commands()
    with suppress(OSError):  # the terminal may be gone, and with it everyone who could be told
        os.write(2, quit_message.encode("utf-8", "replace"))
    os._exit(EXIT_CANCELLED)
