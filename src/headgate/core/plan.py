"""The plan that a model wrote, and its steps as stages."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any, ClassVar, Literal

from headgate.core.attempt import is_announced_end
from headgate.core.event import Body, Line, Moment, Slice, follows
from headgate.core.flow import Stage
from headgate.core.settings import Data
from headgate.core.stage_events import StageEnded, StageStarted
from headgate.core.state import State
from headgate.core.text import count, times
from headgate.core.verification import VerifyRuns
from headgate.first_use import dataclass

Status = Literal["pending", "in_progress", "completed", "failed", "skipped"]


class PlanItem(Data):
    """One step of the plan that the model wrote."""

    id: str
    description: str
    goal: str = ""
    status: Status = "pending"
    priority: Literal["low", "normal", "high", "critical"] = "normal"
    writes: bool = True
    """False where the model said that the step changes no file."""
    reason: str = ""
    """Why it was skipped."""


@dataclass
class Plan(Slice, order=70):
    """The plan as it stands."""

    items: tuple[PlanItem, ...] = ()
    version: int = 0
    since: dict[str, int] = field(default_factory=dict)
    """In which version of the plan each step was written as it is."""
    replans: int = 0
    """How often it was rewritten because something had failed."""

    def write(self, items: tuple[PlanItem, ...], version: int) -> None:
        """Takes a new version."""
        self.since = written_since(self.since, self.items, items, version)
        self.items, self.version = items, version

    def report(self, state: State) -> Mapping[str, Any]:
        return {"replans": self.replans, "replan_max": state.flow.replan_max if state.flow else 0}

    def left_over(self, state: State) -> Iterable[str]:
        if state.flow is None or not any(leaf.foreach for leaf in state.flow.leaves()):
            return  # only what the runtime carries out one by one is known to be left
        left = [
            f"{item.id} ({item.status}{f': {item.reason}' if item.reason else ''})"
            for item in self.items
            if item.status != "completed"
        ]
        if left:
            yield f"Steps not done: {', '.join(left)}."

    def mark(self, item: str, status: Status) -> None:
        """Notes how far a step has come."""
        self.items = tuple(
            one.model_copy(update={"status": status}) if one.id == item else one for one in self.items
        )


REPLACED = "the plan was rewritten without it"
_SLUG_CHARS = 20


def expand_steps(
    stages: Sequence[Stage], plan: Sequence[PlanItem], since: Mapping[str, int]
) -> tuple[Stage, ...]:
    """The stages of one level, with one stage for each step of the plan in the place of `foreach: plan`.

    `since` tells in which version of the plan each step was written as it is. Before there is a plan, the
    stage for its steps stays as it is and cannot run. A stage that needs it later needs every one of its
    steps, or, where all are skipped, what it needed.
    """
    if not plan or not any(stage.foreach == "plan" for stage in stages):
        return tuple(stages)
    made: dict[str, tuple[str, ...]] = {}
    children: dict[str, list[Stage]] = {}
    for stage in stages:
        if stage.foreach == "plan":
            items = [item for item in plan if is_open(item)]
            children[stage.id] = [child_stage(stage, item, since.get(item.id, 1)) for item in items]
            made[stage.id] = tuple(child.id for child in children[stage.id]) or stage.needs
    expanded: list[Stage] = []
    for stage in stages:
        needs = tuple(dict.fromkeys(part for need in stage.needs for part in made.get(need, (need,))))
        for child in children.get(stage.id, [stage]):
            expanded.append(child.model_copy(update={"needs": needs}))
    return tuple(expanded)


def is_open(item: PlanItem) -> bool:
    """Whether a step is to be carried out, or has been by a stage of its own."""
    return item.status != "skipped"


def child_stage(template: Stage, item: PlanItem, version: int) -> Stage:
    """The stage that carries out one step."""
    prompt = template.prompt
    for name, text in (("id", item.id), ("description", item.description), ("goal", item.goal or "none")):
        prompt = prompt.replace(f"{{item.{name}}}", text)
    return template.model_copy(
        update={
            "id": child_id(template.id, item.id, version),
            "label": f"{template.title} {item.id}",
            "prompt": prompt,
            "foreach": None,
            "item": item.id,
            "priority": item.priority,
        }
    )


def child_id(template: str, item: str, version: int) -> str:
    """An id for each step. A step that is rewritten after it was begun gets a new one."""
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", item)[:_SLUG_CHARS]
    if slug != item:  # two steps may look alike when what ids cannot hold is left out
        slug = f"{slug}_{sha256(item.encode()).hexdigest()[:6]}"
    return f"{template}-{slug}" if version == 1 else f"{template}-{slug}-v{version}"


def merge_plan(before: Sequence[PlanItem], after: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
    """A new plan over an old one, where the runtime carries the steps out.

    What is done or under way stays as it is, whatever the new plan says of it; a step that failed and is not
    in the new plan is replaced by it.
    """
    old = {item.id: item for item in before}
    new = {item.id for item in after}
    begun = [item for item in before if item.status not in ("pending", "skipped") and item.id not in new]
    return (*map(_settled, begun), *(_take_over(old.get(item.id), item) for item in after))


def written_since(
    since: Mapping[str, int], before: Iterable[PlanItem], after: Iterable[PlanItem], version: int
) -> dict[str, int]:
    """In which version each step of a new plan was written: one that was begun is not written over."""
    old = {item.id: item for item in before}
    return {
        item.id: version if _is_rewritten(old.get(item.id), item) else since.get(item.id, version)
        for item in after
    }


def _is_rewritten(old: PlanItem | None, new: PlanItem) -> bool:
    return old is None or (old.status in ("completed", "failed") and new.status == "pending")


def _take_over(old: PlanItem | None, new: PlanItem) -> PlanItem:
    if old and old.status == "in_progress":
        return old
    if old and old.status == "completed" and old.description.split() == new.description.split():
        return old
    return new.model_copy(update={"status": "pending", "reason": ""})


def _settled(item: PlanItem) -> PlanItem:
    if item.status != "failed":
        return item
    return item.model_copy(update={"status": "skipped", "reason": REPLACED})


READ_ONLY = "it only reads"


def skip_reading(items: Sequence[PlanItem]) -> list[PlanItem]:
    """The plan with the pending steps marked as skipped that change no file.

    A plan in which no step changes anything is carried out as it is: otherwise nothing would be done.
    """
    if not any(item.writes for item in items):
        return list(items)
    return [
        item.model_copy(update={"status": "skipped", "reason": READ_ONLY})
        if item.status == "pending" and not item.writes
        else item
        for item in items
    ]


def plan_items(state: State) -> tuple[PlanItem, ...]:
    """The plan as people see it: what the model wrote as one, and what features carry out step by step."""
    return (*state[Plan].items, *(item for part in state.slices.values() for item in part.plan_items(state)))


# The plan is written, its steps start and end, and it is rewritten.


class PlanWritten(Body):
    """The model wrote or changed its plan."""

    kind: ClassVar[str] = "plan_written"
    version: int
    items: tuple[PlanItem, ...]

    def apply(self, state: State, now: Moment) -> None:
        state[Plan].write(self.items, self.version)
        if attempt := state.nodes.get(now.path):
            attempt.take_plan()

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"Plan: {count(len(self.items), 'step')}")


class ReplanStarted(Body):
    """Fixing has failed several times in a row, or a step of the plan has failed: the plan is rewritten."""

    kind: ClassVar[str] = "replan_started"
    loop: int
    item: str = ""
    """The step that failed, if that is why."""

    def apply(self, state: State, now: Moment) -> None:
        state[Plan].replans += 1
        state.tree.replan(now.path, self.item)
        state[VerifyRuns].failed_in_a_row = 0

    def line(self, state: State, now: Moment) -> Line | None:
        if self.item or not self.loop:
            return Line("Replanning...")
        return Line(f"Replanning: verification has failed {times(self.loop)}...")


@follows(StageStarted)
def _begin_step(state: State, body: StageStarted, now: Moment) -> None:
    if body.item:
        state[Plan].mark(body.item, "in_progress")


@follows(StageEnded)
def _end_step(state: State, body: StageEnded, now: Moment) -> None:
    attempt = state.nodes.get(now.path)
    if attempt and attempt.item and is_announced_end(body.reason, attempt):
        state[Plan].mark(attempt.item, "completed" if body.ending == "completed" else "failed")
