"""The JSON schema of one decision: a short thought, then one call to one of the tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.messages import ToolSpec
from headgate.models.textcalls.coercion import resolve
from headgate.models.textcalls.toolbook import read_properties

THOUGHT_CHARS = 160
SHORT_CHARS = 500
"""Of a string in the arguments of a tool that changes nothing."""
ITEMS = 50
DEPTH = 8
_KEPT = ("enum", "const", "minLength", "minimum", "maximum", "minItems")
_SCALARS = ("string", "integer", "number", "boolean", "null", "array", "object")


def call_schema(tools: Sequence[ToolSpec], long_chars: int) -> dict[str, Any]:
    """What a reply must look like. Every string and every list in it has an end.

    `long_chars` bounds the strings of tools that write or run something.
    """
    return {"anyOf": [_branch(tool, long_chars) for tool in tools]}


def _branch(tool: ToolSpec, long_chars: int) -> dict[str, Any]:
    properties = {
        "thought": {"type": "string", "maxLength": THOUGHT_CHARS},
        "name": {"type": "string", "const": tool.name},
        "arguments": bound_schema({**tool.parameters, "type": "object"}, string_limit(tool, long_chars)),
    }
    return _object(properties, list(properties))


def string_limit(tool: ToolSpec, long_chars: int) -> int:
    """How long a string in a tool's arguments may be."""
    return long_chars if tool.category in ("write", "run") else min(SHORT_CHARS, long_chars)


def bound_schema(
    schema: Any, limit: int, root: Mapping[str, Any] | None = None, depth: int = 0
) -> dict[str, Any]:
    """A schema with only what servers can hold a model to, and with every string bounded."""
    root = root if root is not None else schema
    schema = resolve(schema, root or {})
    if not schema or depth > DEPTH:
        return {"type": "string", "maxLength": limit}
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list | tuple) and options:
        return {"anyOf": [bound_schema(option, limit, root, depth + 1) for option in options]}
    stated = schema.get("type")
    if isinstance(stated, list | tuple):
        return {"anyOf": [bound_schema({**schema, "type": one}, limit, root, depth + 1) for one in stated]}
    kept = {word: schema[word] for word in _KEPT if word in schema}
    if "enum" in kept or "const" in kept:
        return kept | ({"type": stated} if isinstance(stated, str) else {})
    match stated if stated in _SCALARS else "object" if read_properties(schema) else "string":
        case "string":
            own = schema.get("maxLength")
            longest = min(own, limit) if isinstance(own, int) else limit
            return {"type": "string", **kept, "maxLength": longest}
        case "array":
            own = schema.get("maxItems")
            most = min(own, ITEMS) if isinstance(own, int) else ITEMS
            items = bound_schema(schema.get("items"), limit, root, depth + 1)
            return {"type": "array", "items": items, **kept, "maxItems": most}
        case "object":
            inner = read_properties(schema).items()
            properties = {name: bound_schema(value, limit, root, depth + 1) for name, value in inner}
            required = schema.get("required")
            needed = (
                [name for name in required if name in properties]
                if isinstance(required, list | tuple)
                else []
            )
            return _object(properties, needed)
        case other:
            return {"type": other, **kept}


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def reaches_limit(value: Any, limit: int) -> bool:
    """Whether some string is as long as the schema allows: the server then ended it, not the model."""
    match value:
        case str():
            return len(value) >= limit
        case dict():
            return any(reaches_limit(item, limit) for item in value.values())
        case list():
            return any(reaches_limit(item, limit) for item in value)
    return False
