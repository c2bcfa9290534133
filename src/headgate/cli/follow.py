"""Following a task to its end, wherever it runs: what is shown of it, and what signals do to it."""

import os
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from headgate.cli.approval import TerminalApproval
from headgate.cli.endings import print_ending, result_line
from headgate.cli.live import Progress, ShownTask
from headgate.cli.printing import print_diff, say, say_json, tell
from headgate.cli.stored_tasks import find_task, pause_sentence, tasks_ahead
from headgate.cli.worker import on_interrupt, open_engine
from headgate.core import SETTLED_STATES, Event, Task, fold, plain
from headgate.engine import ConfigReader, Engine, QueueWait, diff_of
from headgate.first_use import dataclass
from headgate.log import Bus, Report

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
    bus.on_event += [partial(print_event, progress=progress)] if as_json else []
    notice = partial(progress.print_line, at=0)
    with open_engine(root, bus, read_config, notice) as engine:
        for note in notes:
            notice(note)
        approval = TerminalApproval(progress) if sys.stdin.isatty() and sys.stderr.isatty() else None
        engine.person, engine.on_notice = approval, notice
        task = await begin(engine)
        number = None if as_json else task.benchmark
        progress.phases_to_stdout = not (as_json or task.dry_run or task.benchmark or answer_alone)
        interrupts = InterruptActions(engine, task, progress, approval)
        on_interrupt(interrupts.cancel, interrupts.quit_message, interrupts.hang_up)
        report: Report | None = None
        try:
            with progress:
                report, is_new = await run_shown(engine, task, progress)
        finally:
            if number is not None:
                say(result_line(number, report, progress.state))
        returned = report.state == "PROPOSED" and not is_new
        if returned:
            # Why an earlier attempt to apply it was refused is no news.
            report = report.model_copy(update={"conflicts": ()})
        if as_json:
            say_json({"kind": "report", **report.model_dump(mode="json")}, in_one_line=True)
        elif answer_alone:
            if report.answer:
                say(plain(report.answer))
            print_ending(report.model_copy(update={"answer": ""}), to_stderr=True)
        elif returned:
            say(f"Task {task.id} left the queue and is a proposal again.")
        else:
            is_proposal = (report.state, report.reason) == ("PROPOSED", "done")
            if is_proposal:
                print_diff(diff_of(root, find_task(engine.store, task.id), bus.state))
            print_ending(report, to_stderr=is_proposal or number is not None)
        if paused := pause_sentence(engine.store, engine.folder):
            tell(paused)
    return FollowedTask(report, returned)


async def run_shown(engine: Engine, task: Task, view: ShownTask) -> tuple[Report, bool]:
    """Runs a task that `view` shows to its end; its report, and whether anything has happened to it.

    Meanwhile people are told which tasks are before it.
    """
    bus, known = engine.bus, fold(engine.store.events(task.id))
    bus.state, began = known, known.last_seq
    view.idle_until = time.time()
    waiting = QueueLines(view, engine, task.id)
    listeners = [waiting.hear, view.hear]
    bus.on_event[:0] = listeners
    bus.on_pulse.append(view.hear_pulse)
    try:
        report = await engine.run(task, waiting.tell, began, known)
        waiting.tell_ending()
    finally:
        for listener in listeners:
            bus.on_event.remove(listener)
        bus.on_pulse.remove(view.hear_pulse)
    return report, bus.state.last_seq != began


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

    def __init__(self, progress: ShownTask, engine: Engine, task: str) -> None:
        self._progress, self._store, self._task = progress, engine.store, task
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
        say_json(event.as_json(), in_one_line=True)
