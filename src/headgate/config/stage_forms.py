"""Stages as people may write them, and what they stand for: plain prompts, files, and a planner as a loop.

    - id: loop
      repeat: {until: planner.complete, max: 10}
      stages:
        - {id: planner, tools: {allow: [execute, escalate]}}
        - {id: steps, foreach: recipe, needs: [planner]}

is a stage of the kind `planner`, in which the stages of its recipes stand. What it does not say is as in the
built-in flow `planned`.
"""

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from headgate.config.yaml_files import parse_yaml
from headgate.core import EXECUTE_TOOL, PLANNER, free_id

FLOW_SUFFIXES = (".yaml", ".yml", ".json")
_SLUG_CHARS = 30


def read_stages(value: Any) -> Any:
    """A list of stages as written, as the stages that it stands for."""
    return _read_planners(expand_stages(value))


def expand_stages(value: Any) -> Any:
    """A list of stages in which a plain string is a flow file, or a stage with that prompt."""
    if not isinstance(value, list | tuple):
        return value
    taken = {item["id"] for item in value if isinstance(item, Mapping) and isinstance(item.get("id"), str)}
    stages: list[Any] = []
    for item in value:
        if not isinstance(item, str):
            stages.append(item)
        elif item.endswith(FLOW_SUFFIXES) and " " not in item:
            stages.append({"file": item})
        else:
            stage_id = free_id(_slug(item), taken, "-")
            stages.append({"id": stage_id, "prompt": item})
    return stages


def _slug(prompt: str) -> str:
    words = re.findall(r"[a-z0-9]+", prompt.lower())
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word
        if len(longer) > _SLUG_CHARS:
            break
        slug = longer
    slug = slug or "stage"
    return slug if slug[0].isalpha() else f"stage-{slug}"


def _read_planners(stages: Any) -> Any:
    """Stages as written, with each such loop as the stage that it stands for."""
    if not isinstance(stages, list | tuple):
        return stages
    return [_read_group(stage) if isinstance(stage, Mapping) else stage for stage in stages]


def _read_group(group: Mapping[str, Any]) -> Mapping[str, Any]:
    inside = group.get("stages")
    if not isinstance(inside, list | tuple) or group.get("kind") == PLANNER:
        return group
    steps = [stage for stage in inside if isinstance(stage, Mapping) and stage.get("foreach") == "recipe"]
    planners = [stage for stage in inside if isinstance(stage, Mapping) and _executes(stage)]
    if len(steps) != 1 or len(planners) != 1:
        return {**group, "stages": _read_planners(inside)}
    planner = {**_built_in(), **planners[0], "kind": PLANNER}
    repeat = group.get("repeat")
    if isinstance(repeat, Mapping) and "max" in repeat and "planner" not in planners[0]:
        planner["planner"] = {"max_iterations": repeat["max"]}
    rest = {key: value for key, value in group.items() if key != "repeat"}
    return {
        **rest,
        "stages": [planner if one is planners[0] else one for one in inside if one is not steps[0]],
    }


def _executes(stage: Mapping[str, Any]) -> bool:
    tools = stage.get("tools")
    allowed = tools.get("allow") if isinstance(tools, Mapping) else stage.get("tools_allow")
    return isinstance(allowed, list | tuple) and EXECUTE_TOOL in allowed


def _built_in() -> dict[str, Any]:
    """The planner of the built-in flow, for what another one leaves out."""
    file = resources.files("headgate.config") / "flows" / "planned.yaml"
    return dict(parse_yaml(file.read_text("utf-8"), "The built-in flow planned").data["stages"][0])
