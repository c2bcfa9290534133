"""What is wrong in a flow that no single field can tell."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from headgate.core.flow import CATEGORIES, DONE_TOOL, REPLAN, TOOL_ALIASES, Flow, Stage
from headgate.core.messages import ToolSpec
from headgate.core.names import unknown_name

_NOT_FOR_ANSWERS = (
    "tools",
    "view",
    "checks",
    "advance",
    "allow_missing_done",
    "retry_hints",
    "foreach",
)
"""What a stage with `candidates` has no use for: it calls no tools, and has no conversation."""
_PLACEHOLDER = re.compile(r"(?<![$\"'{])\{([a-z_.]+)\}")
"""Not in quotes, or behind a `$`: there it may be code."""
_IN_QUESTIONS = ("path", "language", "function", "number", "line")
_READING = ("read_file", "read_files")
_IN_STEPS = ("item.id", "item.description", "item.goal")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a flow, and where: the path of keys and indexes to it."""

    where: tuple[str | int, ...]
    message: str


def flow_problems(
    flow: Flow, tools: Iterable[ToolSpec] | None = None, *, whole: bool = True
) -> Iterator[Problem]:
    """What no single field can tell: doubled ids, unknown names, cycles. A part may lack something."""
    ids = [stage.id for stage in flow.stages]
    specs = None if tools is None else list(tools)
    known_tools = None if specs is None else known_names(specs)
    for index, stage in enumerate(flow.stages):
        if stage.id in ids[:index]:
            yield Problem(("stages", index, "id"), f'there are two stages with the id "{stage.id}"')
        for position, need in enumerate(stage.needs):
            if need not in ids:
                yield Problem(("stages", index, "needs", position), unknown_name("stage", need, ids))
        for name in ("diff_scope", "tests_touched", "tests_weakened", "verify"):
            if getattr(stage.checks, name):
                message = f"{name} belongs in the flow's own checks, not in a stage's"
                yield Problem(("stages", index, "checks"), message)
        yield from _unknown_tools(stage, known_tools, ("stages", index))
        yield from _unmeetable(stage, specs, ("stages", index))
        yield from _misspelt(stage, ("stages", index))
        for name in ("candidates", "when"):
            if getattr(stage, name) is not None and flow.begin != "verify":
                message = f"{name} needs a check that runs first: add `begin: verify` to the flow"
                yield Problem(("stages", index, name), message)
        for name in _NOT_FOR_ANSWERS if stage.candidates else ():
            if name in stage.model_fields_set:
                message = f"{name} has no effect in a stage with candidates: leave it out"
                yield Problem(("stages", index, name), message)
        if any(stage.id.startswith(f"{other.id}-") for other in flow.stages if other.foreach):
            yield Problem(("stages", index, "id"), f'"{stage.id}" could be the id of a plan step')
    if whole and all(stage.foreach for stage in flow.stages):
        yield Problem(("stages", 0, "foreach"), "nothing writes the plan: put a stage before this one")
    if flow.replan.id in ids:
        yield Problem(("replan",), f'"{flow.replan.id}" is already the id of a stage')
    if flow.replan.tools != REPLAN.tools:
        yield from _unknown_tools(flow.replan, known_tools, ("replan",))
    if flow.fix is not None and flow.fix not in ids:
        yield Problem(("fix",), unknown_name("stage", flow.fix, ids))
    yield from _nobody_mends(flow)
    cycle = find_cycle({stage.id: stage.needs for stage in flow.stages})
    if cycle:
        where = ("stages", ids.index(cycle[0]), "needs")
        yield Problem(where, f"`needs` goes in a circle: {' -> '.join((*cycle, cycle[0]))}")


def _nobody_mends(flow: Flow) -> Iterator[Problem]:
    """A stage of whole answers mends nothing afterwards, and cannot be told what is wrong with a diff."""
    answers = [stage.id for stage in flow.stages if stage.candidates]
    if flow.fix in answers:
        yield Problem(("fix",), f'"{flow.fix}" has candidates: `fix` must name a stage without candidates')
    for name in ("diff_scope", "tests_touched", "tests_weakened"):
        if len(answers) == len(flow.stages) and getattr(flow.checks, name):
            message = f"{name} needs a stage without candidates, and there is none: leave it out"
            yield Problem(("checks",), message)


def _unmeetable(
    stage: Stage, specs: list[ToolSpec] | None, where: tuple[str | int, ...]
) -> Iterator[Problem]:
    """A check that the stage's tools can never satisfy."""
    if specs is None:
        return
    admitted = [spec for spec in specs if stage.tools.admits(spec)]
    if stage.checks.plan_written and not any(spec.name == "plan_tasks" for spec in admitted):
        yield Problem(
            (*where, "checks"), "plan_written needs the tool plan_tasks, which the stage does not have"
        )
    for name in ("files_read", "named_files", "named_tests"):
        if getattr(stage.checks, name) and not any(spec.name in _READING for spec in admitted):
            yield Problem((*where, "checks"), f"{name} needs a tool that reads, and the stage has none")


def _misspelt(stage: Stage, where: tuple[str | int, ...]) -> Iterator[Problem]:
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


def _unknown_tools(
    stage: Stage, known: frozenset[str] | set[str] | None, where: tuple[str | int, ...]
) -> Iterator[Problem]:
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
