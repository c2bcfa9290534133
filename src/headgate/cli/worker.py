"""The process that works on tasks: opening the engine, what signals do, and the worker in the background."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from headgate.cli.printing import tell
from headgate.cli.shared import EXIT_CANCELLED
from headgate.cli.terminal import redirect_to_null, terminal_descriptors
from headgate.engine import ConfigReader, Engine
from headgate.log import Bus, Folder
from headgate.process import FileLock, kill_own_commands


@contextmanager
def open_engine(
    root: Path,
    bus: Bus | None = None,
    read_config: ConfigReader | None = None,
    tell: Callable[[str], None] = tell,
) -> Iterator[Engine]:
    """The engine of a repository until the end of the block. `tell` gets what people should know of it."""
    start = partial(start_worker, root)
    engine = Engine.open(root, bus=bus, start_worker=start, read_config=read_config)
    engine.keep_crash_trace = True
    try:
        for note in engine.notes:
            tell(note)
        yield engine
    finally:
        engine.store.close()


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
        # The shell that goes down as well makes it two signals. Removing the loop's handler would let the
        # second one end this process.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
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


def start_worker(root: Path, lock: FileLock) -> None:
    """Starts a detached worker that holds the lock from its first moment on.

    It inherits this process's environment, and with it the keys. What it has to say goes to a log file.
    """
    _start_worker(root, lock.descriptors())
    lock.hand_over()


def leave_to_worker(root: Path, lock: FileLock | None) -> NoReturn:
    """Ends this process, and has a worker go on with the task that it runs, from its last event on.

    The worker has the lock, if this process had it, but waits for the end of a pipe that only this process
    keeps open: two must not work at once.
    """
    reading, _ = os.pipe()
    _start_worker(root, lock.descriptors() if lock else (), (reading,))
    kill_own_commands()
    os._exit(os.EX_OK)


def _start_worker(root: Path, lock: tuple[int, ...], after: tuple[int, ...] = ()) -> None:
    command = [sys.executable, "-P", "-m", "headgate", "work", "--repo", str(root)]
    for option, descriptors in (("--lock", lock), ("--after", after)):
        for descriptor in descriptors:
            command += [option, str(descriptor)]
    with Folder(root).open_worker_log() as log:
        # Nobody waits for it: it is to outlive this process.
        worker = subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(*lock, *after),
            start_new_session=True,
        )
    worker.returncode = os.EX_OK
