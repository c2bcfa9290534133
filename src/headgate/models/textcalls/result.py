"""What is found in a reply: calls to run, and attempts at calls that are answered instead."""

from dataclasses import dataclass
from typing import Any, Literal

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
