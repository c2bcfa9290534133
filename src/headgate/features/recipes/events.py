"""What the log says of recipes, and how far those that a planner had executed have come.

It follows from the events, and the model has no say in it. Its words are quoted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal

from headgate.core import (
    SKIP_CONDITION,
    SKIP_JOIN,
    SKIP_ON_SKIP,
    Body,
    Calls,
    Fail,
    Line,
    Moment,
    Plan,
    PlanItem,
    Recipe,
    Slice,
    StageStarted,
    State,
    Status,
    ToolFinished,
    WorkSinceFailure,
    follows,
    join_path,
    place_of,
    says_start,
    shorten,
    split_path,
)
from headgate.features.recipes.execution import Execution
from headgate.first_use import dataclass

_NOT_NEEDED = (SKIP_CONDITION, SKIP_ON_SKIP, SKIP_JOIN)
"""Why a step does not run that is not missing."""
NOT_VERIFIED = "nothing_to_verify"
"""Why a stage of the kind `verify` ran nothing."""
StepStatus = Literal["pending", "running", "completed", "exhausted", "skipped", "failed"]


@dataclass
class Executions(Slice, order=60):
    """The recipes that a planner had carried out, and what was written in the one under way."""

    all: tuple[Execution, ...] = ()
    """In the order in which they were begun."""
    begun: int = 0
    """How often one was begun, or gone on with."""
    last: int = 0
    """The number of the one that was carried out last, perhaps again."""
    since: str = ""
    """The tree at its start."""
    ended: dict[int, "RecipeEnded"] = field(default_factory=dict)
    """How they ended, by number; one that is under way again is not in it."""
    idle: list["RecipeEnded"] = field(default_factory=list)
    """Those that ended since one last changed a file."""
    work: WorkSinceFailure = field(default_factory=WorkSinceFailure)
    """What was done since the start of the latest one."""

    def begin(self, body: "RecipeStarted") -> None:
        """An execution was begun."""
        if body.number > len(self.all):
            self.all = (*self.all, Execution(body.number, body.task_type, body.goals))
        self.begun += 1
        self.last, self.since, self.work = body.number, body.tree, WorkSinceFailure()
        self.ended.pop(body.number, None)

    def end(self, body: "RecipeEnded") -> None:
        """An execution ended."""
        if body.number not in self.ended:
            self.ended[body.number] = body
            self.idle = [] if body.changed else [*self.idle, body]

    @property
    def running(self) -> int:
        """The number of the execution under way; 0 if there is none."""
        return 0 if self.last in self.ended else self.last

    @property
    def failed_in_vain(self) -> list["RecipeEnded"]:
        """Those that failed where files could have been changed, since one last changed a file."""
        return [one for one in self.idle if one.acts and not one.completed]

    def in_a_row(self, task_type: str) -> int:
        """How often this type was executed since a file last changed."""
        types = {one.number: one.task_type for one in self.all}
        return sum(types[ended.number] == task_type for ended in self.idle)

    def plan_items(self, state: State) -> Iterable[PlanItem]:
        return (_item(one, progress) for one, progress in executed_recipes(state))

    def report(self, state: State) -> Mapping[str, Any]:
        return {"plan_steps": tuple(shorten(line, STEP_CHARS) for line in plan_lines(state))}

    def warnings(self, state: State) -> Iterable[str]:
        return (*given_up_recipes(state), *left_out_steps(state))


STEP_CHARS = 500
"""What is shown of one step of the plan."""


class RecipeStarted(Body):
    """A planner had a recipe carried out."""

    kind: ClassVar[str] = "recipe_started"
    number: int
    task_type: str
    goals: tuple[str, ...]
    round: int = 1
    """How often it had it with these goals: steps that completed before do not run again."""
    tree: str = ""
    """The tree at its start."""

    def apply(self, state: State, now: Moment) -> None:
        made = Execution(self.number, self.task_type, self.goals)
        state.tree.rounds[join_path(place_of(now.path), made.id)] = self.round
        state[Executions].begin(self)

    def line(self, state: State, now: Moment) -> Line | None:
        again = f" (again, {self.round})" if self.round > 1 else ""
        return Line(f"Execution {self.number}{again}: {state[Executions].all[self.number - 1].title}")


class RecipeEnded(Body):
    """A recipe ended, and its results are about to go back to the planner."""

    kind: ClassVar[str] = "recipe_ended"
    number: int
    round: int = 1
    completed: bool
    changed: bool
    """The task's files differ from what they were at its start."""
    acts: bool = True
    """A step began in which files could have been changed."""
    reason: str = ""
    """Why it was handed back, if it was not completed."""

    def apply(self, state: State, now: Moment) -> None:
        state[Executions].end(self)

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"Execution {self.number}: {say_execution(state, self.number)}")


@follows(ToolFinished)
def _take_call(state: State, body: ToolFinished, now: Moment) -> None:
    if begun := state[Calls].answered:
        state[Executions].work.take(begun, ok=body.ok)


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """The state of one execution of a recipe."""

    task_type: str
    current_step: int
    """The number of the step that is next, or under way: the attempts that have ended, and one."""
    max_steps: int
    completed_steps: tuple[str, ...]
    """Those that are done, need not be done, or may fail."""
    pending_steps: tuple[str, ...]
    step_results: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, StepStatus] = field(default_factory=dict)
    round: int = 1
    """How often the planner had it carried out, or gone on with."""
    reason: str = ""
    """Why it was handed back to the planner; empty if it was not."""
    failing: str = ""
    """The same, as it stands while it is under way."""
    running: bool = False
    """It is under way."""
    unverified: bool = False
    """A step was to verify, and there was nothing to verify with."""

    @property
    def is_complete(self) -> bool:
        return not self.pending_steps

    @property
    def status(self) -> str:
        if self.running:
            return "in progress"
        if self.is_complete:
            return "completed, not verified" if self.unverified else "completed"
        return "handed back" if self.reason else "not completed"

    @property
    def steps(self) -> str:
        """How far each step has come, in a line, and in which round, if it is not the first."""
        steps = ", ".join(f"{step} {status}" for step, status in self.statuses.items())
        return f"round {self.round}; {steps}" if self.round > 1 else steps


def task_progress(state: State, recipe: Recipe, execution: Execution) -> TaskProgress:
    """What the events say about an execution."""
    statuses = {step: _status(state, execution.step_id(step)) for step in recipe.steps}
    leaves = [leaf for stage in recipe.stages for leaf in stage.leaves()]
    optional = {leaf.id for leaf in leaves if not leaf.required}
    over = ("completed", "exhausted", "skipped")
    done = tuple(
        step for step, how in statuses.items() if how in over or (how == "failed" and step in optional)
    )
    ids = [execution.step_id(step) for step in recipe.steps]
    ended = sum(one.ending is not None for name in ids for one in state.tree.attempts.get(name, ()))
    notes = {step: state.notes.get(execution.step_id(step)) for step in done}
    results = {step: _result(note) for step, note in notes.items() if note}
    failed = next((step for step, how in statuses.items() if how == "failed" and step not in done), "")
    reason = _why(state, execution.step_id(failed)) if failed else ""
    if not failed and len(done) < len(ids):
        reason = _why_not_run(state, execution, [step for step in recipe.steps if step not in done])
    if len(done) < len(ids) and is_spent(state, recipe, execution):
        spent = f"{recipe.max_steps} steps were taken, which is the limit"
        reason = f"{reason.rstrip('.')}; {spent}" if reason else spent
    ended_as = state[Executions].ended.get(execution.number)
    running = execution.number == state[Executions].running and state.status == "RUNNING"
    return TaskProgress(
        task_type=recipe.name,
        current_step=ended + 1,
        max_steps=recipe.max_steps,
        completed_steps=done,
        pending_steps=tuple(step for step in recipe.steps if step not in done),
        step_results={step: text for step, text in results.items() if text},
        statuses=statuses,
        round=_round(state, execution),
        reason="" if running else (ended_as.reason if ended_as else "") or reason,
        failing=reason,
        running=running,
        unverified=any(
            one.end_reason == NOT_VERIFIED for name in ids for one in state.tree.attempts.get(name, ())[-1:]
        ),
    )


def is_spent(state: State, recipe: Recipe, execution: Execution) -> bool:
    """Whether an execution has taken all the steps that it may, as often as the planner had it."""
    tree = state.tree
    attempts = sum(tree.attempts_at(execution.step_id(step)) for step in recipe.steps)
    return attempts >= recipe.max_steps * _round(state, execution)


def _round(state: State, execution: Execution) -> int:
    """How often an execution was begun."""
    places = state.tree.rounds.items()
    return max((number for place, number in places if split_path(place).name == execution.id), default=1)


def _status(state: State, name: str) -> StepStatus:
    if attempts := state.tree.attempts.get(name):
        latest = attempts[-1]
        is_past = latest.ending == "failed" and _is_past(state, latest.path, name.partition(".")[0])
        return "pending" if is_past else latest.ending or "running"
    reasons = [skipped[name] for skipped in state.tree.skipped.values() if name in skipped]
    return "skipped" if any(reason in _NOT_NEEDED for reason in reasons) else "pending"


def _is_past(state: State, path: str, execution: str) -> bool:
    """Whether its execution has gone round again since an attempt: what failed then is to be done again."""
    while (path := split_path(path).parent) and split_path(path).name.startswith(execution):
        if split_path(path).number < state.tree.rounds.get(place_of(path), 1):
            return True
    return False


def _why_not_run(state: State, execution: Execution, steps: Sequence[str]) -> str:
    """Why a step is left that cannot run any more; empty if there is none."""
    for step in steps:
        for skipped in state.tree.skipped.values():
            what, _, needed = skipped.get(execution.step_id(step), "").partition(":")
            if what == "needs":
                return f"{step} was not run: {needed.strip().removeprefix(execution.step_id(''))}"
    return ""


def _result(note: object) -> str:
    summary, output = getattr(note, "summary", ""), getattr(note, "output", None)
    return "\n".join(filter(None, (summary, "" if output is None else str(output))))


def _why(state: State, name: str) -> str:
    latest = state.tree.attempts[name][-1]
    if latest.kind == "verify":
        return f"{name.partition('.')[2]} failed"  # what failed there is said with the verification itself
    found = latest.counts.verdict.reason if isinstance(latest.counts.verdict, Fail) else ""
    return f"{name.partition('.')[2]} failed: {latest.why or found or 'it was not finished'}"


def executed_recipes(state: State) -> list[tuple[Execution, TaskProgress]]:
    """Everything that a planner had executed, with how far it has come: what all who are told are told."""
    recipes = state.flow.recipes if state.flow else {}
    known = [one for one in state[Executions].all if one.task_type in recipes]
    return [(one, task_progress(state, recipes[one.task_type], one)) for one in known]


def _item(execution: Execution, progress: TaskProgress) -> PlanItem:
    done: Status = "completed" if progress.is_complete else "failed"
    return PlanItem(
        id=f"E{execution.number}",
        description=execution.title,
        status="in_progress" if progress.running else done,
        reason=f"{'not verified; ' * progress.unverified}{progress.steps}{_say_why(progress)}",
    )


def say_how(progress: TaskProgress) -> str:
    """How an execution does: its status, its steps, and why it was handed back."""
    return f"{progress.status} ({progress.steps}){_say_why(progress)}"


def _say_why(progress: TaskProgress) -> str:
    return f": {shorten(' '.join(progress.reason.split()), 300).rstrip('.')}" if progress.reason else ""


def plan_lines(state: State) -> tuple[str, ...]:
    """The plan as it stands, a line for each step and each execution."""
    executed = (f"{one.title} - {say_how(progress)}" for one, progress in executed_recipes(state))
    return (*(item.description for item in state[Plan].items), *executed)


def say_execution(state: State, number: int) -> str:
    """How an execution does, by its number, as `say_how` says it."""
    known = (progress for one, progress in executed_recipes(state) if one.number == number)
    return next(map(say_how, known), "ended")


def given_up_recipes(state: State) -> tuple[str, ...]:
    """What a planner had begun and did not complete, nor another of its type after it, in a phrase each."""
    known = executed_recipes(state)
    said = []
    for one, progress in known:
        later = [two for two, how in known if how.is_complete and two.number > one.number]
        given_up = not (progress.is_complete or progress.running)
        if given_up and one.task_type not in {two.task_type for two in later}:
            why = f": {shorten(progress.reason, 200).rstrip('.')}" if progress.reason else ""
            said.append(f"{one.task_type} ({shorten(one.told_goals, 100)}) was not completed{why}")
    return tuple(said)


def left_out_steps(state: State) -> tuple[str, ...]:
    """The steps that executions went on without because they could not be done, in a phrase each."""
    said = []
    for one, progress in executed_recipes(state):
        for step in progress.statuses:
            tried = state.tree.attempts.get(one.step_id(step), [])
            if tried and tried[-1].ending == "skipped" and (why := tried[-1].why):
                said.append(
                    f"{one.task_type} continued without its step {step}: {shorten(why, 200).rstrip('.')}"
                )
    return tuple(dict.fromkeys(said))


class EscalationRaised(Body):
    """A step handed its work back to the planner."""

    kind: ClassVar[str] = "escalation_raised"
    reason: str

    def apply(self, state: State, now: Moment) -> None:
        if attempt := state.nodes.get(now.path):
            attempt.counts.escalated = self.reason


@says_start
def _say_decides(body: StageStarted, state: State) -> str:
    is_new = body.reason == "next" and body.stage_kind == "planner"
    return f"{body.title}: deciding what to do..." if is_new else ""
