"""The flow as a picture: nested boxes, each with what has become of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headgate.core import (
    DRIVE,
    FINAL_STATES,
    PLANNER,
    Ending,
    Executions,
    Plan,
    Stage,
    State,
    expand_executions,
    expand_steps,
    join_path,
)

Status = Literal["done", "failed", "skipped", "running", "waiting", "stopped", "not run"]
_ENDINGS: dict[Ending, Status] = {
    "completed": "done",
    "failed": "failed",
    "exhausted": "failed",
    "skipped": "skipped",
}
_WHEN = {"replan": "if fixing fails several times", "again": "after a failure"}
_SKIPPED = {"condition": "not needed", "on_skip": "not needed", "join_any": "another one was enough"}


@dataclass(frozen=True, slots=True)
class Box:
    """A stage, or a group of stages."""

    id: str
    title: str
    status: Status
    note: str = ""
    children: tuple["Box", ...] = ()
    conditional: bool = False

    @property
    def is_lit(self) -> bool:
        return self.status == "running"


def draw_flow(state: State, over: bool) -> tuple[Box, ...]:
    """The flow of a task that has started. `over`: nothing in it will run any more."""
    return _Drawing(state, over).level(state.flow.stages, "") if state.flow else ()


class _Drawing:
    def __init__(self, state: State, over: bool) -> None:
        self._state, self._tree, self._over = state, state.tree, over

    def level(self, stages: Sequence[Stage], parent: str) -> tuple[Box, ...]:
        """The boxes of one level, in the round of the group around it with this path."""
        steps = expand_steps(stages, self._state[Plan].items, self._state[Plan].since)
        recipes = self._state.flow.recipes if self._state.flow else {}
        return tuple(
            self._box(stage, parent)
            for stage in expand_executions(steps, self._state[Executions].all, recipes)
            if stage.foreach != "recipe"
        )

    def _box(self, stage: Stage, parent: str) -> Box:
        place = join_path(parent, stage.id)
        if stage.is_group:
            return self._group(stage, place)
        children = self.level(stage.stages, place) if stage.kind in (DRIVE, PLANNER) else ()
        status, note = self._leaf(stage, parent, place)
        return Box(stage.id, stage.title, status, note, children, bool(stage.when))

    def _leaf(self, stage: Stage, parent: str, place: str) -> tuple[Status, str]:
        attempt = self._tree.latest_at(place)
        if attempt is None:
            if stage.id in self._tree.skipped.get(parent, {}):
                reason = self._tree.skipped[parent][stage.id]
                return "skipped", _SKIPPED.get(reason, reason.replace("_", " "))
            return ("not run", "") if self._over else ("waiting", _WHEN.get(stage.when or "", ""))
        tries = len(self._tree.places.get(place, ()))
        again = f"attempt {tries}" if tries > 1 else ""
        if attempt.ending is None and self._state.status == "PROPOSED":
            return "waiting", "when it is applied"
        if attempt.ending is None:
            return ("stopped" if self._over else "running"), again
        status = _ENDINGS[attempt.ending]
        return status, again or ("ran out of turns" if attempt.ending == "exhausted" else "")

    def _group(self, stage: Stage, place: str) -> Box:
        number = self._tree.rounds.get(place, 1)
        children = self.level(stage.stages, place if number == 1 else f"{place}#{number}")
        note = ""
        if stage.repeat and stage.repeat.max > 1 and any(map(_has_begun, children)):
            note = f"round {number} of at most {stage.repeat.max}"
        status = self._group_status(stage, children)
        return Box(stage.id, stage.title, status, note, children, bool(stage.when))

    def _group_status(self, stage: Stage, children: Sequence[Box]) -> Status:
        found = [child.status for child in children]
        if "running" in found:
            return "running"
        if "stopped" in found:
            return "stopped"
        if "waiting" in found and self._over:
            return "waiting"  # for a person
        if not any(map(_has_begun, children)):
            return "not run" if self._over else "waiting"
        awaited = stage.repeat.until.rpartition(".")[0] if stage.repeat else ""
        passed = any(child.id == awaited and child.status == "done" for child in children)
        # A stage with a condition that does not hold may wait for ever.
        if not self._over and any(child.status == "waiting" and not child.conditional for child in children):
            return "running"
        if "failed" in found and not passed:
            return "failed" if self._over else "running"  # the next round has not begun yet
        return "done"


def _has_begun(box: Box) -> bool:
    return box.status not in ("waiting", "not run")


def is_over(state: State) -> bool:
    """Whether nothing in the flow will run any more."""
    return state.status in FINAL_STATES or state.status == "PROPOSED"
