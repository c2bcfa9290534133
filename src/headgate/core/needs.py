"""What the ending of a stage means for the stages that need it, and which of several ready ones is next."""

from collections.abc import Iterable, Mapping
from typing import Literal

from headgate.core.flow import Priority, Stage

NeedEnding = Literal["completed", "exhausted", "absent", "skipped", "failed", "unmet"]
"""How a needed stage ended. `absent`: it does not apply, because of its condition or its `on_skip`.
`skipped`: it was attempted, and its budget gave it up. `unmet`: it could not run, because a stage that it
needs did not complete."""
Meaning = Literal["run", "skip", "block"]
"""`block`: the stage cannot run. If it is required, the flow fails."""
OnSkip = Literal["skip", "run"] | None

NEEDS: Mapping[NeedEnding, Mapping[OnSkip, Meaning]] = {
    "completed": {None: "run", "run": "run", "skip": "run"},
    "exhausted": {None: "run", "run": "run", "skip": "run"},
    "absent": {None: "run", "run": "run", "skip": "skip"},
    "skipped": {None: "block", "run": "run", "skip": "skip"},
    "failed": {None: "block", "run": "block", "skip": "block"},
    "unmet": {None: "block", "run": "block", "skip": "block"},
}
"""What each ending of a needed stage means for a stage, by the `on_skip` of that stage."""

_RANK: dict[Priority, int] = {"critical": 0, "high": 1, "normal": 2, "low": 3}
SKIP_CONDITION, SKIP_ON_SKIP, SKIP_JOIN = "condition", "on_skip", "join_any"
"""Why a stage does not run, besides a need that is not met."""


def needs_met(stage: Stage, ended: Mapping[str, NeedEnding]) -> bool:
    """Whether every stage that a stage needs has ended in a way that lets it run."""
    return all(need in ended and NEEDS[ended[need]][stage.on_skip] == "run" for need in stage.needs)


def skips_with(stage: Stage, ended: Mapping[str, NeedEnding]) -> bool:
    """Whether a stage is skipped because one that it needs was."""
    return any(need in ended and NEEDS[ended[need]][stage.on_skip] == "skip" for need in stage.needs)


def blocking_need(stage: Stage, ended: Mapping[str, NeedEnding]) -> str:
    """Why a stage cannot run, such as `needs: build failed`; empty if nothing that it needs is in its way."""
    for need in stage.needs:
        how = ended.get(need)
        if how is not None and NEEDS[how][stage.on_skip] == "block":
            return f"needs: {need} {how}"
    return ""


def ready_stages(stages: Iterable[Stage], ended: Mapping[str, NeedEnding]) -> list[Stage]:
    """The stages that may run now: not ended, their needs met; by priority, then in file order."""
    ready = [stage for stage in stages if stage.id not in ended and needs_met(stage, ended)]
    return sorted(ready, key=lambda stage: _RANK[stage.priority])


def next_stage(stages: Iterable[Stage], ended: Mapping[str, NeedEnding]) -> Stage | None:
    """The first of them."""
    return next(iter(ready_stages(stages, ended)), None)
