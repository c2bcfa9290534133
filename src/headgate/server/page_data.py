"""What the templates are given: from rows, events and states to a few words and figures."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headgate.config import provider_of, show_address
from headgate.core import (
    FINAL_STATES,
    CheckFinished,
    Event,
    MergeVerified,
    Options,
    State,
    StepResult,
    VerifyFinished,
    VerifyStarted,
    say_cost,
)
from headgate.engine import ConfigReader
from headgate.errors import ConfigError, HeadgateError
from headgate.first_use import dataclass, regex
from headgate.log import Pause, Store, TaskRow, build_report
from headgate.models import find_endpoint
from headgate.server.templating import first_line
from headgate.tree import run_git

INTERRUPTED, UNDONE = "INTERRUPTED", "UNDONE"
"""Shown instead of RUNNING where the process that ran the task is gone, and of how an undone task ended."""
SHOWN_STATES = (*sorted(FINAL_STATES), UNDONE)
"""What the history can be narrowed to."""
PER_PAGE = 30
_LINES = regex(r": \+(\d+) -(\d+)$")


@dataclass(frozen=True, slots=True)
class Facts:
    """What an ended task took, and what it changed."""

    model: str
    seconds: float
    cost: str
    files: int
    added: int
    removed: int


def read_facts(state: State) -> Facts:
    """The figures of an ended task for the history."""
    report = build_report(state)
    counts = [found for found in map(_LINES.search, report.diffstat) if found]
    return Facts(
        report.model,
        report.seconds,
        say_cost(report.cost, report.usage),
        len(report.files_changed),
        sum(int(found[1]) for found in counts),
        sum(int(found[2]) for found in counts),
    )


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task in a list."""

    row: TaskRow
    state: str
    age: float
    facts: Facts | None = None
    """Only of a task that has ended."""

    @property
    def title(self) -> str:
        return first_line(self.row.task.text)


def shown_state(row: TaskRow, *, interrupted: bool = False) -> str:
    """The state of a task as people are told it."""
    if row.undone:
        return UNDONE
    return INTERRUPTED if interrupted and row.state == "RUNNING" else row.state


def list_tasks(
    store: Store,
    found: Sequence[TaskRow] | None,
    page: int,
    facts_of: Callable[[TaskRow], Facts],
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """The lists of the start page. `found`: what a search found; None without one.

    Only what is shown is read: the page asks twice a second, and there may be thousands of tasks.
    """
    now = time.time()

    def line(row: TaskRow) -> ListedTask:
        facts = facts_of(row) if row.state in FINAL_STATES else None
        return ListedTask(row, shown_state(row, interrupted=interrupted), now - row.created, facts)

    counts = store.count_tasks()
    open_rows = store.latest_tasks(("RUNNING", "QUEUED", "PROPOSED"))
    waiting = sorted((row for row in open_rows if row.state == "QUEUED"), key=lambda row: row.position or 0)
    total = sum(counts.get(state, 0) for state in FINAL_STATES) if found is None else len(found)
    pages = max(-(-total // PER_PAGE), 1)
    page = min(max(page, 1), pages)
    skipped = (page - 1) * PER_PAGE
    if found is None:
        shown = store.latest_tasks(FINAL_STATES, PER_PAGE, skipped)
    else:
        shown = list(found[skipped : skipped + PER_PAGE])
    return {
        "running": next((line(row) for row in open_rows if row.state == "RUNNING"), None),
        "queued": [line(row) for row in waiting],
        "proposed": [line(row) for row in open_rows if row.state == "PROPOSED"],
        "history": [line(row) for row in shown],
        "found": total,
        "page": page,
        "pages": pages,
        "is_new": not counts,
    }


def say_pause(pause: Pause) -> str:
    """Why nothing in the queue is carried out, without the commands that a terminal would be told."""
    how = "ended INFRA_ERROR" if pause.ended else "could not be applied"
    return f"The queue is paused: {pause.failed} {how}: {pause.why.rstrip('.')}."


@dataclass(frozen=True, slots=True)
class Setup:
    """What the start page says about it."""

    model: str = ""
    server: str = ""
    """The address; empty for a script."""
    branch: str = ""
    """Empty where HEAD names no branch."""
    choices: tuple[tuple[str, str], ...] = ()
    """The other models of the configuration: the name, and the model that it stands for."""
    problem: str = ""
    """Why no task can be submitted."""


def read_setup(repo: Path) -> Setup:
    """What the configuration and git say now."""
    branch = _branch(repo)
    try:
        config = ConfigReader(repo, os.environ)(Options()).config
        settings = config.model_settings()
        is_script = provider_of(settings.model) == "script"
        server = "" if is_script else show_address(find_endpoint(settings).root)
    except ConfigError as error:
        return Setup(branch=branch, problem=str(error))
    choices = tuple((name, entry.model) for name, entry in config.models.items() if name != config.model)
    return Setup(settings.model, server, branch, choices)


def _branch(repo: Path) -> str:
    try:
        return run_git(repo, "branch", "--show-current").stdout.decode("utf-8", "replace").strip()
    except HeadgateError:
        return ""


@dataclass(slots=True)
class Run:
    """A verification run."""

    number: int
    id: str
    steps: str
    why: str = ""
    """Whose it was, if it was not the task's own verification."""
    result: str = "running"
    """`passed`, `failed`, `running`, `cut short` or `could not be run`."""
    reason: str = ""
    seconds: float | None = None
    diagnosis: str = ""
    """What the model took for the cause of the failure."""

    def end(self, passed: bool | None, reason: str, steps: Iterable[StepResult]) -> None:
        self.result, self.reason = "passed" if passed else "failed", reason
        self.seconds = sum(step.seconds for step in steps)


def list_runs(
    events: Iterable[Event], diagnoses: Mapping[str, str] = MappingProxyType({}), *, over: bool
) -> list[Run]:
    """Every verification run of a task. Without an end, it runs or was cut short. Diagnoses are by run."""
    runs: dict[str, Run] = {}
    for event in events:
        match event.body:
            case VerifyStarted() as body:
                asked = "before the first stage" if body.opening else "asked for by the model"
                why = asked if body.asked else ""
                runs[body.run_id] = Run(len(runs) + 1, body.run_id, ", ".join(body.steps), why)
            case VerifyFinished() as body if body.run_id in runs:
                runs[body.run_id].end(body.passed, body.sentence, body.steps)
                runs[body.run_id].diagnosis = diagnoses.get(body.run_id, "")
            case MergeVerified() as body if body.run_id:
                names = ", ".join(step.name for step in body.steps)
                runs[body.run_id] = Run(len(runs) + 1, body.run_id, names, "in your own tree")
                runs[body.run_id].end(body.passed, body.reason, body.steps)
            case CheckFinished(check="verify", verdict="broken") as body if runs:
                last = runs[next(reversed(runs))]
                last.result, last.reason = "could not be run", body.reason
            case _:
                pass
    found = list(runs.values())
    for run in found:
        if run.result == "running" and (over or run is not found[-1]):
            run.result = "cut short"
    _shorten_repetitions(found)
    return found


def _shorten_repetitions(runs: Iterable[Run]) -> None:
    """Of a run that failed for the same reason as the one before it, only that is said."""
    number, last = 0, ""
    for run in runs:
        reason = run.reason
        if last and (reason == last or reason.startswith(f"{last};")):
            run.reason = f"as in run {number}{reason.removeprefix(last)}"
        number, last = run.number, reason
