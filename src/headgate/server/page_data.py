"""What the templates are given: from rows, events and states to a few words and figures."""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headgate.config import provider_of, show_address
from headgate.core import (
    FINAL_STATES,
    CheckFinished,
    Event,
    Line,
    MergeVerified,
    Options,
    State,
    VerifyFinished,
    VerifyStarted,
    build_report,
    plain,
    say_cost,
)
from headgate.engine import ConfigReader
from headgate.errors import ConfigError, HeadgateError
from headgate.log import Pause, Store, TaskRow, complete_state
from headgate.models import find_endpoint
from headgate.patterns import regex
from headgate.server.templating import first_line
from headgate.tree import run_git

INTERRUPTED, UNDONE = "INTERRUPTED", "UNDONE"
"""Shown instead of RUNNING where the process that ran the task is gone, and of how an undone task ended."""
SHOWN_STATES = (*sorted(FINAL_STATES), UNDONE)
"""What the history can be narrowed to."""
PER_PAGE = 30
_GLYPHS = {
    "QUEUED": "○",
    "RUNNING": "●",
    INTERRUPTED: "‖",
    "PROPOSED": "◇",
    "SUCCESS": "✓",
    "STUCK": "✗",
    "INFRA_ERROR": "!",
    "CANCELLED": "–",
    UNDONE: "↶",
}


@dataclass(frozen=True, slots=True)
class Badge:
    """A state: a sign and a word, so that colour is not needed."""

    word: str

    @property
    def glyph(self) -> str:
        return _GLYPHS[self.word]

    @property
    def style(self) -> str:
        return f"state-{self.word.lower()}"


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
    badge: Badge
    age: float
    facts: Facts | None = None
    """Only of a task that has ended."""

    @property
    def title(self) -> str:
        return first_line(self.row.task.text)


def badge(row: TaskRow, *, interrupted: bool = False) -> Badge:
    if row.undone:
        return Badge(UNDONE)
    return Badge(INTERRUPTED if interrupted and row.state == "RUNNING" else row.state)


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
        return ListedTask(row, badge(row, interrupted=interrupted), now - row.created, facts)

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


# Verification runs.


@dataclass(frozen=True, slots=True)
class Run:
    """A verification run."""

    number: int
    id: str
    result: str
    """`passed`, `failed`, `running`, `cut short` or `could not be run`."""
    steps: str
    reason: str = ""
    seconds: float | None = None
    why: str = ""
    """Whose it was, if it was not the task's own verification."""
    diagnosis: str = ""
    """What the model took for the cause of the failure."""


def list_runs(
    events: Sequence[Event], diagnoses: Mapping[str, str] = MappingProxyType({}), *, over: bool
) -> list[Run]:
    """Every verification run of a task. Without an end, it runs or was cut short. Diagnoses are by run."""
    runs: dict[str, Run] = {}
    for event in events:
        match event.body:
            case VerifyStarted() as body:
                why = "before the first stage" if body.opening else "asked for by the model"
                made = Run(len(runs) + 1, body.run_id, "running", ", ".join(body.steps))
                runs[body.run_id] = replace(made, why=why if body.asked else "")
            case VerifyFinished() as body if body.run_id in runs:
                result = "passed" if body.passed else "failed"
                seconds = sum(step.seconds for step in body.steps)
                runs[body.run_id] = replace(
                    runs[body.run_id],
                    result=result,
                    reason=body.sentence,
                    seconds=seconds,
                    diagnosis=diagnoses.get(body.run_id, ""),
                )
            case MergeVerified() as body if body.run_id:
                names = ", ".join(step.name for step in body.steps)
                runs[body.run_id] = Run(
                    len(runs) + 1,
                    body.run_id,
                    "passed" if body.passed else "failed",
                    names,
                    reason=body.reason,
                    seconds=sum(step.seconds for step in body.steps),
                    why="in your own tree",
                )
            case CheckFinished(check="verify", verdict="broken") as body if runs:
                last = next(reversed(runs))
                runs[last] = replace(runs[last], result="could not be run", reason=body.reason)
            case _:
                pass
    latest = next(reversed(runs), None)
    return [
        replace(run, result="cut short") if run.result == "running" and (over or run.id != latest) else run
        for run in _without_repetitions(runs.values())
    ]


def _without_repetitions(runs: Iterable[Run]) -> Iterator[Run]:
    """The same runs. Of one that failed for the same reason as the one before it, only that is said."""
    number, last = 0, ""
    for run in runs:
        same = last and (run.reason == last or run.reason.startswith(f"{last};"))
        yield replace(run, reason=f"as in run {number}{run.reason.removeprefix(last)}") if same else run
        number, last = run.number, run.reason


# Tasks as the page reads them: their events, folded once, with what is worth a line on the way.

MOST_KEPT = 16
"""Tasks that are kept folded. People look at few at a time."""


@dataclass
class TaskView:
    """A task's events, and what follows from them."""

    events: list[Event] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    folded: State = field(default_factory=State)
    """For reading only."""

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    def take(self, event: Event) -> None:
        """Takes the next event in."""
        state = self.folded
        state.apply(event)
        self.events.append(event)
        line = event.line(state)
        if line and not line.is_detail:
            self.lines.append(replace(line, text=plain(line.text)))

    def state(self, row: TaskRow) -> State:
        """The state now, also of a task that has not started."""
        return complete_state(self.folded, row)

    def after(self, seq: int) -> list[Line]:
        """The lines after an event."""
        return [line for line in self.lines if line.seq > seq]

    def behind(self, seq: int) -> list[Event]:
        """The events from the one that a line is about up to the next line; none if there is no such line."""
        numbers = [line.seq for line in self.lines]
        if seq not in numbers:
            return []
        following = [number for number in numbers if number > seq]
        end = following[0] if following else self.last_seq + 1
        return [event for event in self.events if seq <= event.seq < end]


class TaskViews:
    """Reads only what is new: a page that follows a long task asks twice a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, TaskView] = OrderedDict()

    def of(self, row: TaskRow) -> TaskView:
        """The task as its events tell it now."""
        name = row.task.id
        view = self._kept.pop(name, None) or TaskView(folded=State(tries_again=row.task.resumes))
        for event in self._store.events(name, view.last_seq):
            view.take(event)
        self._kept[name] = view
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return view
