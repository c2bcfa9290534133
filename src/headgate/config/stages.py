"""The list of stages in `flow`: stages, plain prompts, and files whose stages are put in their place."""

import re
from collections.abc import Mapping
from typing import Any

from headgate.core.flow import Data

FLOW_SUFFIXES = (".yaml", ".yml", ".json")
_SLUG_CHARS = 30


class FlowFile(Data):
    """A file whose stages are meant."""

    file: str


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
            stage_id = _free(_slug(item), taken)
            taken.add(stage_id)
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


def _free(wanted: str, taken: set[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name
