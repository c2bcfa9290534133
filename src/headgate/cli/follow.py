"""Following a task to its end, wherever it runs: what is shown of it, what signals do, and the worker."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
import orjson

from headgate.cli.approval import TerminalApproval
from headgate.cli.live import Progress, ShownTask
from headgate.cli.printing import print_diff, say
from headgate.cli.shared import EXIT_CANCELLED
from headgate.cli.stored_tasks import find_task, last_lines, pause_sentence, result_line, tasks_ahead
from headgate.cli.terminal import fold_lines, redirect_to_null, terminal_descriptors, terminal_width
from headgate.control_characters import escape_controls
from headgate.core import SETTLED_STATES, Event, Report, Task, fold, plain
from headgate.engine import ConfigReader, Engine, QueueWait, diff_of
from headgate.log import Bus, Folder, Store
from headgate.process import FileLock, kill_own_commands

IDS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class FollowedTask:
    """What came of a task that was followed."""

    report: Report
    returned: bool
    """It was a proposal, and was taken out of the queue again before it was applied."""


async def follow_task(
    root: Path,
    begin: Callable[[Engine], Awaitable[Task]],
    as_json: bool,
    notes: tuple[str, ...] = (),
    read_config: ConfigReader | None = None,
    *,
    answer_alone: bool = False,
) -> FollowedTask:
    """Begins a task, follows it to its end and shows it. What it did before is not shown again.

    With `answer_alone`, nothing but the model's answer is on standard output. A benchmark's try has one line
    there, however it ends.
    """
    bus = Bus()
    progress = Progress(bus)
    bus.on_event.append(progress.hear)
    bus.on_event += [partial(print_event, progress=progress)] if as_json else []
    bus.on_pulse.append(progress.hear_pulse)
    engine = Engine.open(root, bus=bus, start_worker=partial(start_worker, root), read_config=read_config)
    engine.keep_crash_trace = True
    approval = TerminalApproval(progress) if sys.stdin.isatty() and sys.stderr.isatty() else None
    engine.person = approval
    engine.on_notice = lambda line: progress.print_line(line, 0)
    try:
        for note in (*notes, *engine.notes):
            progress.print_line(note, 0)
        task = await begin(engine)
        known = fold(engine.store.events(task.id))
        bus.state, began = known, known.last_seq
        progress.idle_until = time.time()
        progress.phases_to_stdout = not (as_json or task.dry_run or task.benchmark or answer_alone)
        waiting = QueueLines(progress, engine.store, task.id)
        bus.on_event.insert(0, waiting.hear)
        interrupts = InterruptActions(engine, task, progress, approval)
        on_interrupt(interrupts.cancel, interrupts.quit_message, interrupts.hang_up)
        number = None if as_json else task.benchmark
        report: Report | None = None
        try:
            with progress:
                report = await engine.run(task, waiting.tell, began, known)
                waiting.tell_ending()
        finally:
            if number is not None:
                say(result_line(number, report, progress.state))
        returned = report.state == "PROPOSED" and progress.state.last_seq == began
        if returned:
            # Why an earlier attempt to apply it was refused is no news.
            report = report.model_copy(update={"conflicts": ()})
        if number is not None:
            print_summary(report, to_stderr=True)
        elif as_json:
            say(orjson.dumps({"kind": "report", **report.model_dump(mode="json")}).decode(), as_is=True)
        elif answer_alone:
            print_answer(report)
        elif returned:
            say(f"Task {task.id} left the queue and is a proposal again.")
        elif report.state == "PROPOSED" and report.reason == "done":
            print_diff(diff_of(root, find_task(engine.store, task.id), bus.state))
            print_summary(report, to_stderr=True)
        else:
            print_summary(report)
        if paused := pause_sentence(engine.store, engine.folder):
            click.echo(fold_lines(paused, terminal_width(sys.stderr), 2), err=True)
    finally:
        engine.store.close()
    return FollowedTask(report, returned)


class InterruptActions:
    """What Ctrl-C and a closed terminal do, wherever the task runs or waits."""

    def __init__(
        self, engine: Engine, task: Task, progress: Progress, approval: TerminalApproval | None = None
    ) -> None:
        self._engine, self._task, self._progress, self._approval = engine, task, progress, approval
        self._last = "Quit at once."

    def cancel(self) -> None:
        """The first one: asks for the task to be cancelled."""
        if self._approval:
            self._approval.abandon()
        name = self._task.id
        if self._engine.cancel(name) != "asked":
            return
        here = self._engine.folder.work_lock().holder() == str(os.getpid())
        self._last = (
            f"Quit at once. The next headgate run, submit or cancel ends task {name} as cancelled."
            if here
            else f"Quit at once. The process that runs task {name} is still cancelling it."
        )
        self._progress.print_now(
            f"Cancelling task {name}; its changes so far stay. Ctrl-C again quits at once"
        )

    def hang_up(self) -> None:
        """The terminal is closed: nobody watches, and the task goes on."""
        if self._approval:
            self._approval.abandon()
        self._progress.__exit__()

    def quit_message(self) -> str:
        """The second one: what to print before this process quits."""
        return f"{self._progress.wipe()}{self._last}\n"


class QueueLines:
    """Prints which tasks are before a task, each time their number changes, and how a resumed one ended."""

    def __init__(self, progress: ShownTask, store: Store, task: str) -> None:
        self._progress, self._store, self._task = progress, store, task
        self._ahead: int | None = None
        self._resumed = ""
        """The interrupted task that was resumed, until its end was printed."""

    def hear(self, event: Event) -> None:
        """Takes an event of the task itself: the tasks before it have ended."""
        self.tell_ending()

    def tell_ending(self) -> None:
        """Says how the interrupted task ended, once it has."""
        row = self._store.task(self._resumed) if self._resumed else None
        if row and row.state in SETTLED_STATES:
            self._progress.print_line(f"Task {self._resumed} ended: {row.state}.", 0)
            self._resumed = ""

    def tell(self, wait: QueueWait) -> None:
        first = self._ahead is None
        self.tell_ending()
        self._resumed = wait.interrupted or self._resumed
        if wait.interrupted and self._store.is_cancelled(wait.interrupted):
            self._progress.print_line(f"Task {wait.interrupted} was being cancelled: ending it", 0)
        elif wait.interrupted:
            self._progress.print_line(f"Task {wait.interrupted} resumed where it was interrupted", 0)
        if wait.ahead and wait.ahead != self._ahead:
            self._progress.print_line(self._queued(), 0)
        elif first:
            who = f"process {wait.holder}" if wait.holder else "another process"
            self._progress.print_line(f"Waiting: {who} is working in this repository", 0)
        self._ahead = wait.ahead
        self._progress.waiting = f"Queued: {wait.ahead} before this one" if wait.ahead else ""

    def _queued(self) -> str:
        ahead = tasks_ahead(self._store, self._task)
        names = ", ".join([*ahead[:IDS_SHOWN], *(["..."] if len(ahead) > IDS_SHOWN else [])])
        if not ahead:  # the last of them has just ended
            return f"Queued as {self._task}: it is next"
        tasks = "task" if len(ahead) == 1 else "tasks"
        return f"Queued as {self._task}: {len(ahead)} {tasks} before it ({names})"


def print_event(event: Event, progress: Progress) -> None:
    with progress.footer_hidden():
        say(orjson.dumps(event.as_json()).decode(), as_is=True)


def print_answer(report: Report) -> None:
    """The answer alone on standard output; what else there is to say on standard error."""
    if report.answer:
        say(plain(report.answer))
    print_summary(report.model_copy(update={"answer": ""}), to_stderr=True)


def print_summary(report: Report, *, to_stderr: bool = False) -> None:
    """What a person wants to know at the end."""
    out: Callable[[str], None] = partial(click.echo, err=True) if to_stderr else say
    width = terminal_width(sys.stderr if to_stderr else sys.stdout)
    out("")
    for line in last_lines(report):
        out(fold_lines(escape_controls(line), width, 2))


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
