"""The short form of a flow file, and the tree of stages that it stands for.

People write `begin`, `checks`, `fix`, `replan_max` and `candidates`. What runs is a tree: groups of stages
that repeat, and leaves of several kinds. A flow is expanded once, when a task starts.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from headgate.core.checks_and_guards import CheckSpec
from headgate.core.conditions import named_stages
from headgate.core.flow import DRIVE, PLANNER, REST, Flow, Repeat, Stage, all_stages
from headgate.core.messages import ToolSpec
from headgate.core.needs import NeedEnding, next_stage

DEFAULT_ROUNDS = Repeat(until="verify.passed", max=12, replan_every=3, no_progress=2)
"""Where a flow itself verifies nothing."""


def expand_flow(flow: Flow, tools: Iterable[ToolSpec], checks: Iterable[CheckSpec]) -> Flow:
    """The flow as a tree. A flow that is a tree already stays as it is.

    `checks` are those that the flow may name; they run in this order.
    """
    specs = list(tools)
    ids = {stage.id for stage in all_stages(flow.stages)}
    first = Stage(id=free_id("suspects", ids), kind="suspects", required=False, priority="critical")
    fix = fix_stage(flow, specs)
    stages = [_expand_stage(stage, first.id) for stage in flow.stages]
    if fix is not None and not any(leaf.delivers for leaf in flow.leaves()):
        stages = [_deliver(stage, fix.id) for stage in stages]
    if flow.begin is not None:
        leaves = [leaf for stage in stages for leaf in stage.leaves()]
        asks = dict.fromkeys(
            "line" if leaf.kind == "mutate" else leaf.settings["ask"]
            for leaf in leaves
            if leaf.kind in ("answer", "mutate")
        )
        stages.insert(0, first.model_copy(update={"settings": {"asks": list(asks)}}))
    stages = _check_rounds(flow, stages, fix, ids, list(checks))
    stages = _plan_rounds(flow, stages, ids)
    changed: dict[str, Any] = {"stages": tuple(stages), "begin": None, "checks": {}, "fix": None}
    return flow.model_copy(update=changed)


def fix_stage(flow: Flow, tools: Iterable[ToolSpec]) -> Stage | None:
    """The stage that fixes failed checks: `fix`, or the last one that may write.

    None if every stage asks for whole answers. Such a stage would only ask the same questions again.
    """
    specs = list(tools)
    talking = [
        leaf
        for leaf in reversed(list(flow.leaves()))
        if leaf.kind in ("talk", DRIVE, PLANNER) and not leaf.candidates
    ]
    writing = (
        stage
        for stage in talking
        if any(spec.category == "write" and stage.tools.admits(spec) for spec in specs)
    )
    if flow.fix:
        fix = next((stage for stage in flow.stages if stage.id == flow.fix), None)
    else:
        fix = next(writing, talking[0] if talking else None)
    return fix.model_copy(update={"foreach": None, "prompt": ""}) if fix and fix.foreach else fix


def task_rounds(flow: Flow) -> Repeat:
    """The limits of all verifications of a task together: those of the group that may go on longest.

    A planner's recipes verify as well, and so does a flow with several such groups.
    """
    waits = [
        stage.repeat
        for stage in all_stages(flow.stages)
        if stage.repeat and any(one.kind == "verify" for one in stage.stages)
    ]
    return max(waits, key=lambda repeat: repeat.max, default=DEFAULT_ROUNDS)


def run_order(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Stages of one level in the order in which they run when each ends well."""
    ordered: dict[str, Stage] = {}
    known = list(stages)
    ended: dict[str, NeedEnding] = {}
    while following := next_stage(known, ended) or next_stage(known, {**ended, REST: "completed"}):
        ordered[following.id] = following
        ended[following.id] = "completed"
    return tuple(ordered.values())


def flow_as_written(flow: Flow) -> dict[str, Any]:
    """The flow as the mapping that a flow file would contain."""
    written = flow.model_dump(mode="json", exclude_defaults=True, exclude={"stages", "replan"})
    return {**written, "stages": [_stage_as_written(stage) for stage in flow.stages]}


def _stage_as_written(stage: Stage) -> dict[str, Any]:
    written = stage.model_dump(mode="json", exclude_defaults=True, exclude={"settings", "stages"})
    if stage.settings:
        written[stage.kind] = stage.settings
    if stage.repeat:
        written["repeat"]["max"] = stage.repeat.max
    if stage.stages:
        written["stages"] = [_stage_as_written(child) for child in stage.stages]
    return written


def free_id(wanted: str, taken: set[str], joint: str = "_") -> str:
    """An id that no stage has; it is taken from now on. With a hyphen, it could be the id of a plan step."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}{joint}{number}"
    taken.add(name)
    return name


def _expand_stage(stage: Stage, first: str) -> Stage:
    """A stage without its short forms: `candidates`, and conditions on the first check."""
    when = {"suspects": f"{first}.passed", "no_suspects": f"not {first}.passed"}.get(stage.when or "")
    changed: dict[str, Any] = {"when": when} if when else {}
    if stage.stages:
        changed["stages"] = tuple(_expand_stage(child, first) for child in stage.stages)
    if stage.candidates:
        settings = stage.candidates.model_dump(mode="json")
        changed |= {"kind": "answer", "settings": settings, "candidates": None}
    return stage.model_copy(update=changed) if changed else stage


def _deliver(stage: Stage, fix: str) -> Stage:
    """The stage, marked as the one that does the work if it is that one."""
    if stage.is_group:
        return stage.model_copy(update={"stages": tuple(_deliver(child, fix) for child in stage.stages)})
    return stage.model_copy(update={"delivers": True}) if stage.id == fix else stage


def _check_rounds(
    flow: Flow, stages: list[Stage], fix: Stage | None, ids: set[str], checks: list[CheckSpec]
) -> list[Stage]:
    """The flow's own checks as a group that repeats: fix, review, verify."""
    leaves = _check_leaves(flow, fix, ids, checks)
    if not leaves:
        return stages
    until = next((leaf for leaf in leaves if leaf.kind == "verify"), leaves[0]).id
    if fix is None:
        once = Repeat(until=f"{until}.passed", max=1)
        return [*stages, _group("rounds", once, leaves, (REST,), ids)]
    budget = fix.budget
    repeat = Repeat(
        until=f"{until}.passed",
        max=budget.verify_loops,
        replan_every=budget.replan_every,
        no_progress=budget.idle_rounds,
        idle_attempts=budget.idle_attempts,
    )
    # A planner writes a new plan by itself when it is told to.
    rewrites = bool(flow.checks.get("verify") and budget.replan_every) and fix.kind != PLANNER
    replans = [_replanner(flow, fix)] if rewrites else []
    worker, needs, rest = _worker(stages, fix)
    group = _group("rounds", repeat, [*replans, worker, *leaves], (*needs, REST), ids)
    return [*rest, group.model_copy(update={"on_skip": worker.on_skip}) if needs else group]


def _check_leaves(flow: Flow, fix: Stage | None, ids: set[str], checks: list[CheckSpec]) -> list[Stage]:
    verifies = bool(flow.checks.get("verify"))
    looks = [
        spec
        for spec in checks
        if fix and spec.place not in ("stage", "verify") and flow.checks.get(spec.name)
    ]
    leaves = [
        Stage(id=free_id(kind, ids), kind=kind, settings={"checks": names})
        for kind, names in _by_kind(spec for spec in looks if not spec.after_verification)
    ]
    if verifies:
        settings = {"strict": True} if flow.begin else {}
        needs = tuple(leaf.id for leaf in leaves)
        leaves.append(Stage(id=free_id("verify", ids), kind="verify", settings=settings, needs=needs))
    needs = (leaves[-1].id,) if leaves else ()
    for kind, names in _by_kind(spec for spec in looks if verifies and spec.after_verification):
        tests = Stage(id=free_id("tests", ids), kind=kind, settings={"checks": names}, needs=needs)
        # Verification steps are often called "tests", too: pages and pictures show this name instead.
        leaves.append(tests.model_copy(update={"required": False, "label": "A test for it?"}))
    return leaves


def _by_kind(checks: Iterable[CheckSpec]) -> Iterable[tuple[str, list[str]]]:
    """The names of checks, by the kind of the stage that runs them."""
    names: dict[str, list[str]] = {}
    for spec in checks:
        names.setdefault(spec.place, []).append(spec.name)
    return names.items()


def _worker(stages: list[Stage], fix: Stage) -> tuple[Stage, tuple[str, ...], list[Stage]]:
    """The stage that fixes in the group, what the group needs, and the stages that stay outside.

    The stage that runs last is moved into the group. Another one runs where it is, and a copy of it fixes.
    """
    order = run_order(stages)
    last = order[-1] if order else None
    ids = {stage.id for stage in all_stages(stages)}
    named = {name for stage in stages for name in named_stages(stage.when, ids)}
    plain = last is not None and not (last.foreach or last.when or last.stages) and last.required
    plain = plain and last is not None and last.on_skip != "skip"
    if last is not None and plain and last.id == fix.id and last.id not in named:
        moved = last.model_copy(update={"needs": ()})
        return moved, last.needs, [stage for stage in stages if stage is not last]
    again = {"needs": (), "when": "again", "delivers": True}
    return fix.model_copy(update=again), (), stages


def _replanner(flow: Flow, fix: Stage) -> Stage:
    """The stage that rewrites the plan. It goes on with the conversation of the stage that fixes."""
    name = fix.id if fix.view.transcript == "own" else fix.view.transcript
    view = flow.replan.view.model_copy(update={"transcript": name})
    return flow.replan.model_copy(update={"when": "replan", "view": view})


def _plan_rounds(flow: Flow, stages: list[Stage], ids: set[str]) -> list[Stage]:
    """A stage for each step of the plan as a group that repeats: if a step fails, the plan is rewritten."""
    groups: dict[str, Stage] = {}
    for stage in stages:
        if stage.foreach == "plan" and stage.required and flow.replan_max:
            replan = flow.replan.model_copy(update={"when": "replan"})
            step = stage.model_copy(update={"needs": (replan.id,), "when": None, "on_skip": None})
            repeat = Repeat(until=f"{stage.id}.passed", max=flow.replan_max + 1, replan_every=1)
            group = _group(f"{stage.id}s", repeat, [replan, step], stage.needs, ids)
            kept = {"when": stage.when, "priority": stage.priority, "on_skip": stage.on_skip}
            groups[stage.id] = group.model_copy(update=kept)
    renamed = {step: group.id for step, group in groups.items()}
    return [_rename_needs(groups.get(stage.id, stage), renamed) for stage in stages]


def _rename_needs(stage: Stage, renamed: Mapping[str, str]) -> Stage:
    needs, when = tuple(renamed.get(need, need) for need in stage.needs), stage.when
    for step, group in renamed.items():
        when = re.sub(rf"^(not )?{re.escape(step)}\.", rf"\g<1>{group}.", when) if when else when
    changed = needs != stage.needs or when != stage.when
    return stage.model_copy(update={"needs": needs, "when": when}) if changed else stage


def _group(name: str, repeat: Repeat, stages: list[Stage], needs: tuple[str, ...], ids: set[str]) -> Stage:
    return Stage(id=free_id(name, ids), repeat=repeat, stages=tuple(stages), needs=needs)
