"""The arguments of a call, as a model wrote them.

They are repaired where nothing is lost, and refused where something would be made up.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import json_repair

from headgate.errors import ToolArgsInvalid

# A string, which is kept as it is, or a comma before a closing bracket, which is dropped.
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(\s*[}\]])', re.DOTALL)
_FENCE = re.compile(r"^```\w*\s*(.*?)\s*```$", re.DOTALL)


def parse_arguments(text: str, cut_off: bool = False) -> dict[str, Any]:
    """The object that a model wrote as a call's arguments; ToolArgsInvalid says what is wrong with it."""
    stripped = text.strip()
    if not stripped:
        return {}
    value = _load(stripped, cut_off)
    if isinstance(value, str):
        return parse_arguments(value, cut_off)
    if not isinstance(value, dict):
        raise ToolArgsInvalid("The arguments must be a JSON object.")
    return value


def _load(text: str, cut_off: bool) -> Any:
    try:
        # Not strict: line breaks inside strings are the most common fault, and taking them loses nothing.
        return json.loads(text, strict=False)
    except ValueError as error:
        problem = str(error)
    fenced = _FENCE.match(text)
    text = fenced[1] if fenced else text
    if cut_off or not text.endswith("}"):
        raise ToolArgsInvalid(
            "The arguments are incomplete, so the call was not run. Call again with shorter content."
        )
    try:
        return json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or match[2], text), strict=False)
    except ValueError:
        value = json_repair.loads(text, skip_json_loads=True, stream_stable=True)
    if not isinstance(value, dict) or not value or not all(_is_in(text, part) for part in _strings(value)):
        raise ToolArgsInvalid(f"The arguments are not a JSON object: {problem}.")
    return value


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield from (key, *_strings(item))
        case list():
            for item in value:
                yield from _strings(item)


def _is_in(text: str, value: str) -> bool:
    """Whether a repaired string stands in the text as it is, plainly or escaped: a repair must not invent."""
    escaped = json.dumps(value, ensure_ascii=False)[1:-1]
    return value in text or escaped in text or json.dumps(value)[1:-1] in text
