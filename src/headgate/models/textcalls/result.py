"""What is found in a reply: calls to run, and attempts at calls that are answered instead."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headgate.core import ToolSpec

Fault = Literal["", "cut_off", "unreadable"]
Reason = Literal["unknown_tool", "cut_off", "unreadable"]


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call to a tool that exists. `arguments` is the text of a JSON object."""

    name: str
    arguments: str
    id: str = ""
    """The id that the model wrote beside the call, if any."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An attempt at a call that is not run; its text stays in the content."""

    reason: Reason
    name: str
    """The tool that the model meant, as far as it can be told."""
    message: str
    """One sentence for the model."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reply taken apart."""

    content: str
    reasoning: str = ""
    calls: tuple[ParsedCall, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call as a family's reader understood it, before names and schemas are looked at."""

    name: str
    arguments: dict[str, Any] | None = None
    """None: there are none, or none that can be read."""
    id: str = ""
    fault: Fault = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader took: everything up to `end`."""

    end: int
    attempts: tuple[Attempt, ...]


# The marks around thinking, by family.


PAIRS: Mapping[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
FINAL = "[BEGIN FINAL RESPONSE]"
"""Ends the thinking of models that begin every reply with it."""
OPENING = "|".join(re.escape(mark) for mark in PAIRS)
CLOSING = "|".join(re.escape(mark) for mark in (*PAIRS.values(), FINAL) if mark != "<channel|>")


# The tools that a reply may call, looked up by the names that models write.


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
