"""The graph that runs: a flow, and one stage for each step of the plan where a stage says `foreach: plan`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from headgate.core.events import PlanItem, Status
from headgate.core.flow import Flow, Stage

REPLACED = "the plan was rewritten without it"
NO_PLAN = "no plan was written"
_SLUG_CHARS = 20


def expand(flow: Flow, plan: Sequence[PlanItem], since: Mapping[str, int]) -> tuple[Stage, ...]:
    """The stages as they stand. `since` tells in which version of the plan each step was written as it is.

    Before there is a plan, a stage for its steps stands for itself and cannot run, and neither can what needs
    it. A stage that needs it later needs every one of its steps, or, where all are skipped, what it needed.
    """
    made: dict[str, tuple[str, ...]] = {}
    children: dict[str, list[Stage]] = {}
    for stage in flow.stages:
        if stage.foreach is not None and plan:
            items = [item for item in plan if is_open(item)]
            children[stage.id] = [child_stage(stage, item, since.get(item.id, 1)) for item in items]
            made[stage.id] = tuple(child.id for child in children[stage.id]) or stage.needs
    stages: list[Stage] = []
    for stage in flow.stages:
        needs = tuple(dict.fromkeys(part for need in stage.needs for part in made.get(need, (need,))))
        if stage.id in children:
            stages += [child.model_copy(update={"needs": needs}) for child in children[stage.id]]
        elif stage.foreach is not None:
            stages.append(stage.model_copy(update={"needs": (*needs, NO_PLAN)}))
        else:
            stages.append(stage.model_copy(update={"needs": needs}))
    return tuple(stages)


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
    """An id of its own for each step; one that is written anew after it was begun gets another."""
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
        item.id: version if _is_written_anew(old.get(item.id), item) else since.get(item.id, version)
        for item in after
    }


def with_status(plan: Iterable[PlanItem], item: str, status: Status) -> tuple[PlanItem, ...]:
    """The plan with one step's status changed."""
    return tuple(one.model_copy(update={"status": status}) if one.id == item else one for one in plan)


def _is_written_anew(old: PlanItem | None, new: PlanItem) -> bool:
    return old is None or (old.status in ("completed", "failed") and new.status == "pending")


def _take_over(old: PlanItem | None, new: PlanItem) -> PlanItem:
    if old and (old.status == "in_progress" or (old.status == "completed" and _says_the_same(old, new))):
        return old
    return new.model_copy(update={"status": "pending", "reason": ""})


def _says_the_same(old: PlanItem, new: PlanItem) -> bool:
    return old.description.split() == new.description.split()


def _settled(item: PlanItem) -> PlanItem:
    if item.status != "failed":
        return item
    return item.model_copy(update={"status": "skipped", "reason": REPLACED})
