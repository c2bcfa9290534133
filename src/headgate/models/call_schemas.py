"""The JSON schema of one decision: a short thought, then one call to one of the tools.

A small model that is held to a schema does not end a text or a list by itself. So each of them has an end,
and a nearer one after a reply that was cut off. Servers make a grammar of the schema, and some die of one
that contradicts itself: a least length is never above a greatest one. What servers do not know is left out,
and checked when the call is made.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import ceil, floor
from typing import Any

from headgate.core import DONE_TOOL, ToolSpec
from headgate.first_use import dataclass
from headgate.models.textcalls.offered_tools import branches, read_properties, resolve

OUTPUT = "output"
"""The argument of the closing signal that is the work itself."""
LONG_STRING, SAFE_STRING = 8_000, 1_900
"""The longest string in a call: at first, and where a server cannot make a grammar of that. llama.cpp knows
no limit above 2,000: it refuses it, or takes it for none."""
_THOUGHT, _SHORT, _LISTED, _ITEMS, _NOTES = 160, 500, 200, 50, 8
_MOST_ITEMS = 500
"""That a schema can ask for itself."""
_DEPTH = 12
_TIGHTER = ((LONG_STRING, LONG_STRING, _ITEMS), (1_900, 400, 4), (400, 80, 2), (100, 40, 1))
"""Room after so many replies that were cut off: long strings, others, items."""
TIGHTEST = len(_TIGHTER) - 1
_FORMATS = ("date", "time", "date-time", "uuid")
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Room:
    """How much an argument may hold, in characters and items."""

    text: int
    listed: int
    """A string that is an item of a list, unless its schema says more."""
    items: int
    """A list, unless its schema says more."""
    most_items: int
    """Whatever its schema says."""
    is_open: bool = True
    """Whether an object that names no keys may have some."""


def room_for(tool: ToolSpec, argument: str, longest: int, tightness: int = 0) -> Room:
    """The room of one argument of a tool, where no string may be longer than `longest`."""
    long, short, items = _TIGHTER[tightness]
    long = min(long, longest)
    text = min(_SHORT, short, long)
    if tool.category in ("write", "run"):
        return Room(long, long, items, items)
    if tool.name == DONE_TOOL and argument == OUTPUT:
        return Room(long, text, items, items if tightness else _MOST_ITEMS)
    if tool.category == "control":
        return Room(text, min(_LISTED, text), min(_NOTES, items), items, is_open=False)
    return Room(text, text, items, items)


def call_schema(
    tools: Sequence[ToolSpec],
    longest: int = LONG_STRING,
    tightness: int = 0,
    bare: AbstractSet[ToolSpec] = frozenset(),
) -> dict[str, Any]:
    """What a reply must look like.

    `tightness`: how many replies were cut off before, at most TIGHTEST. `bare`: tools whose arguments may be
    any object.
    """
    return {"anyOf": [_branch(tool, longest, tightness, tool in bare) for tool in tools]}


def _branch(tool: ToolSpec, longest: int, tightness: int, bare: bool) -> dict[str, Any]:
    thought = min(_THOUGHT, _TIGHTER[tightness][1], longest)
    properties = {
        "thought": {"type": "string", "maxLength": thought},
        "name": {"type": "string", "const": tool.name},
        "arguments": {"type": "object"} if bare else _arguments(tool, longest, tightness),
    }
    return _object(properties, list(properties))


def _arguments(tool: ToolSpec, longest: int, tightness: int) -> dict[str, Any]:
    root = tool.parameters
    properties = {
        name: _Bounds(root, room_for(tool, name, longest, tightness)).bound(value)
        for name, value in read_properties(root).items()
    }
    return _object(properties, _required(root, properties))


class _Bounds:
    """Makes a schema with only what servers can hold a model to, and with an end to every string and list."""

    def __init__(self, root: Mapping[str, Any], room: Room) -> None:
        self._root = root
        self._room = room

    def bound(self, given: Any, depth: int = 0, listed: bool = False) -> dict[str, Any]:
        schema = _merge(resolve(given, self._root), self._root)
        if not schema or depth > _DEPTH:
            return self._any(listed)
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, list | tuple) and options:
            return {"anyOf": [self.bound(option, depth + 1, listed) for option in options]}
        stated = schema.get("type")
        if isinstance(stated, list | tuple) and stated:
            return {"anyOf": [self.bound({**schema, "type": one}, depth + 1, listed) for one in stated]}
        typed = {"type": stated} if isinstance(stated, str) else {}
        if "const" in schema:
            return {"const": schema["const"], **typed}
        if isinstance(schema.get("enum"), list | tuple) and schema["enum"]:
            return {"enum": list(schema["enum"]), **typed}
        match stated if stated in _TYPES else _implied(schema):
            case "string":
                return self._string(schema, listed)
            case "array":
                return self._array(schema, depth)
            case "object":
                return self._map(schema, depth)
            case "integer" | "number" as number:
                return {"type": number, **_range(schema, is_whole=number == "integer")}
            case "boolean" | "null" as plain:
                return {"type": plain}
        return self._any(listed)

    def _any(self, listed: bool) -> dict[str, Any]:
        text = self._string({}, listed)
        if not self._room.is_open:
            return text
        return {"anyOf": [text, *({"type": name} for name in ("number", "boolean", "null"))]}

    def _string(self, schema: Mapping[str, Any], listed: bool) -> dict[str, Any]:
        if schema.get("format") in _FORMATS:
            return {"type": "string", "format": schema["format"]}
        most = limit_of([schema], self._room, listed)
        least = min(_count(schema, "minLength", 0), SAFE_STRING)
        return {
            "type": "string",
            **({"minLength": least} if least else {}),
            "maxLength": max(most, least),
        }

    def _array(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        places = schema.get("prefixItems")
        if isinstance(places, list | tuple) and places:
            bounded = [self.bound(place, depth + 1) for place in places]
            return {
                "type": "array",
                "prefixItems": bounded,
                "minItems": len(bounded),
                "maxItems": len(bounded),
            }
        room = self._room
        most = min(_count(schema, "maxItems", room.items), room.most_items)
        least = min(_count(schema, "minItems", 0), _MOST_ITEMS)
        return {
            "type": "array",
            "items": self.bound(schema.get("items"), depth + 1, listed=True),
            **({"minItems": least} if least else {}),
            "maxItems": max(most, least),
        }

    def _map(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        inner = read_properties(schema).items()
        properties = {name: self.bound(value, depth + 1) for name, value in inner}
        found = _object(properties, _required(schema, properties))
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            found["additionalProperties"] = self.bound(values, depth + 1, listed=True)
        elif not properties and values is not False and self._room.is_open:
            found["additionalProperties"] = self._any(listed=True)
        return found


def _merge(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its `allOf` as one."""
    parts = schema.get("allOf")
    if not isinstance(parts, list | tuple):
        return schema
    merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    properties, required = dict(read_properties(schema)), list(schema.get("required") or ())
    for part in parts:
        found = resolve(part, root)
        properties |= read_properties(found)
        required += found.get("required") or ()
        merged = {**found, **merged}
    return {**merged, **({"properties": properties, "required": required} if properties else {})}


def _implied(schema: Mapping[str, Any]) -> str:
    """The type of a schema that does not name it."""
    if read_properties(schema) or "additionalProperties" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    return "string" if {"minLength", "maxLength", "pattern", "format"} & set(schema) else "any"


def _range(schema: Mapping[str, Any], *, is_whole: bool) -> dict[str, Any]:
    """The least and the greatest number, where they can be kept to."""
    low, high = _number(schema, "minimum"), _number(schema, "maximum")
    if is_whole:
        above, below = _number(schema, "exclusiveMinimum"), _number(schema, "exclusiveMaximum")
        lows = [ceil(low)] if low is not None else []
        highs = [floor(high)] if high is not None else []
        low = max([*lows, *([floor(above) + 1] if above is not None else [])], default=None)
        high = min([*highs, *([ceil(below) - 1] if below is not None else [])], default=None)
    if low is not None and high is not None and low > high:
        return {}
    found = {"minimum": low, "maximum": high}
    return {word: value for word, value in found.items() if value is not None}


def _number(schema: Mapping[str, Any], word: str) -> float | int | None:
    value = schema.get(word)
    known = isinstance(value, int | float) and not isinstance(value, bool) and -_INT64 < value < _INT64
    return value if known else None


def _count(schema: Mapping[str, Any], word: str, absent: int) -> int:
    value = schema.get(word)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else absent


def _required(schema: Mapping[str, Any], properties: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if name in properties] if isinstance(required, list | tuple) else []


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


# Strings that the server ended, not the model: half a text must not be taken for a text.


def limit_of(schemas: Sequence[Mapping[str, Any]], room: Room, listed: bool) -> int:
    """How long a string may be that has one of these schemas."""
    own = [schema["maxLength"] for schema in schemas if isinstance(schema.get("maxLength"), int)]
    return min(max(own), room.text) if own else room.listed if listed else room.text


def find_cut_string(
    value: Any, schema: Any, root: Mapping[str, Any], room: Room, listed: bool = False
) -> int | None:
    """The limit that some string has reached, where the limit is not the schema's own."""
    options = branches(schema, root)
    match value:
        case str():
            limit = limit_of(options, room, listed)
            own = any(option.get("maxLength") == limit for option in options)
            return limit if len(value) >= limit and not own else None
        case dict():
            known = {name: inner for option in options for name, inner in read_properties(option).items()}
            others = _first(options, "additionalProperties")
            parts = [(item, known.get(name, others), name not in known) for name, item in value.items()]
        case list():
            places, items = _first(options, "prefixItems") or (), _first(options, "items")
            ends = [*((place, False) for place in places), *([(items, True)] * len(value))]
            parts = [(item, inner, is_listed) for item, (inner, is_listed) in zip(value, ends, strict=False)]
        case _:
            return None
    found = (find_cut_string(item, inner, root, room, is_listed) for item, inner, is_listed in parts)
    return next((limit for limit in found if limit is not None), None)


def _first(schemas: Sequence[Mapping[str, Any]], word: str) -> Any:
    return next((schema[word] for schema in schemas if word in schema), None)
