"""Tools in words, for a system message: a line each, because a local model reads all of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.messages import ToolSpec
from headgate.models.jsontext import encode_json
from headgate.models.textcalls.toolbook import read_properties

DEPTH = 4
"""Deeper parts of a schema are not spelled out."""


def describe_tools(tools: Sequence[ToolSpec]) -> str:
    """One entry per tool: how it is called, and what it does."""
    return "\n".join(describe_tool(tool) for tool in tools)


def describe_tool(tool: ToolSpec) -> str:
    """How one tool is called, and what it does."""
    lines = [f"- {tool.name}({_arguments(tool.parameters, 0)}): {tool.description.strip()}"]
    for name, schema in read_properties(tool.parameters).items():
        told = schema.get("description") if isinstance(schema, Mapping) else None
        if isinstance(told, str) and told:
            lines.append(f"  {name}: {told}")
    return "\n".join(lines)


def _arguments(schema: Mapping[str, Any], depth: int) -> str:
    required = schema.get("required")
    needed = set(required) if isinstance(required, list | tuple) else set()
    return ", ".join(
        f"{name}{'' if name in needed else '?'}: {_type(inner, depth + 1)}"
        for name, inner in read_properties(schema).items()
    )


def _type(schema: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > DEPTH:
        return "any"
    values = schema.get("enum")
    if isinstance(values, list | tuple):
        return "|".join(encode_json(value).decode() for value in values)
    if "const" in schema:
        return encode_json(schema["const"]).decode()
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list | tuple):
        return "|".join(dict.fromkeys(_type(option, depth + 1) for option in options))
    match schema.get("type"):
        case "array":
            return f"[{_type(schema.get('items'), depth + 1)}]"
        case "object" if read_properties(schema):
            return f"{{{_arguments(schema, depth)}}}"
        case str() as name:
            return name
        case [*names]:
            return "|".join(str(name) for name in names)
    return "any"
