"""The tools that a reply may call, looked up by the names that models write."""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.messages import ToolSpec

PREFIXES = ("functions.", "function.", "tools.", "tool.")


class ToolBook:
    """The offered tools by name."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def find(self, name: str) -> ToolSpec | None:
        """The tool meant by a name, which may carry a namespace: `functions.ls`, `ls.ls`, `ls.call`."""
        name = name.strip()
        if name in self._tools:
            return self._tools[name]
        for prefix in PREFIXES:
            if name.startswith(prefix) and name.removeprefix(prefix) in self._tools:
                return self._tools[name.removeprefix(prefix)]
        head, dot, tail = name.rpartition(".")
        if dot and tail in (head, "call"):
            return self._tools.get(head)
        return None

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


def read_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `properties` of a schema, whatever else it holds."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def _fits(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> bool:
    required = schema.get("required")
    names = set(required) if isinstance(required, list | tuple) else set()
    return set(arguments) <= set(read_properties(schema)) and names <= set(arguments)
