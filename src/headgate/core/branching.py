"""The graph that runs: a flow, and one stage for each step of the plan where a stage says `foreach: plan`."""

import re
from collections.abc import Iterable, Mapping, Sequence

from headgate.core.events import PlanItem, Status
from headgate.core.flow import Flow, Stage

_ID_CHARS = 40


def expand(flow: Flow, plan: Sequence[PlanItem], since: Mapping[str, int]) -> tuple[Stage, ...]:
    """The stages as they stand. `since` tells in which version of the plan each step was written as it is."""
    stages: list[Stage] = []
    made: dict[str, tuple[str, ...]] = {}
    for stage in flow.stages:
        needs = tuple(part for need in stage.needs for part in made.get(need, (need,)))
        if stage.foreach is None:
            stages.append(stage.model_copy(update={"needs": needs}))
            continue
        children = [child_stage(stage, item, since.get(item.id, 1), needs) for item in plan if is_open(item)]
        made[stage.id] = tuple(child.id for child in children)
        stages += children
    return tuple(stages)


def is_open(item: PlanItem) -> bool:
    """Whether a step is to be carried out, or has been by a stage of its own."""
    return item.status != "skipped"


def child_stage(template: Stage, item: PlanItem, version: int, needs: tuple[str, ...]) -> Stage:
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
            "needs": needs,
            "priority": item.priority,
        }
    )


def child_id(template: str, item: str, version: int) -> str:
    """An id of its own for each step; one that is written anew after it was begun gets another."""
    slug = re.sub(r"[^A-Za-z0-9_]+", "_", item).strip("_") or "step"
    end = f"-{slug}" if version == 1 else f"-{slug}-v{version}"
    return f"{template}{end}"[:_ID_CHARS]


def merge_plan(before: Sequence[PlanItem], after: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
    """A new plan over an old one, where the runtime carries the steps out: what was begun stays as it is."""
    old = {item.id: item for item in before}
    new = {item.id for item in after}
    begun = [item for item in before if item.status in ("completed", "failed") and item.id not in new]
    steps = [(old.get(item.id), item) for item in after]
    done = {one.id for was, one in steps if was and was.status == "completed" and goes_on(was, one)}
    return (*begun, *(old[item.id] if item.id in done else _fresh(item) for item in after))


def written_since(
    since: Mapping[str, int], before: Iterable[PlanItem], after: Iterable[PlanItem], version: int
) -> dict[str, int]:
    """In which version each step of a new plan was written: one that was begun is not written over."""
    old = {item.id: item for item in before}
    return {
        item.id: since.get(item.id, version)
        if goes_on(old.get(item.id), item) or old.get(item.id) == item
        else version
        for item in after
    }


def goes_on(old: PlanItem | None, new: PlanItem) -> bool:
    """Whether a step of the new plan is the old one: not begun yet, or done and still described the same."""
    if old is None:
        return False
    return old.status == "pending" or (old.status == "completed" and old.description == new.description)


def with_status(plan: Iterable[PlanItem], item: str, status: Status) -> tuple[PlanItem, ...]:
    """The plan with one step's status changed."""
    return tuple(one.model_copy(update={"status": status}) if one.id == item else one for one in plan)


def _fresh(item: PlanItem) -> PlanItem:
    return item if item.status == "skipped" else item.model_copy(update={"status": "pending"})
