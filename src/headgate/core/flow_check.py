"""What can be wrong with a flow that no single field of it can tell."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any

from headgate.core.checks_and_guards import VERIFY_CHECK, CheckSpec
from headgate.core.conditions import CODE, find_name, is_expression, named_stages, read_ending, references
from headgate.core.flow import DRIVE, DRIVEN, PLANNER, REPLAN, REST, WITHOUT_BUDGET, Flow, Stage, all_stages
from headgate.core.knobs import CATEGORIES, DONE_TOOL, EXECUTE_TOOL, TOOL_ALIASES
from headgate.core.messages import ToolSpec
from headgate.core.text import unknown_name
from headgate.first_use import dataclass, regex

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
_NOT_FOR_GROUPS = (*_NOT_FOR_RUNTIME, "candidates", "kind", "settings")
MOST_DEPTH = 8
"""How deep stages may stand in each other."""
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
    """What no single field can tell: doubled ids, unknown names, cycles. A part may lack something.

    Without `tools`, any tool may be named.
    """
    check = _FlowCheck(flow, None if tools is None else list(tools), checks)
    yield from check.level(flow.stages, ("stages",))
    yield from check.whole_flow(whole)


def tool_problems(
    lists: Mapping[str, Iterable[str]], tools: Iterable[ToolSpec], where: Where = ()
) -> Iterator[Problem]:
    """Names in lists of tools that are neither a tool nor a category, by the key of each list."""
    known = CATEGORIES | {DONE_TOOL} | {spec.name for spec in tools}
    for key, names in lists.items():
        resolved = [TOOL_ALIASES.get(name, name) for name in names]
        yield from _unknown("tool or category", resolved, known, (*where, key))


def _unknown(
    kind: str, names: Iterable[Any], known: Collection[str], where: Where, also: Collection[str] = ()
) -> Iterator[Problem]:
    """The names in a list that are not known; `also` are known without being offered."""
    for position, name in enumerate(names):
        if name not in known and name not in also:
            yield Problem((*where, position), unknown_name(kind, str(name), known))


def _unused(stage: Stage, names: Iterable[str], owner: str, where: Where) -> Iterator[Problem]:
    """What a stage says although it has no use for it."""
    for name in names:
        usual = Stage.model_fields[name].get_default(call_default_factory=True)
        if name in stage.model_fields_set and getattr(stage, name) != usual:
            yield Problem((*where, name), f"{name} has no effect in {owner}: leave it out")


class _FlowCheck:
    """The problems of one flow, level by level."""

    def __init__(self, flow: Flow, tools: list[ToolSpec] | None, checks: Sequence[CheckSpec]) -> None:
        self.flow, self.tools, self.checks = flow, tools, checks
        self.leaves = list(flow.leaves())
        self.ids = [stage.id for stage in all_stages(flow.stages)]
        holders = (flow.variables, *(stage.variables for stage in all_stages(flow.stages)))
        self.variables = list(dict.fromkeys(name for names in holders for name in names))

    def whole_flow(self, whole: bool) -> Iterator[Problem]:
        """What concerns the flow as such."""
        flow, ids = self.flow, [stage.id for stage in self.flow.stages]
        planners = list(dict.fromkeys(leaf.id for leaf in self.leaves if leaf.kind == PLANNER))
        if len(planners) > 1:
            both = f'"{planners[0]}" and "{planners[1]}" would share what they execute'
            yield Problem(("stages",), f"a flow has one planner: {both}")
        if whole and all(stage.foreach == "plan" for stage in flow.stages):
            yield Problem(("stages", 0, "foreach"), "nothing writes the plan: put a stage before this one")
        if flow.replan.id in ids:
            yield Problem(("replan",), f'"{flow.replan.id}" is already the id of a stage')
        if flow.replan.tools != REPLAN.tools:
            yield from self._unknown_tools(flow.replan, ("replan",))
        if flow.fix is not None and flow.fix not in ids:
            yield Problem(("fix",), unknown_name("stage", flow.fix, ids))
        elif any(stage.id == flow.fix and stage.stages for stage in flow.stages):
            yield Problem(("fix",), f'"{flow.fix}" is a group: `fix` must name a stage with a prompt')
        # A stage that asks for whole answers cannot fix a failed check, and cannot be told about a diff.
        answers = [leaf.id for leaf in self.leaves if leaf.candidates or leaf.kind == "answer"]
        if flow.fix in answers:
            without = "`fix` must name a stage without candidates"
            yield Problem(("fix",), f'"{flow.fix}" has candidates: {without}')
        for check in self.checks if len(answers) == len(self.leaves) else ():
            if check.place not in ("stage", VERIFY_CHECK.place) and flow.checks.get(check.name):
                message = f"{check.name} needs a stage without candidates, and there is none: leave it out"
                yield Problem(("checks",), message)

    def level(self, stages: Sequence[Stage], where: Where, within: Stage | None = None) -> Iterator[Problem]:
        """The problems of stages that stand side by side, in a group or in the flow, and of those in them."""
        ids = [stage.id for stage in stages]
        for index, stage in enumerate(stages):
            here = (*where, index)
            if stage.id in ids[:index]:
                yield Problem((*here, "id"), f'there are two stages with the id "{stage.id}"')
            yield from _unknown("stage", stage.needs, ids, (*here, "needs"), also=(REST,))
            if any(stage.id.startswith(f"{other.id}-") for other in stages if other.foreach):
                yield Problem((*here, "id"), f'"{stage.id}" could be the id of a plan step')
            yield from _group_problems(stage, here) if stage.is_group else self._leaf(stage, here)
            yield from _misplaced(stage, within, here)
            if len(here) > 2 * MOST_DEPTH:
                yield Problem(here, f"stages are nested more than {MOST_DEPTH} deep")
            yield from self._condition(stage, ids, here, within)
            if why := _why_unreachable(stage, stages, within):
                yield Problem((*here, "when"), f'"{stage.id}" can never run: {why}')
            yield from self.level(stage.stages, (*here, "stages"), stage)
        cycle, key = find_cycle({stage.id: stage.needs for stage in stages}), "needs"
        if not cycle:
            after = {stage.id: (*stage.needs, *awaited_by(stage, stages)) for stage in stages}
            cycle, key = find_cycle(after), "when"
        if cycle:
            place = (*where, ids.index(cycle[0]), key)
            yield Problem(place, f"`{key}` has a cycle: {' -> '.join((*cycle, cycle[0]))}")

    def _leaf(self, stage: Stage, where: Where) -> Iterator[Problem]:
        for check in (*self.checks, VERIFY_CHECK):
            if check.place != "stage" and stage.checks.get(check.name):
                message = f"{check.name} belongs in the flow's own checks, not in a stage's"
                yield Problem((*where, "checks"), message)
        if self.checks:
            of_diff = [check.name for check in self.checks if check.place == stage.kind]
            named = stage.settings.get("checks", ())
            yield from _unknown("check of the diff", named, of_diff, (*where, stage.kind, "checks"))
        yield from self._unknown_tools(stage, where)
        yield from self._unmeetable(stage, where)
        yield from _misspelt(stage, where)
        begins = self.flow.begin == "verify" or any(leaf.kind == "suspects" for leaf in self.leaves)
        if stage.candidates and not begins:
            message = "candidates needs a check that runs first: add `begin: verify` to the flow"
            yield Problem((*where, "candidates"), message)
        if stage.candidates or stage.kind == "answer":
            owner = "a stage with candidates" if stage.candidates else "a stage of the kind answer"
            yield from _unused(stage, _NOT_FOR_ANSWERS, owner, where)
        elif stage.kind in WITHOUT_BUDGET:
            yield from _unused(stage, _NOT_FOR_RUNTIME, f"a stage of the kind {stage.kind}", where)
        transcripts = ("own", "parent", *(leaf.id for leaf in self.leaves), self.flow.replan.id)
        if stage.view.transcript not in transcripts:
            message = unknown_name("stage", stage.view.transcript, transcripts)
            yield Problem((*where, "view", "transcript"), message)
        if stage.agent and stage.view.transcript != "own":
            message = "an agent has its own conversation: leave `transcript` out"
            yield Problem((*where, "view", "transcript"), message)
        if stage.agent and not isinstance(stage.agent.inherit_variables, bool):
            place = (*where, "agent", "inherit_variables")
            yield from _unknown("variable", stage.agent.inherit_variables, self.flow.variables, place)
        if ("stages" in stage.model_fields_set or stage.kind == DRIVE) and not stage.stages:
            yield Problem((*where, "stages"), "a group needs at least one stage")
        if stage.stages:
            yield from _unused(stage, ("repeat", "max_parallel"), f"a stage of the kind {stage.kind}", where)
            return
        for name in ("repeat", "join", "max_parallel"):
            if name in stage.model_fields_set and getattr(stage, name) not in (None, "all", 1):
                yield Problem((*where, name), f"{name} needs `stages`: only a group can have it")

    def _unknown_tools(self, stage: Stage, where: Where) -> Iterator[Problem]:
        if self.tools is not None:
            lists = {"allow": stage.tools.allow or (), "block": stage.tools.block}
            yield from tool_problems(lists, self.tools, (*where, "tools"))

    def _unmeetable(self, stage: Stage, where: Where) -> Iterator[Problem]:
        """A check that the stage's tools can never satisfy."""
        if self.tools is None:
            return
        admitted = {spec.name for spec in self.tools if stage.tools.admits(spec)}
        for check in self.checks:
            if not stage.checks.get(check.name) or not check.needs or admitted & set(check.needs):
                continue
            named = f"the tool {' or '.join(check.needs)}, which the stage does not have"
            lacking = f"{check.needs_words}, and the stage has none" if check.needs_words else named
            yield Problem((*where, "checks"), f"{check.name} needs {lacking}")

    def _condition(
        self, stage: Stage, ids: list[str], where: Where, within: Stage | None
    ) -> Iterator[Problem]:
        """A condition that names no stage of the same group, or that only a check at the start can meet."""
        place = (*where, "when")
        if stage.when is None or stage.when.startswith(CODE):
            return
        if stage.when in ("again", "replan"):
            if within is None or within.repeat is None:
                yield Problem(place, f"when: {stage.when} has a meaning only in a group with `repeat`")
        elif stage.when in ("suspects", "no_suspects"):
            if len(where) > 2:
                yield Problem(place, f"when: {stage.when} cannot be in a group: give it to the group")
            elif self.flow.begin != "verify":
                message = "when needs a check that runs first: add `begin: verify` to the flow"
                yield Problem(place, message)
        elif is_expression(stage.when):
            yield from self._expression(stage, place)
        else:
            (name,) = named_stages(stage.when, ids)
            if name not in ids or name == stage.id:
                others = [other for other in ids if other != stage.id]
                yield Problem(place, unknown_name("stage", name, others))

    def _expression(self, stage: Stage, where: Where) -> Iterator[Problem]:
        """Names in a condition that no stage and no variable has."""
        for named in references(stage.when or ""):
            wanted = str(named.keys[0])
            if named.root == "variables" and wanted not in self.variables:
                yield Problem(where, unknown_name("variable", wanted, self.variables))
            if named.root == "results" and (found := find_name(named.keys, self.ids)) in (None, stage.id):
                others = [each for each in self.ids if each != stage.id]
                yield Problem(where, unknown_name("stage", found or wanted, others))


def _misplaced(stage: Stage, within: Stage | None, where: Where) -> Iterator[Problem]:
    """What a stage cannot be, or say, where it stands."""
    is_driven = within is not None and within.kind == DRIVE
    if stage.kind == DRIVEN and not is_driven:
        yield Problem((*where, "kind"), "driven stages belong in a stage of the kind drive")
    if stage.kind != PLANNER and EXECUTE_TOOL in (stage.tools.allow or ()):
        yield Problem((*where, "tools", "allow"), "execute needs a stage of the kind planner")
    if stage.foreach == "recipe" and (within is None or within.kind != PLANNER):
        yield Problem((*where, "foreach"), "foreach: recipe belongs in a stage of the kind planner")
    if stage.input_docs and stage.is_group:
        yield Problem((*where, "input_docs"), "input_docs has no effect in a group: leave it out")
    for name in ("execution", "item"):
        if getattr(stage, name):
            yield Problem((*where, name), f"{name} is set by Headgate: leave it out")
    if within is not None and is_driven and stage.foreach:
        message = f'foreach has no effect in "{within.id}", whose model starts the stages: leave it out'
        yield Problem((*where, "foreach"), message)


def _group_problems(group: Stage, where: Where) -> Iterator[Problem]:
    """What a group cannot have, and what its `until` names."""
    ids = [stage.id for stage in group.stages]
    yield from _unused(group, _NOT_FOR_GROUPS, "a group", where)
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
    for child in group.stages:
        if child.kind == "verify" and child.id != awaited and child.required:
            ignored = f'would ignore "{child.id}": name that one'
            yield Problem(until, f'the group repeats until "{awaited}" passes and {ignored}')


def _why_unreachable(stage: Stage, stages: Sequence[Stage], within: Stage | None) -> str:
    """Why no run can ever reach a stage, because of how the stage that its condition names must have ended.

    What only results and variables can tell is not looked at, nor what another round may change.
    """
    ending = read_ending(stage.when) if stage.when and not stage.when.startswith("not ") else None
    named = next((other for other in stages if ending and other.id == ending[0]), None)
    if named is None or ending is None or (within is not None and within.repeat is not None):
        return ""
    how = ending[1]
    if how == "failed" and named.id in stage.needs:
        return f'it needs "{named.id}" and runs only if that failed'
    if how == "failed" and named.required and (within is None or within.join != "any"):
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


def _misspelt(stage: Stage, where: Where) -> Iterator[Problem]:
    """A placeholder in a prompt that is close to one that is filled in; other braces are text."""
    known = _IN_QUESTIONS if stage.candidates else _IN_STEPS if stage.foreach else ()
    for name in _PLACEHOLDER.findall(stage.prompt):
        alike = 0.5 if name.startswith("item.") else 0.85
        close = next(iter(get_close_matches(name, known, 1, alike)), "")
        if close and name not in known and name.removesuffix("s") not in known:
            message = f'unknown placeholder "{{{name}}}": did you mean "{{{close}}}"?'
            yield Problem((*where, "prompt"), message)


def find_cycle(needs: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """One circle among the needs, from the member that comes first in the flow; empty if there is none."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        members = error.args[1][:0:-1]  # each needs the next; the last one was there twice
        first = min(map(list(needs).index, members))
        at = members.index(list(needs)[first])
        return (*members[at:], *members[:at])
    return ()
