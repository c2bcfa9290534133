"""Ctrl-C and a polite kill: the first cancels, the second quits. A closed terminal cancels nothing."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from headgate.cli.streams import leave, terminals
from headgate.process import kill_own_commands

EXIT_CANCELLED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def on_interrupt(
    cancel: Callable[[], None], last_words: Callable[[], str], hang_up: Callable[[], None]
) -> None:
    """Calls `cancel` on the first signal; on the second, kills the running command and ends this process.

    The store survives that: what is not committed never was, and the cancellation itself is committed.
    `last_words` are for whoever watches then. When the terminal is closed, `hang_up` is called, and from then
    on this process is a worker: it goes on, and a signal ends it without cancelling its task.
    """
    loop = asyncio.get_running_loop()
    open_terminals = terminals()

    def first() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, second)  # is called even while the event loop is busy
        cancel()

    def second(number: int, frame: FrameType | None) -> None:
        quit_at_once(number, frame, last_words())

    def closed() -> None:
        loop.remove_signal_handler(signal.SIGHUP)
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        work_on()
        hang_up()
        for descriptor in open_terminals:
            leave(descriptor)

    for number in SIGNALS:
        loop.add_signal_handler(number, first)
    loop.add_signal_handler(signal.SIGHUP, closed)


def work_on() -> None:
    """Has signals do what they do to a worker.

    They end the process with the command that it runs, and cancel nothing: nobody asked for that. The next
    process goes on with the task. A worker has no terminal that could be closed.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in SIGNALS:
        signal.signal(number, quit_at_once)


def quit_at_once(number: int, frame: FrameType | None, last_words: str = "") -> None:
    """Ends this process without waiting for anything."""
    kill_own_commands()
    with suppress(OSError):  # the terminal may be gone, and with it everyone who could be told
        os.write(2, last_words.encode("utf-8", "replace"))
    os._exit(EXIT_CANCELLED)
