"""What the templates are given: from rows, events and states to a few words and figures."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from headgate.core import (
    FINAL_STATES,
    CheckFinished,
    Event,
    MergeVerified,
    State,
    VerifyFinished,
    VerifyStarted,
    build_report,
    say_cost,
)
from headgate.log import Pause, Store, TaskRow
from headgate.patterns import regex
from headgate.server.task_views import Spent
from headgate.server.words import first_line

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
class TaskLine:
    """A task in a list."""

    id: str
    title: str
    badge: Badge
    age: float
    position: int | None
    resumes: str
    follows: str
    dry_run: bool
    applying: bool
    facts: Facts | None = None
    """Only of a task that has ended."""


def task_line(row: TaskRow, now: float, *, interrupted: bool = False) -> TaskLine:
    """A task in a list."""
    task = row.task
    return TaskLine(
        task.id,
        first_line(task.text),
        badge(row, interrupted=interrupted),
        now - row.created,
        row.position,
        task.resumes,
        task.follows,
        task.dry_run,
        row.applying,
    )


def badge(row: TaskRow, *, interrupted: bool = False) -> Badge:
    if row.undone:
        return Badge(UNDONE)
    return Badge(INTERRUPTED if interrupted and row.state == "RUNNING" else row.state)


@dataclass(frozen=True, slots=True)
class TaskLists:
    """All tasks, by what people do with them."""

    running: TaskLine | None
    queued: tuple[TaskLine, ...]
    proposed: tuple[TaskLine, ...]
    history: tuple[TaskLine, ...]
    """What has ended, the latest first; in a search, whatever was found."""
    found: int
    """How many tasks the history has on all its pages."""
    page: int
    pages: int
    is_new: bool
    """There has never been a task."""


def list_tasks(
    store: Store,
    found: Sequence[TaskRow] | None,
    page: int,
    now: float,
    facts_of: Callable[[TaskRow], Facts],
    *,
    interrupted: bool,
) -> TaskLists:
    """The lists of the start page. `found`: what a search found; None without one.

    Only what is shown is read: the page asks twice a second, and there may be thousands of tasks.
    """

    def line(row: TaskRow) -> TaskLine:
        return task_line(row, now, interrupted=interrupted)

    def past(row: TaskRow) -> TaskLine:
        return replace(line(row), facts=facts_of(row)) if row.state in FINAL_STATES else line(row)

    counts = store.count_tasks()
    open_rows = store.latest_tasks(("RUNNING", "QUEUED", "PROPOSED"))
    running = next((line(row) for row in open_rows if row.state == "RUNNING"), None)
    waiting = sorted((row for row in open_rows if row.state == "QUEUED"), key=lambda row: row.position or 0)
    total = sum(counts.get(state, 0) for state in FINAL_STATES) if found is None else len(found)
    pages = max(-(-total // PER_PAGE), 1)
    page = min(max(page, 1), pages)
    skipped = (page - 1) * PER_PAGE
    if found is None:
        shown = store.latest_tasks(FINAL_STATES, PER_PAGE, skipped)
    else:
        shown = list(found[skipped : skipped + PER_PAGE])
    return TaskLists(
        running,
        tuple(map(line, waiting)),
        tuple(line(row) for row in open_rows if row.state == "PROPOSED"),
        tuple(map(past, shown)),
        total,
        page,
        pages,
        not counts,
    )


def say_pause(pause: Pause) -> str:
    """Why nothing in the queue is carried out, without the commands that a terminal would be told."""
    how = "ended INFRA_ERROR" if pause.ended else "could not be applied"
    return f"The queue is paused: {pause.failed} {how}: {pause.why.rstrip('.')}."


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


# Tokens and cost over time.


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines for a picture of `WIDTH` by `HEIGHT`: what had been used up by then."""

    tokens_line: str
    tokens_area: str
    cost_line: str
    """Empty if nothing has a price."""
    seconds: float
    tokens: int
    cost: float


WIDTH, HEIGHT = 320, 96


def draw_chart(spending: Sequence[Spent], state: State) -> Chart | None:
    """The chart; None before the first request."""
    if not spending:
        return None
    last = spending[-1]
    span = max(state.seconds, last.elapsed, 0.001)
    points = [Spent(0.0, 0, 0.0), *_thin(spending), Spent(span, last.tokens, last.cost)]
    tokens = _steps(points, [point.tokens for point in points], span)
    cost = _steps(points, [point.cost for point in points], span) if last.cost else ""
    area = f"M0,{HEIGHT} L{tokens.removeprefix('M')} L{WIDTH},{HEIGHT} Z"
    return Chart(tokens, area, cost, span, last.tokens, last.cost)


def _thin(spending: Sequence[Spent], most: int = 200) -> Sequence[Spent]:
    """Some of the points, the last one included: a line of 320 dots shows no more."""
    every = -(-len(spending) // most)
    return [*spending[:-1:every], spending[-1]] if every > 1 else spending


def _steps(points: Sequence[Spent], values: Sequence[float], span: float) -> str:
    """A line that goes up where something was used. Numbers only: nothing of it is anybody's text."""
    most = max(values) or 1
    parts, height = [], float(HEIGHT)
    for point, value in zip(points, values, strict=True):
        x = WIDTH * min(point.elapsed / span, 1.0)
        parts.append(f"{x:.1f},{height:.1f}")
        height = HEIGHT - (HEIGHT - 4) * value / most
        parts.append(f"{x:.1f},{height:.1f}")
    return f"M{' L'.join(parts)}"
