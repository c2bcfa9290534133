"""The tools that a reply may call: found by name, and arguments converted to their types."""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core import TOOL_ALIASES, ToolSpec, match_spelling
from headgate.first_use import regex
from headgate.models.textcalls.source import read_json
from headgate.reading import repair_json

PREFIXES = ("functions.", "function.", "tools.", "tool.")


def is_variant(tool: ToolSpec, name: str) -> bool:
    """Whether a model called a choice of this tool as if that were a tool: `code_modify` for `execute`."""
    return name != tool.name and match_spelling(name, tool.variants) in tool.variants


class ToolBook:
    """The offered tools by name."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def find(self, name: str) -> ToolSpec | None:
        """The tool meant by a name, which may carry a namespace: `functions.ls`, `ls.ls`, `ls.call`."""
        name = TOOL_ALIASES.get(name.strip(), name.strip())
        if name in self._tools:
            return self._tools[name]
        for prefix in PREFIXES:
            if name.startswith(prefix) and name.removeprefix(prefix) in self._tools:
                return self._tools[name.removeprefix(prefix)]
        head, dot, tail = name.rpartition(".")
        if dot and tail in (head, "call"):
            return self._tools.get(head)
        return next((tool for tool in self._tools.values() if is_variant(tool, name)), None)

    def find_by_keys(self, arguments: Mapping[str, Any]) -> ToolSpec | None:
        """The only tool that these arguments fit: some models number their calls instead of naming them."""
        fits = [tool for tool in self._tools.values() if arguments and _fits(arguments, tool.parameters)]
        return fits[0] if len(fits) == 1 else None

    def properties(self, name: str) -> Mapping[str, Any]:
        """The schemas of a tool's arguments; empty where the tool or its schema is unknown."""
        tool = self.find(name)
        return read_properties(tool.parameters) if tool else {}

    def root(self, name: str) -> Mapping[str, Any]:
        """The whole schema of a tool's arguments."""
        tool = self.find(name)
        return tool.parameters if tool else {}

    def read_argument(self, name: str, key: str, text: str, unquote: bool = False) -> Any:
        """The value of an argument of a tool that is written without quotes, between tags."""
        return read_text(text, self.properties(name).get(key), self.root(name), unquote)


def read_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `properties` of a schema, whatever else it holds."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def _fits(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    required = schema.get("required")
    names = set(required) if isinstance(required, list | tuple) else set()
    return set(arguments) <= set(read_properties(schema)) and names <= set(arguments)


# Arguments converted to the types of a tool's schema, where nothing is lost by it.


DEPTH = 32
_INTEGER = regex(r"[-+]?\d{1,300}")
_NUMBER = regex(r"[-+]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][-+]?\d{1,2})?")
_TRUTH = {"true": True, "false": False}
_NULLS = {"null", "none"}
_SHAPES: Mapping[str, type[Any]] = {"object": dict, "array": list}


def resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with its local reference followed."""
    for _ in range(DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        schema = root
        for part in reference[2:].split("/"):
            schema = schema.get(part) if isinstance(schema, Mapping) else None
    return {}


def branches(schema: Any, root: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """The schema and all its alternatives."""
    schema = resolve(schema, root)
    found = [schema]
    for word in ("anyOf", "oneOf", "allOf"):
        inner = schema.get(word)
        if isinstance(inner, list | tuple) and depth < 8:
            for item in inner:
                found += branches(item, root, depth + 1)
    return found


def types_of(schema: Any, root: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema allows; empty where it does not say."""
    found: set[str] = set()
    for branch in branches(schema, root):
        stated = branch.get("type")
        if isinstance(stated, str):
            found.add(stated)
        elif isinstance(stated, list | tuple):
            found.update(item for item in stated if isinstance(item, str))
        elif isinstance(values := branch.get("enum"), list | tuple):
            found.update(_type_name(value) for value in values)
        elif isinstance(branch.get("properties"), Mapping):
            found.add("object")
    return found


def coerce_arguments(arguments: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """A call's arguments with strings turned into what the schema wants: "3" into 3, and so on."""
    properties = read_properties(root)
    return {name: coerce(value, properties.get(name), root) for name, value in arguments.items()}


def coerce(value: Any, schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """One value. It is returned as it is where the schema allows it or nothing fits."""
    types = types_of(schema, root)
    if not types or depth > DEPTH:
        return value
    if isinstance(value, str) and "string" not in types:
        value = _from_string(value, types)
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        return int(value)
    if isinstance(value, list):
        items = next((b["items"] for b in branches(schema, root) if "items" in b), None)
        return [coerce(item, items, root, depth + 1) for item in value]
    if isinstance(value, dict):
        inner = next((found for b in branches(schema, root) if (found := read_properties(b))), {})
        return {key: coerce(item, inner.get(key), root, depth + 1) for key, item in value.items()}
    return value


def read_text(text: str, schema: Any, root: Mapping[str, Any], unquote: bool = False) -> Any:
    """The value of an argument that is written without quotes, between tags.

    `unquote`: this family writes strings with quotes at times, and means none.
    """
    types = types_of(schema, root)
    bare = text.strip()
    if not types:
        try:
            return read_json(bare)
        except ValueError:
            return text
    if "string" in types:
        if "null" in types and bare == "null":
            return None
        if types & set(_SHAPES) and bare[:1] in ("{", "["):
            value = _from_string(bare, types - {"string"})
            return text if isinstance(value, str) else value
        if unquote and len(bare) > 1 and bare[0] == bare[-1] == '"':
            try:
                value = read_json(bare)
            except ValueError:
                return bare[1:-1]
            return value if isinstance(value, str) else text
        return text
    value = _from_string(bare, types)
    return text if isinstance(value, str) else value


def _from_string(text: str, types: set[str]) -> Any:
    bare = text.strip()
    if "integer" in types and _INTEGER.fullmatch(bare):
        return int(bare)
    if "number" in types and _NUMBER.fullmatch(bare):
        return int(bare) if _INTEGER.fullmatch(bare) else float(bare)
    if "boolean" in types and bare.lower() in _TRUTH:
        return _TRUTH[bare.lower()]
    if "null" in types and bare.lower() in _NULLS:
        return None
    if bare[:1] in ("{", "["):
        value: Any = None
        try:
            value = read_json(bare)
        except ValueError:
            if len(bare) <= 10_000:
                value = repair_json(bare)
        if any(name in types and isinstance(value, shape) for name, shape in _SHAPES.items()):
            return value
    return text


def _type_name(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case dict():
            return "object"
    return "array"
