"""How far a recipe has come, and the document about the task that its steps are given.

Both are folds: they follow from the events, and the model has no say in them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headgate.core.needs import SKIP_CONDITION, SKIP_JOIN, SKIP_ON_SKIP
from headgate.core.plan_and_notes import list_names, render_notes
from headgate.core.recipes import Execution, Recipe
from headgate.core.rules import Fail
from headgate.core.state import State
from headgate.core.text import cut_text, share_out, shorten
from headgate.core.tree import split_path
from headgate.core.view import CHARS_PER_CODE_TOKEN

_NOT_NEEDED = (SKIP_CONDITION, SKIP_ON_SKIP, SKIP_JOIN)
"""Why a step does not run that is not missing."""
StepStatus = Literal["pending", "running", "completed", "exhausted", "skipped", "failed"]


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
    reason: str = ""
    """Why it was handed back to the planner; empty if it was not."""

    @property
    def is_complete(self) -> bool:
        return not self.pending_steps

    @property
    def status(self) -> str:
        if self.is_complete:
            return "completed"
        return "handed back" if self.reason else "in progress"


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
    return TaskProgress(
        task_type=recipe.name,
        current_step=ended + 1,
        max_steps=recipe.max_steps,
        completed_steps=done,
        pending_steps=tuple(step for step in recipe.steps if step not in done),
        step_results={step: text for step, text in results.items() if text},
        statuses=statuses,
        reason=reason,
    )


def is_spent(state: State, recipe: Recipe, execution: Execution) -> bool:
    """Whether an execution has taken all the steps that it may, as often as the planner had it."""
    tree = state.tree
    attempts = sum(tree.attempts_at(execution.step_id(step)) for step in recipe.steps)
    rounds = [number for place, number in tree.rounds.items() if split_path(place).name == execution.id]
    return attempts >= recipe.max_steps * max(rounds, default=1)


def _status(state: State, name: str) -> StepStatus:
    if attempts := state.tree.attempts.get(name):
        return attempts[-1].ending or "running"
    reasons = [skipped[name] for skipped in state.tree.skipped.values() if name in skipped]
    return "skipped" if any(reason in _NOT_NEEDED for reason in reasons) else "pending"


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
    found = latest.verdict.reason if isinstance(latest.verdict, Fail) else ""
    return f"{name.partition('.')[2]} failed: {latest.why or found or 'it was not finished'}"


def given_up_recipes(state: State, recipes: Mapping[str, Recipe]) -> tuple[str, ...]:
    """What a planner had begun and did not complete, nor another of its type after it, in a phrase each."""
    known = [(one, task_progress(state, recipes[one.task_type], one)) for one in state.executions]
    said = []
    for one, progress in known:
        later = [two for two, how in known if how.is_complete and two.number > one.number]
        if not progress.is_complete and one.task_type not in {two.task_type for two in later}:
            why = f": {shorten(progress.reason, 200).rstrip('.')}" if progress.reason else ""
            goals = shorten("; ".join(one.goals), 100)
            said.append(f'{one.task_type} ("{goals}") was not completed{why}')
    return tuple(said)


def left_out_steps(state: State, recipes: Mapping[str, Recipe]) -> tuple[str, ...]:
    """The steps that executions went on without because they could not be done, in a phrase each."""
    said = []
    for one in state.executions:
        for step in recipes[one.task_type].steps:
            tried = state.tree.attempts.get(one.step_id(step), [])
            if tried and tried[-1].ending == "skipped" and (why := tried[-1].why):
                said.append(
                    f"{one.task_type} continued without its step {step}: {shorten(why, 200).rstrip('.')}"
                )
    return tuple(dict.fromkeys(said))


SECTION_CHARS = 4_000
"""Of each section of the document."""


def render_context(
    state: State, recipes: Mapping[str, Recipe], facts: Sequence[str] = (), room: int = 0
) -> str:
    """The document about a task as it stands: numbered sections, each of bounded length.

    `facts`: what is known about the repository. `room`: the characters that it may have, if that is less;
    short sections stay whole then, and long ones are cut alike.
    """
    known = [(one, task_progress(state, recipes[one.task_type], one)) for one in state.executions]
    steps = {one.step_id(step) for one, _ in known for step in recipes[one.task_type].steps}
    notes = [(name, note) for name, note in state.notes.items() if name not in steps]
    files = [("read", state.files_read), ("changed", state.files_changed)]
    told = [f"Files {what}: {list_names(list(names), 20, 800)}." for what, names in files if names]
    sections = [
        ("Request", [state.text.strip(), state.constraints.render()]),
        ("Analysis", list(facts)),
        ("Gathered context", [*told, render_notes(notes, SECTION_CHARS // 2)]),
        ("Plan", [_plan(one, progress) for one, progress in known]),
        ("Tool results", [_results(one, progress) for one, progress in known]),
        ("State", [_state(progress) for one, progress in known if one.number == state.executed_last]),
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


def _plan(execution: Execution, progress: TaskProgress) -> str:
    return f"{execution.number}. {execution.task_type} ({progress.status}): {' '.join(execution.goals)}"


def _results(execution: Execution, progress: TaskProgress) -> str:
    """The results of one execution: short ones whole, long ones alike."""
    texts = progress.step_results
    limit = share_out([len(text) + 1 for text in texts.values()], SECTION_CHARS // 2)
    lines = [
        f"### {execution.step_id(step)}\n{cut_text(text, limit, 'the result')}"
        for step, text in texts.items()
    ]
    return "\n".join(lines)


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
    handed_back = f"\nHanded back: {progress.reason}" if progress.reason else ""
    return "\n".join(f"- {name}: {value}" for name, value in rows.items()) + handed_back


def trim_document(text: str, tokens: int, name: str) -> str:
    """A document in so many tokens, by an estimate. What was cut is named."""
    return cut_text(text, int(tokens * CHARS_PER_CODE_TOKEN), name)
