"""What can be wrong with a flow that no single field of it can tell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from headgate.core.checks_and_guards import VERIFY_CHECK, CheckSpec
from headgate.core.conditions import CODE, find_name, is_expression, named_stages, read_ending, references
from headgate.core.flow import DRIVE, DRIVEN, PLANNER, REPLAN, REST, Flow, Stage
from headgate.core.knobs import CATEGORIES, DONE_TOOL, EXECUTE_TOOL, TOOL_ALIASES
from headgate.core.messages import ToolSpec
from headgate.core.text import unknown_name
from headgate.patterns import regex

_NOT_FOR_ANSWERS = (
    "agent",
    "tools",
    "view",
    "checks",
    "advance",
    "allow_missing_done",
    "retry_hints",
    "foreach",
)
"""What a stage with `candidates` has no use for: it calls no tools, and has no conversation."""
_NOT_FOR_RUNTIME = (*_NOT_FOR_ANSWERS, "prompt", "system", "model", "budget", "delivers")
"""What a stage that the runtime itself carries out has no use for."""
MOST_DEPTH = 8
"""How deep stages may stand in each other."""
_RUNTIME_KINDS = ("verify", "review", "suspects", "scout")
_NOT_FOR_GROUPS = (*_NOT_FOR_RUNTIME, "candidates", "kind", "settings")
_PLACEHOLDER = regex(r"(?<![$\"'{])\{([a-z_.]+)\}")
"""Not in quotes, or behind a `$`: there it may be code."""
_IN_QUESTIONS = ("path", "language", "function", "number", "line")
_IN_STEPS = ("item.id", "item.description", "item.goal")


Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a flow, and where: the path of keys and indexes to it."""

    where: Where
    message: str


def flow_problems(
    flow: Flow,
    tools: Iterable[ToolSpec] | None = None,
    checks: Sequence[CheckSpec] = (),
    *,
    whole: bool = True,
) -> Iterator[Problem]:
    """What no single field can tell: doubled ids, unknown names, cycles. A part may lack something."""
    ids = [stage.id for stage in flow.stages]
    specs = None if tools is None else list(tools)
    known_tools = None if specs is None else known_names(specs)
    yield from _level_problems(flow, flow.stages, specs, list(checks), ("stages",))
    planners = list(dict.fromkeys(leaf.id for leaf in flow.leaves() if leaf.kind == PLANNER))
    if len(planners) > 1:
        message = f'a flow has one planner: "{planners[0]}" and "{planners[1]}" would share what they execute'
        yield Problem(("stages",), message)
    if whole and all(stage.foreach == "plan" for stage in flow.stages):
        yield Problem(("stages", 0, "foreach"), "nothing writes the plan: put a stage before this one")
    if flow.replan.id in ids:
        yield Problem(("replan",), f'"{flow.replan.id}" is already the id of a stage')
    if flow.replan.tools != REPLAN.tools:
        yield from _unknown_tools(flow.replan, known_tools, ("replan",))
    if flow.fix is not None and flow.fix not in ids:
        yield Problem(("fix",), unknown_name("stage", flow.fix, ids))
    elif any(stage.id == flow.fix and stage.stages for stage in flow.stages):
        yield Problem(("fix",), f'"{flow.fix}" is a group: `fix` must name a stage with a prompt')
    yield from _answers_cannot_fix(flow, checks)


def _level_problems(
    flow: Flow,
    stages: Sequence[Stage],
    specs: list[ToolSpec] | None,
    checks: Sequence[CheckSpec],
    where: Where,
    repeats: bool = False,
    within: Stage | None = None,
) -> Iterator[Problem]:
    """The problems of stages that stand side by side, and of those in their groups."""
    ids = [stage.id for stage in stages]
    driver = within if within and within.kind == DRIVE else None
    is_any = within is not None and within.join == "any"
    for index, stage in enumerate(stages):
        here = (*where, index)
        if stage.id in ids[:index]:
            yield Problem((*here, "id"), f'there are two stages with the id "{stage.id}"')
        for position, need in enumerate(stage.needs):
            if need not in (*ids, REST):
                yield Problem((*here, "needs", position), unknown_name("stage", need, ids))
        if any(stage.id.startswith(f"{other.id}-") for other in stages if other.foreach):
            yield Problem((*here, "id"), f'"{stage.id}" could be the id of a plan step')
        if stage.is_group:
            yield from _group_problems(stage, here)
        else:
            yield from _leaf_problems(flow, stage, specs, checks, here)
        if stage.kind == DRIVEN and driver is None:
            yield Problem((*here, "kind"), "driven stages belong in a stage of the kind drive")
        if stage.kind != PLANNER and EXECUTE_TOOL in (stage.tools.allow or ()):
            yield Problem((*here, "tools", "allow"), "execute needs a stage of the kind planner")
        if stage.foreach == "recipe" and (within is None or within.kind != PLANNER):
            message = "foreach: recipe belongs in a stage of the kind planner"
            yield Problem((*here, "foreach"), message)
        if stage.input_docs and stage.is_group:
            yield Problem((*here, "input_docs"), "input_docs has no effect in a group: leave it out")
        if stage.execution:
            yield Problem((*here, "execution"), "execution is set by Headgate: leave it out")
        if driver is not None and stage.foreach:
            message = f'foreach has no effect in "{driver.id}", whose model starts the stages: leave it out'
            yield Problem((*here, "foreach"), message)
        if len(here) > 2 * MOST_DEPTH:
            yield Problem(here, f"stages are nested more than {MOST_DEPTH} deep")
        yield from _condition_problems(flow, stage, ids, here, repeats)
        if why := _why_unreachable(stage, stages, is_any) if not repeats else "":
            yield Problem((*here, "when"), f'"{stage.id}" can never run: {why}')
        inner = stage.repeat is not None
        yield from _level_problems(flow, stage.stages, specs, checks, (*here, "stages"), inner, stage)
    cycle = find_cycle({stage.id: stage.needs for stage in stages})
    key = "needs"
    if not cycle:
        after = {stage.id: (*stage.needs, *awaited_by(stage, stages)) for stage in stages}
        cycle, key = find_cycle(after), "when"
    if cycle:
        place = (*where, ids.index(cycle[0]), key)
        yield Problem(place, f"`{key}` has a cycle: {' -> '.join((*cycle, cycle[0]))}")


def _why_unreachable(stage: Stage, stages: Sequence[Stage], is_any: bool) -> str:
    """Why no run can ever reach a stage, because of how the stage that its condition names must have ended.

    What only results and variables can tell is not looked at.
    """
    ending = read_ending(stage.when) if stage.when and not stage.when.startswith("not ") else None
    named = next((other for other in stages if ending and other.id == ending[0]), None)
    if named is None or ending is None:
        return ""
    how = ending[1]
    if how == "failed" and named.id in stage.needs:
        return f'it needs "{named.id}" and runs only if that failed'
    if how == "failed" and named.required and not is_any:
        return f'the flow fails if "{named.id}" fails: make that `required: false`'
    if how == "skipped" and named.id in stage.needs and stage.on_skip == "skip":
        return f'it is skipped with "{named.id}" and runs only if that was skipped'
    return ""


def awaited_by(stage: Stage, stages: Sequence[Stage]) -> tuple[str, ...]:
    """The stages beside a stage that its condition waits for: those that it names, or that hold those."""
    if stage.when is None:
        return ()
    inside = {other.id: {other.id, *(inner.id for inner in all_stages(other.stages))} for other in stages}
    named = set(named_stages(stage.when, set().union(*inside.values())))
    return tuple(name for name, ids in inside.items() if named & ids and name != stage.id)


def all_stages(stages: Iterable[Stage]) -> Iterator[Stage]:
    """These stages, and those in their groups."""
    for stage in stages:
        yield stage
        yield from all_stages(stage.stages)


def _default(name: str) -> Any:
    return Stage.model_fields[name].get_default(call_default_factory=True)


def _leaf_problems(
    flow: Flow, stage: Stage, specs: list[ToolSpec] | None, checks: Sequence[CheckSpec], where: Where
) -> Iterator[Problem]:
    for check in (*checks, VERIFY_CHECK):
        if check.place != "stage" and stage.checks.get(check.name):
            message = f"{check.name} belongs in the flow's own checks, not in a stage's"
            yield Problem((*where, "checks"), message)
    for position, name in enumerate(stage.settings.get("checks", ()) if checks else ()):
        known = [check.name for check in checks if check.place == "diff"]
        if name not in known:
            place = (*where, stage.kind, "checks", position)
            yield Problem(place, unknown_name("check of the diff", str(name), known))
    yield from _unknown_tools(stage, None if specs is None else known_names(specs), where)
    yield from _unmeetable(stage, specs, checks, where)
    yield from _misspelt(stage, where)
    begins = flow.begin == "verify" or any(leaf.kind == "suspects" for leaf in flow.leaves())
    if stage.candidates and not begins:
        message = "candidates needs a check that runs first: add `begin: verify` to the flow"
        yield Problem((*where, "candidates"), message)
    unused: tuple[str, ...] = _NOT_FOR_RUNTIME if stage.kind in _RUNTIME_KINDS else ()
    if stage.candidates or stage.kind == "answer":
        unused = _NOT_FOR_ANSWERS
    for name in unused:
        if name in stage.model_fields_set and getattr(stage, name) != _default(name):
            what = "a stage with candidates" if stage.candidates else f"a stage of the kind {stage.kind}"
            yield Problem((*where, name), f"{name} has no effect in {what}: leave it out")
    known_stages = ("own", "parent", *(leaf.id for leaf in flow.leaves()), flow.replan.id)
    if stage.view.transcript not in known_stages:
        message = unknown_name("stage", stage.view.transcript, known_stages)
        yield Problem((*where, "view", "transcript"), message)
    if stage.agent and stage.view.transcript != "own":
        message = "an agent has its own conversation: leave `transcript` out"
        yield Problem((*where, "view", "transcript"), message)
    if stage.agent and not isinstance(stage.agent.inherit_variables, bool):
        for position, name in enumerate(stage.agent.inherit_variables):
            if name not in flow.variables:
                place = (*where, "agent", "inherit_variables", position)
                yield Problem(place, unknown_name("variable", name, flow.variables))
    if stage.item:
        yield Problem((*where, "item"), "item is set by Headgate: leave it out")
    if ("stages" in stage.model_fields_set or stage.kind == DRIVE) and not stage.stages:
        yield Problem((*where, "stages"), "a group needs at least one stage")
    for name in ("repeat", "max_parallel") if stage.stages else ("repeat", "join", "max_parallel"):
        if name in stage.model_fields_set and getattr(stage, name) not in (None, "all", 1):
            if stage.stages:
                message = f"{name} has no effect in a stage of the kind {stage.kind}: leave it out"
            else:
                message = f"{name} needs `stages`: only a group can have it"
            yield Problem((*where, name), message)


def _group_problems(group: Stage, where: Where) -> Iterator[Problem]:
    """What a group cannot have, and what its `until` names."""
    ids = [stage.id for stage in group.stages]
    for name in _NOT_FOR_GROUPS:
        if name in group.model_fields_set and getattr(group, name) != _default(name):
            yield Problem((*where, name), f"{name} has no effect in a group: leave it out")
    if group.repeat is None:
        return
    repeat, awaited = group.repeat, group.repeat.until.rpartition(".")[0]
    until = (*where, "repeat", "until")
    if awaited not in ids:
        yield Problem(until, unknown_name("stage", awaited, ids))
        return
    stage = group.stages[ids.index(awaited)]
    if stage.stages or not stage.required:
        what = "a group" if stage.stages else "not required"
        yield Problem(until, f'"{awaited}" is {what}, so the group would never repeat: name another stage')
    replans = any(child.when == "replan" or child.kind == PLANNER for child in group.stages)
    if repeat.replan_every and not replans:
        message = "replan_every needs a stage with `when: replan` in the group"
        yield Problem((*where, "repeat", "replan_every"), message)
    for name in ("no_progress", "idle_attempts") if stage.kind == "talk" else ():
        if getattr(repeat, name):
            message = f"{name} has no effect unless the group waits for a verification: leave it out"
            yield Problem((*where, "repeat", name), message)
    fixers = [child for child in group.stages if child.kind == "talk" and child.when != "replan"]
    if stage.kind != "talk" and fixers and all(child.foreach for child in fixers):
        message = "no stage of the group could fix a failure: add one without foreach"
        yield Problem((*where, "stages"), message)
    for stage in group.stages:
        if stage.kind == "verify" and stage.id != awaited and stage.required:
            message = (
                f'the group repeats until "{awaited}" passes and would ignore "{stage.id}": name that one'
            )
            yield Problem((*where, "repeat", "until"), message)


def _condition_problems(
    flow: Flow, stage: Stage, ids: list[str], where: Where, repeats: bool
) -> Iterator[Problem]:
    """A condition that names no stage of the same group, or that only a check at the start can meet."""
    if stage.when is None:
        return
    if stage.when in ("again", "replan"):
        if not repeats:
            message = f"when: {stage.when} has a meaning only in a group with `repeat`"
            yield Problem((*where, "when"), message)
        return
    if stage.when in ("suspects", "no_suspects"):
        if len(where) > 2:
            yield Problem((*where, "when"), f"when: {stage.when} cannot be in a group: give it to the group")
        elif flow.begin != "verify":
            message = "when needs a check that runs first: add `begin: verify` to the flow"
            yield Problem((*where, "when"), message)
        return
    if stage.when.startswith(CODE):
        return
    if is_expression(stage.when):
        yield from _expression_problems(flow, stage, (*where, "when"))
        return
    (name,) = named_stages(stage.when, ids)
    if name not in ids or name == stage.id:
        others = [other for other in ids if other != stage.id]
        yield Problem((*where, "when"), unknown_name("stage", name, others))


def _expression_problems(flow: Flow, stage: Stage, where: Where) -> Iterator[Problem]:
    """Names in a condition that no stage and no variable has."""
    ids = [other.id for other in all_stages(flow.stages)]
    variables = known_variables(flow)
    for named in references(stage.when or ""):
        wanted = str(named.keys[0])
        if named.root == "variables" and wanted not in variables:
            yield Problem(where, unknown_name("variable", wanted, variables))
        if named.root == "results" and (found := find_name(named.keys, ids)) in (None, stage.id):
            others = [each for each in ids if each != stage.id]
            yield Problem(where, unknown_name("stage", found or wanted, others))


def known_variables(flow: Flow) -> list[str]:
    """The variables of a flow and its stages."""
    holders = (flow.variables, *(stage.variables for stage in all_stages(flow.stages)))
    return list(dict.fromkeys(name for names in holders for name in names))


def _answers_cannot_fix(flow: Flow, checks: Iterable[CheckSpec]) -> Iterator[Problem]:
    """A stage that asks for whole answers cannot fix a failed check, and cannot be told about a diff."""
    leaves = list(flow.leaves())
    answers = [leaf.id for leaf in leaves if leaf.candidates or leaf.kind == "answer"]
    if flow.fix in answers:
        yield Problem(("fix",), f'"{flow.fix}" has candidates: `fix` must name a stage without candidates')
    for check in checks if len(answers) == len(leaves) else ():
        if check.place == "diff" and flow.checks.get(check.name):
            message = f"{check.name} needs a stage without candidates, and there is none: leave it out"
            yield Problem(("checks",), message)


def _unmeetable(
    stage: Stage, specs: list[ToolSpec] | None, checks: Iterable[CheckSpec], where: Where
) -> Iterator[Problem]:
    """A check that the stage's tools can never satisfy."""
    if specs is None:
        return
    admitted = {spec.name for spec in specs if stage.tools.admits(spec)}
    for check in checks:
        if not stage.checks.get(check.name) or not check.needs or admitted & set(check.needs):
            continue
        named = f"the tool {' or '.join(check.needs)}, which the stage does not have"
        lacking = f"{check.needs_words}, and the stage has none" if check.needs_words else named
        yield Problem((*where, "checks"), f"{check.name} needs {lacking}")


def _misspelt(stage: Stage, where: Where) -> Iterator[Problem]:
    """A placeholder in a prompt that is close to one that is filled in; other braces are text."""
    known = _IN_QUESTIONS if stage.candidates else _IN_STEPS if stage.foreach else ()
    for name in _PLACEHOLDER.findall(stage.prompt):
        alike = 0.5 if name.startswith("item.") else 0.85
        close = next(iter(get_close_matches(name, known, 1, alike)), "")
        if close and name not in known and name.removesuffix("s") not in known:
            yield Problem(
                (*where, "prompt"), f'unknown placeholder "{{{name}}}": did you mean "{{{close}}}"?'
            )


def known_names(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """Every name that a list of tools may hold: tools, the signal that every stage has, and categories."""
    return CATEGORIES | {DONE_TOOL} | {spec.name for spec in tools}


def tool_problems(knobs: Mapping[str, Iterable[str]], tools: Iterable[ToolSpec]) -> Iterator[Problem]:
    """Unknown tools in lists that are not a stage's, by the key of each list."""
    known = known_names(tools)
    for key, names in knobs.items():
        for position, name in enumerate(names):
            if TOOL_ALIASES.get(name, name) not in known:
                yield Problem((key, position), unknown_name("tool or category", name, known))


def _unknown_tools(stage: Stage, known: frozenset[str] | set[str] | None, where: Where) -> Iterator[Problem]:
    for key, names in (("allow", stage.tools.allow or ()), ("block", stage.tools.block)):
        for position, name in enumerate(names):
            if known is not None and name not in known:
                place = (*where, "tools", key, position)
                yield Problem(place, unknown_name("tool or category", name, known))


def find_cycle(needs: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """One circle among the needs, from its first member round to its last; empty if there is none."""
    done: set[str] = set()
    for start in needs:
        trail: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = []
        if start in done:
            continue
        trail.append(start)
        stack.append((start, iter(needs[start])))
        while stack:
            name, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                trail.pop()
                done.add(name)
            elif following in trail:
                return tuple(trail[trail.index(following) :])
            elif following in needs and following not in done:
                trail.append(following)
                stack.append((following, iter(needs[following])))
    return ()
