"""Following a task to its end, wherever it runs, and showing what came of it: for `run` and `apply`."""

import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import click
import orjson

from headgate.cli.benchmark import result_line
from headgate.cli.interrupts import on_interrupt
from headgate.cli.live import Progress, say
from headgate.cli.work import start_worker
from headgate.core.events import Event, PhaseChanged
from headgate.core.phases import phase_line
from headgate.core.report import Report
from headgate.core.state import fold
from headgate.core.task import Task, TaskState
from headgate.engine.bus import Bus
from headgate.engine.engine import Engine, Wait

EXIT_CODES: dict[TaskState, int] = {
    "SUCCESS": 0,
    "PROPOSED": 0,
    "STUCK": 1,
    "INFRA_ERROR": 3,
    "CANCELLED": 130,
}


async def follow_task(
    root: Path, begin: Callable[[Engine], Awaitable[Task]], as_json: bool, notes: tuple[str, ...] = ()
) -> Report:
    """Begins a task, follows it to its end and shows it. What it did before is not shown again.

    A benchmark's try has one line on standard output, however it ends.
    """
    progress = Progress()
    phases = PhaseLines(progress)
    bus = Bus([progress.hear, phases.hear, *([print_event] if as_json else [])], [progress.feel])
    engine = Engine.open(root, bus=bus, start_worker=partial(start_worker, root))
    engine.keep_last_words = True
    try:
        for note in (*notes, *engine.store.notes):
            progress.print_line(note, 0)
        task = await begin(engine)
        progress.state = fold(engine.store.events(task.id))
        phases.to_stdout = not (as_json or task.dry_run or task.benchmark)
        on_interrupt(lambda: cancel_task(engine, task, progress))
        number = None if as_json else task.benchmark
        report: Report | None = None
        try:
            with progress:
                report = await engine.run(task, Waiting(progress).tell, progress.state.last_seq)
        finally:
            if number is not None:
                say(result_line(number, report, progress.state))
        if number is not None:
            print_summary(report, to_stderr=True)
        elif as_json:
            say(orjson.dumps({"kind": "report", **report.model_dump(mode="json")}).decode())
        elif report.state == "PROPOSED" and not report.conflicts:
            print_diff(engine.diff(task.id))
            print_summary(report, to_stderr=True)
        else:
            print_summary(report)
    finally:
        engine.store.close()
    return report


def cancel_task(engine: Engine, task: Task, progress: Progress) -> None:
    """What Ctrl-C does, wherever the task runs or waits."""
    if engine.cancel(task.id) == "asked":
        started = progress.state.started_at
        progress.print_line(
            "Cancelling... Ctrl-C again quits at once", time.time() - started if started else 0
        )


class Waiting:
    """Says how many tasks are before one, each time that changes."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._ahead: int | None = None

    def tell(self, wait: Wait) -> None:
        first = self._ahead is None
        if wait.interrupted:
            self._progress.print_line(f"Task {wait.interrupted} taken up again where it was interrupted", 0)
        if wait.ahead and wait.ahead != self._ahead:
            tasks = "task" if wait.ahead == 1 else "tasks"
            self._progress.print_line(f"Queued: {wait.ahead} {tasks} before this one", 0)
        elif first:
            who = f"process {wait.holder}" if wait.holder else "another process"
            self._progress.print_line(f"Waiting: {who} works in this repository", 0)
        self._ahead = wait.ahead


class PhaseLines:
    """Prints changes of phase where the configuration asks for it; beside other output, on standard error."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.to_stdout = False

    def hear(self, event: Event) -> None:
        wanted = self._progress.state.config.get("phase_log") in ("stdout", "both")
        if wanted and isinstance(event.body, PhaseChanged):
            body = event.body
            line = phase_line(body.before, body.phase, body.by, body.reason)
            say(line) if self.to_stdout else self._progress.print_more(line)


def print_event(event: Event) -> None:
    say(orjson.dumps(event.as_json()).decode())


def print_diff(diff: bytes) -> None:
    """A diff alone on standard output, byte for byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(diff)
    sys.stdout.buffer.flush()


def print_summary(report: Report, *, to_stderr: bool = False) -> None:
    """What a person wants to know at the end."""
    out: Callable[[str], None] = partial(click.echo, err=True) if to_stderr else say
    out("")
    for line in _last_lines(report):
        out(line)


def _last_lines(report: Report) -> list[str]:
    task = report.task_id
    if report.conflicts:
        lines = ["The working tree has moved on, and the proposal no longer applies. Nothing was changed."]
        lines += [f"  {conflict}" for conflict in report.conflicts]
        return [*lines, f"headgate diff {task} shows the proposal; headgate abort {task} gives it up."]
    if report.state == "CANCELLED":
        left = f" What it changed stays: {', '.join(report.files_changed)}." if report.files_changed else ""
        return [f"Cancelled.{left}"]
    lines = report.summary.splitlines()
    if report.state == "PROPOSED":
        return [*lines, f"headgate apply {task} writes and verifies it; headgate abort {task} gives it up."]
    look = f"headgate diff {task} shows the changes; " if report.files_changed else ""
    lines.append(f"{look}headgate show {task} tells how it went.")
    if report.state == "STUCK":
        lines.append(f"headgate run --resume {task} tries again, knowing this report.")
    return lines
