"""Calls written as JSON: the shapes of objects that mean one."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from headgate.models.textcalls.result import Attempt
from headgate.models.textcalls.source import read_json

NAME_KEYS = ("name", "tool_name", "function", "function_name", "tool", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "action_input", "tool_input", "kwargs")
ID_KEYS = ("id", "tool_call_id", "call_id")
_NAMED = re.compile(r'"(?:name|tool_name)"\s*:\s*"([^"\\]{1,200})"')


def attempts_in(value: Any, keyed: bool = False) -> tuple[Attempt, ...] | None:
    """The calls that a JSON value holds; None where some part of it is none.

    `keyed`: an object may also name the tool by its only key, `{"ls": {"path": "."}}`.
    """
    items = value if isinstance(value, list) else [value]
    found = [_read_object(item, keyed) for item in _unwrap(items) if isinstance(item, dict)]
    if not found or len(found) != len(list(_unwrap(items))):
        return None
    calls = tuple(item for item in found if item)
    return calls if len(calls) == len(found) else None


def guess_name(text: str, start: int) -> str:
    """The tool's name in an object that cannot be read to its end."""
    match = _NAMED.search(text, start, start + 2_000)
    return match[1] if match else ""


def read_arguments(value: Any) -> dict[str, Any] | None:
    """Arguments as an object: they may be a string that holds one."""
    if isinstance(value, str):
        try:
            value = read_json(value) if value.strip() else {}
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _unwrap(items: list[Any]) -> Iterator[Any]:
    for item in items:
        inner = item.get("tool_calls") if isinstance(item, dict) else None
        if isinstance(inner, list) and len(item) <= 2:
            yield from inner
        else:
            yield item


def _read_object(item: Mapping[str, Any], keyed: bool) -> Attempt | None:
    ids = (item[key] for key in ID_KEYS if isinstance(item.get(key), str))
    call_id = next(ids, "")
    inner = item.get("function")
    if isinstance(inner, dict):
        item = inner
    name = next((item[key] for key in NAME_KEYS if isinstance(item.get(key), str)), None)
    if name is None:
        (key, value), *rest = item.items() or [("", None)]
        return Attempt(key, value, call_id) if keyed and isinstance(value, dict) and not rest else None
    if "description" in item:
        # The description of a tool, not a call to it.
        return None
    given = [item[key] for key in ARGUMENT_KEYS if key in item]
    if not given:
        return Attempt(name, None, call_id)
    arguments = read_arguments(given[0])
    if arguments is None:
        return Attempt(name, None, call_id, "unreadable")
    if arguments.get("type") == "object" and isinstance(arguments.get("properties"), dict):
        return None
    return Attempt(name, arguments, call_id)
