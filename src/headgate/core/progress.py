"""How far the recipes of a planner have come, for everybody who is told, and the document about the task.

Both are folds: they follow from the events, and the model has no say in them. Its words are quoted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from headgate.core.event import Body, Line, Moment, follows
from headgate.core.executed import Executions
from headgate.core.needs import SKIP_CONDITION, SKIP_JOIN, SKIP_ON_SKIP
from headgate.core.notes import list_names, render_notes
from headgate.core.plan import Plan, PlanItem, Status
from headgate.core.recipes import Execution, Recipe
from headgate.core.rules import Fail
from headgate.core.state import State
from headgate.core.text import cut_text, quote_lines, share_out, shorten
from headgate.core.tree import join_path, place_of, split_path
from headgate.core.turn_events import Calls, ToolFinished
from headgate.core.view import CHARS_PER_CODE_TOKEN

_NOT_NEEDED = (SKIP_CONDITION, SKIP_ON_SKIP, SKIP_JOIN)
"""Why a step does not run that is not missing."""
NOT_VERIFIED = "nothing_to_verify"
"""Why a stage of the kind `verify` ran nothing."""
StepStatus = Literal["pending", "running", "completed", "exhausted", "skipped", "failed"]


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
    found = latest.verdict.reason if isinstance(latest.verdict, Fail) else ""
    return f"{name.partition('.')[2]} failed: {latest.why or found or 'it was not finished'}"


def executed_recipes(state: State) -> list[tuple[Execution, TaskProgress]]:
    """Everything that a planner had executed, with how far it has come: what all who are told are told."""
    recipes = state.flow.recipes if state.flow else {}
    known = [one for one in state[Executions].all if one.task_type in recipes]
    return [(one, task_progress(state, recipes[one.task_type], one)) for one in known]


def plan_items(state: State) -> tuple[PlanItem, ...]:
    """The plan as it stands: what the model wrote as one, and what a planner had executed."""
    return (*state[Plan].items, *(_item(one, progress) for one, progress in executed_recipes(state)))


def _item(execution: Execution, progress: TaskProgress) -> PlanItem:
    done: Status = "completed" if progress.is_complete else "failed"
    return PlanItem(
        id=f"E{execution.number}",
        description=execution.title,
        status="in_progress" if progress.running else done,
        reason=f"{'not verified; ' * progress.unverified}{progress.steps}{_say_why(progress)}",
    )


def _say_how(progress: TaskProgress) -> str:
    """How an execution does: its status, its steps, and why it was handed back."""
    return f"{progress.status} ({progress.steps}){_say_why(progress)}"


def _say_why(progress: TaskProgress) -> str:
    return f": {shorten(' '.join(progress.reason.split()), 300).rstrip('.')}" if progress.reason else ""


def plan_lines(state: State) -> tuple[str, ...]:
    """The same, a line each."""
    executed = (f"{one.title} - {_say_how(progress)}" for one, progress in executed_recipes(state))
    return (*(item.description for item in state[Plan].items), *executed)


def say_execution(state: State, number: int) -> str:
    """How an execution does, in the same words."""
    known = (progress for one, progress in executed_recipes(state) if one.number == number)
    return next(map(_say_how, known), "ended")


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


SECTION_CHARS = 4_000
"""Of each section of the document."""


def render_context(
    state: State,
    facts: Sequence[str] = (),
    room: int = 0,
    *,
    called: Mapping[str, Sequence[str]] | None = None,
    in_step: str = "",
) -> str:
    """The document about a task as it stands: numbered sections, each of bounded length.

    `facts`: what is known about the repository. `room`: the characters that it may have, if that is less;
    short sections stay whole then, and long ones are cut alike. `called`: what tools returned, by step.
    `in_step`: the step of whose prompt it is a part, which has the request and the goals already.
    """
    known = [(one, _as_begun(one, progress, in_step)) for one, progress in executed_recipes(state)]
    steps = {one.step_id(step) for one, progress in known for step in progress.statuses}
    notes = [(name, note) for name, note in state.notes.items() if name not in steps]
    files = [("read", state.files_read), ("changed", state.files_changed)]
    told = [f"Files {what}: {list_names(list(names), 20, 800)}." for what, names in files if names]
    request = [quote_lines(state.text.strip()), quote_lines(state.constraints.render())]
    noted = quote_lines(render_notes(notes, SECTION_CHARS // 2))
    sections = [
        ("Request", ["It stands at the beginning of this prompt."] if in_step else request),
        ("Analysis", [quote_lines("\n".join(facts))]),
        ("Gathered context", [*told, noted]),
        ("Plan", [_plan(one, progress, bool(in_step)) for one, progress in known]),
        ("Tool results", [_results(one, progress, called or {}) for one, progress in known]),
        ("State", [_state(progress) for one, progress in known if one.number == state[Executions].last]),
    ]
    head = f"# Context of task {state.task}".rstrip()
    titles = [f"## {number}. {title}\n\n" for number, (title, _) in enumerate(sections)]
    said = ["\n".join(filter(None, texts)) or "Nothing yet." for _, texts in sections]
    limit = SECTION_CHARS
    if room:
        left = room - len(head) - 1 - sum(len(title) + 2 for title in titles)
        limit = min(limit, share_out([len(text) for text in said], max(left, 0)))
    cut = [cut_text(text, limit, f"section {number}") for number, text in enumerate(said)]
    parts = [f"{title}{text}" for title, text in zip(titles, cut, strict=True)]
    return "\n\n".join([head, *parts]) + "\n"


def _as_begun(execution: Execution, progress: TaskProgress, step: str) -> TaskProgress:
    """The progress as it is for a step that is about to begin: its start is not in the log yet."""
    statuses: dict[str, StepStatus] = {
        name: "running" if execution.step_id(name) == step else how for name, how in progress.statuses.items()
    }
    return replace(progress, statuses=statuses)


def _plan(execution: Execution, progress: TaskProgress, in_step: bool) -> str:
    goals = "its goals are those of this step" if in_step and progress.running else execution.told_goals
    return f"{execution.number}. {execution.task_type}: {goals} - {_say_how(progress)}"


def _results(execution: Execution, progress: TaskProgress, called: Mapping[str, Sequence[str]]) -> str:
    """What the tools and the steps of one execution returned: short results whole, long ones alike."""
    texts: dict[str, list[str]] = {}
    for step in progress.statuses:
        result = progress.step_results.get(step, "")
        # A step that ends by its rules has no words of its own: its result is what its tools returned.
        returned = [text for text in called.get(execution.step_id(step), ()) if not _holds(result, text)]
        texts[step] = [*returned, *filter(None, [result])]
    sizes = [len(text) + 1 for results in texts.values() for text in results]
    limit = share_out(sizes, SECTION_CHARS // 2)
    lines = [
        "\n".join(
            (
                f"### {execution.step_id(step)}",
                *(quote_lines(cut_text(text, limit, "the result")) for text in one),
            )
        )
        for step, one in texts.items()
        if one
    ]
    return "\n".join(lines)


def _holds(result: str, returned: str) -> bool:
    return returned.partition(": ")[2][:200] in result


def _state(progress: TaskProgress) -> str:
    """The state of the latest execution."""
    rows = {
        "task_type": progress.task_type,
        "current_step": progress.current_step,
        "max_steps": progress.max_steps,
        "completed_steps": ", ".join(progress.completed_steps) or "none",
        "pending_steps": ", ".join(progress.pending_steps) or "none",
        "step_results": ", ".join(progress.step_results) or "none",
    }
    handed_back = f"\nHanded back: {' '.join(progress.reason.split())}" if progress.reason else ""
    return "\n".join(f"- {name}: {value}" for name, value in rows.items()) + handed_back


def trim_document(text: str, tokens: int, name: str) -> str:
    """A document in so many tokens, by an estimate. What was cut is named."""
    return cut_text(text, int(tokens * CHARS_PER_CODE_TOKEN), name)
