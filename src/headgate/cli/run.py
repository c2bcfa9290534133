"""`headgate run`: one task, from its text to its report."""

import asyncio
import sys
import time
from functools import partial

import click
import orjson

from headgate.cli.interrupts import on_interrupt
from headgate.cli.live import Progress, say
from headgate.cli.submission import Submission, submission_options
from headgate.cli.work import start_worker
from headgate.core.events import Event
from headgate.core.report import Report
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


@click.command("run")
@submission_options
@click.option(
    "--json", "as_json", is_flag=True, help="One event per line on standard output, the report last."
)
def command(submission: Submission, as_json: bool) -> None:
    """Run a task and wait for its end.

    TEXT says in plain words what is to be done; - reads it from standard input. Sections headed
    Constraints:, Non-goals: and Boundaries: bind the task, as the options of the same names do.

    Tasks run one at a time, in the order in which they came. Ctrl-C cancels the task; a second one quits at
    once.
    """
    report = asyncio.run(run_task(submission, as_json))
    sys.exit(EXIT_CODES[report.state])


async def run_task(submission: Submission, as_json: bool) -> Report:
    """Queues a task, follows it to its end wherever it runs, and shows it."""
    progress = Progress()
    bus = Bus([progress.hear, *([print_event] if as_json else [])], [progress.feel])
    for note in submission.notes:
        progress.print_line(note, 0)
    engine = Engine.open(submission.root, bus=bus, start_worker=partial(start_worker, submission.root))
    try:
        task = submission.submit_to(engine)
        on_interrupt(lambda: cancel_task(engine, task, progress))
        with progress:
            report = await engine.run(task, Waiting(progress).tell)
    finally:
        engine.store.close()
    if as_json:
        say(orjson.dumps({"kind": "report", **report.model_dump(mode="json")}).decode())
    else:
        print_summary(report)
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


def print_event(event: Event) -> None:
    say(orjson.dumps(event.as_json()).decode())


def print_summary(report: Report) -> None:
    """What a person wants to know at the end."""
    say()
    for line in report.summary.splitlines():
        say(line)
    look = "git status and git diff show the changes; " if report.files_changed else ""
    say(f"{look}headgate show {report.task_id} tells how it went.")
