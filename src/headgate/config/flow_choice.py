"""The flow that a task gets: which one suits it, and what the knobs of agent.yaml make of it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.config.flows import (
    ANY_NAMES,
    FlowNames,
    builtin_flows,
    check_flow,
    load_flow,
    read_stage_checks,
)
from headgate.config.schema import Config, FlowFile, FlowKnobs
from headgate.config.yaml_files import Document
from headgate.core import (
    FOR_ALL_STAGES,
    PLAN_TOOL,
    Data,
    Flow,
    Stage,
    ToolScope,
    all_needs,
    tool_problems,
    without_politeness,
)
from headgate.first_use import regex

SMALL = 4.0
"""Models up to so many billion parameters do better with one short question at a time than with tools."""
SMALLEST = 0.05
"""`1m` in a name is a context of a million tokens: no model that people run has so few parameters."""
_SIZE = regex(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?) ?([bm])(?![a-z0-9])", re.IGNORECASE)
_THINKING = regex(
    r"(?<![a-z0-9])(r1|qwq|o1)(?![a-z0-9])|think|reason|gpt-?oss|magistral|smollm3|exaone-?deep|deepcoder"
    r"|deepscaler|qwen-?3(?![0-9b]|.*(coder|instruct|2507))",
    re.IGNORECASE,
)
"""Models that think before they answer: a short answer is over before it has begun."""
_NEW = regex(
    r"\W*(please\s+)?(accept|add|allow|build|bump|change|clean|convert|cover|create|define|delete|deprecate|describe"
    r"|document|drop|enable|explain|expose|extend|extract|format|generate|hide|implement|improve|introduce|list|log"
    r"|merge|migrate|move|name|open|port|print|provide|raise|refactor|remove|rename|replace|rewrite|show|simplify"
    r"|sort|split|summari[sz]e|support|switch|test|translate|update|upgrade|use|write"
    r"|make(?!.*\b(pass|passes|green|work|works|succeed)\b))\s+"
    r"(?!(is|are|was|does|fail(s|ed)?|crash(es|ed)?|gives|returns|\w+s instead|(an? )?(bug)?fix)\b)",
    re.IGNORECASE,
)
"""Verbs with which a goal begins that asks for something new. In `add returns` it is the name of a thing."""
_WISH = regex(r"\b(need|want|wants|would like|['\u2019]d like|wish|there should be)\b", re.IGNORECASE)
"""Words of somebody who wants something that is not there yet."""
_FAULT = regex(
    r"\b(fix|fixes|repair|bugs?|broken|wrong|wrongly|fails?|failing|crash(es)?|regression)\b"
    r"|\b(tests?|pytest|checks?|build)( should| must)? (pass|passes|succeed|succeeds)\b",
    re.IGNORECASE,
)
"""Words about a fault, which is to be corrected whatever else is said: "there should be 3 pages. Fix it." """


def suited_flow(config: Config, goal: str) -> str:
    """`repair` for a small model and steps that can tell, unless the goal asks for something new.

    Whether there is something to repair is a fact: the flow runs the check first, and where that passes,
    or nothing says where to look, its stages are those of `staged`.
    """
    is_open = bool(goal.strip()) and not asks_for_something_new(goal)
    return "repair" if is_open and _can_repair(config) else "staged"


def depends_on_goal(config: Config) -> bool:
    """Whether tasks get `repair` or something else, by what they are about."""
    return (config.flow or config.mode) == "auto" and _can_repair(config)


def _can_repair(config: Config) -> bool:
    model = config.models.get(config.model or "")
    name = model.model if model else config.model or ""
    return bool(config.verification.steps) and answers_shortly(name)


def asks_for_something_new(goal: str) -> bool:
    """Whether a goal clearly asks for more than a repair; in doubt it does not."""
    wishes = _WISH.search(goal) and not _FAULT.search(goal)
    return bool(_NEW.match(without_politeness(goal)) or wishes)


def answers_shortly(model: str) -> bool:
    """Whether a model is small by its name, and answers without thinking first."""
    size = billions(model)
    return size is not None and size <= SMALL and not _THINKING.search(model)


def billions(model: str) -> float | None:
    """How many billion parameters a model has by its name; of several numbers the largest counts."""
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in _SIZE.findall(model)]
    return max((size for size in sizes if size >= SMALLEST), default=None)


def flow_from_config(
    config: Config,
    task_flow: str | None,
    repo: Path,
    known: FlowNames = ANY_NAMES,
    documents: Sequence[Document] = (),
    goal: str = "",
) -> Flow:
    """The flow of a task with this goal: its own choice, else `flow`, else `task_flow_mode`.

    Stages in agent.yaml gate nothing unless they say so, and the flow ends with the verification. `documents`
    are the configuration's files, weakest first, for errors with line numbers.
    """
    lists = {"tools_allow": config.tools_allow or (), "tools_block": config.tools_block or ()}
    for problem in tool_problems(lists, known.tools) if known.tools is not None else ():
        raise _document_with(str(problem.where[0]), documents).error(problem.where, problem.message)
    chosen = task_flow or config.flow or config.mode
    if chosen == "auto":
        chosen = suited_flow(config, goal)
    if not isinstance(chosen, str) and len(chosen) == 1 and isinstance(chosen[0], FlowFile):
        chosen = chosen[0].file  # the whole flow, with its checks
    if isinstance(chosen, str):
        builtin = chosen in builtin_flows()
        flow = load_flow(chosen, repo, known)
        flow = with_plan_mode(flow, config.task_plan_mode) if builtin else flow
        tuned = tune(flow, config, builtin=builtin)
        return check_flow(tuned, Document(f"The flow {flow.name}", {}), known)
    written = _document_with("flow", documents)
    inner = Document(
        written.name,
        {"stages": written.data.get("flow", [])},
        {("stages", *place[1:]): line for place, line in written.lines.items() if place[:1] == ("flow",)},
    )
    stages: list[Stage] = []
    for index, entry in enumerate(chosen):
        if isinstance(entry, FlowFile):
            stages += load_flow(entry.file, repo, known, whole=False).stages
            continue
        stages.append(entry)
        if known.checks is not None:
            read_stage_checks(entry, known.checks, written, ("flow", index))  # for errors at the right place
    flow = Flow(name="custom", stages=tuple(stages), checks={"verify": True})
    return check_flow(tune(check_flow(flow, inner, known), config), inner, known)


def _document_with(key: str, documents: Sequence[Document]) -> Document:
    """The strongest of the configuration's files that has a key."""
    return next((item for item in reversed(documents) if key in item.data), Document("agent.yaml", {}))


_LOOPS = ("identical_calls", "idle_reads", "idle_thoughts")


def tune(flow: Flow, knobs: FlowKnobs, *, builtin: bool = False) -> Flow:
    """A flow with what the knobs say wherever it does not say so itself; a built-in one always gives way."""
    own = {"replan_max": knobs.task_replan_max, "skip_readonly": knobs.task_skip_readonly}
    said: dict[str, dict[str, Any]] = {"": {}, "view": {}, "budget": {}, "tools": {}}
    for name, (knob, field) in FOR_ALL_STAGES.items():
        if (value := getattr(knobs, name)) is not None:
            said[knob].setdefault(field, value)
    if not knobs.loop_detection:
        said["budget"] |= dict.fromkeys(_LOOPS, 0)
    said["tools"] = ToolScope(**said["tools"]).model_dump(exclude_unset=True)
    stages = tuple(_tune_stage(stage, said, builtin) for stage in flow.stages)
    replan = _tune_stage(flow.replan, said, builtin)
    return flow.model_copy(update={**_left_open(flow, own), "stages": stages, "replan": replan})


def _tune_stage(stage: Stage, said: Mapping[str, Mapping[str, Any]], builtin: bool) -> Stage:
    if stage.stages:
        inner = tuple(_tune_stage(child, said, builtin) for child in stage.stages)
        return stage.model_copy(update={"stages": inner})
    own = _left_open(stage, said[""])
    knobs = {"budget": _fill_in(stage.budget, said["budget"], builtin)}
    if stage.candidates or stage.kind != "talk":  # it calls no tools, and has no conversation
        own.pop("retry_hints", None)
    else:
        knobs |= {
            "view": _fill_in(stage.view, said["view"], builtin),
            "tools": _fill_in(stage.tools, said["tools"], False),
        }
    return stage.model_copy(update={**own, **knobs})


def _fill_in(policy: Data, said: Mapping[str, Any], wins: bool) -> Data:
    return policy.model_copy(update=said if wins else _left_open(policy, said))


def _left_open(policy: Data, said: Mapping[str, Any]) -> dict[str, Any]:
    """Of what is said, what the policy, as written, leaves open."""
    return {name: value for name, value in said.items() if name not in policy.model_fields_set}


def with_plan_mode(flow: Flow, mode: str) -> Flow:
    """A flow without the stage that writes the plan (`none`), or without those that it needs (`first`).

    Of a built-in flow, that is the stage whose tools name the one that writes plans.
    """
    plans = [stage.id for stage in flow.stages if PLAN_TOOL in (stage.tools.allow or ())]
    if not plans or mode == "explore":
        return flow
    needs = {stage.id: stage.needs for stage in flow.stages}
    dropped = set(plans) if mode == "none" else all_needs(needs[plans[0]], needs)
    kept = [
        stage.model_copy(update={"needs": tuple(_without(stage.needs, dropped, needs))})
        for stage in flow.stages
        if stage.id not in dropped
    ]
    return flow.model_copy(update={"stages": tuple(kept)})


def _without(wanted: tuple[str, ...], dropped: set[str], needs: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Needs, with each dropped stage replaced by what it needed itself."""
    found: list[str] = []
    for need in wanted:
        found += _without(needs[need], dropped, needs) if need in dropped else [need]
    return list(dict.fromkeys(found))
