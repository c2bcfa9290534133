"""Which tools a conversation's system message describes, and what its messages say when fewer are offered.

The description is the beginning of the prompt: each change of it costs the server all of what follows. So it
stays while every tool that is offered is among those described, and the difference is told in one short line
behind the message that was the last when it arose. There the line stays: the prompt only grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.core.messages import Message, ToolSpec
from headgate.models.transports.describing import describe_tool

Told = frozenset[str]
"""Tools as they are described: two that read the same are the same to a model."""
_MOST = 16
_MOST_LINES = 64
"""After which those are forgotten that are behind no message any more."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What is told behind a message."""

    message: Message
    offered: Told
    text: str


@dataclass(slots=True)
class Offer:
    """One conversation: what its system message describes, and what was told since."""

    first: Message
    tools: tuple[ToolSpec, ...]
    """As described."""
    told: Told
    _lines: dict[int, _Line] = field(default_factory=dict)

    def lines(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """What is told behind each of some messages; empty where nothing is."""
        return tuple(line.text if (line := self._line(message)) else "" for message in messages)

    def narrow(self, talk: Sequence[Message], tools: tuple[ToolSpec, ...], offered: Told) -> None:
        """Tells which tools there are now, behind the last message, if that was not told before."""
        last = talk[-1]
        self._lines.pop(id(last), None)
        known = self.told
        if self._lines:
            for message in talk:
                known = line.offered if (line := self._line(message)) else known
        if len(self._lines) >= _MOST_LINES:
            self._lines = {id(message): line for message in talk if (line := self._line(message))}
        if offered != known and last.role != "assistant":
            self._lines[id(last)] = _Line(last, offered, _tell_change(tools, offered == self.told))

    def _line(self, message: Message) -> _Line | None:
        line = self._lines.get(id(message))
        return line if line is not None and line.message is message else None


class Offers:
    """The conversations of one model, each known by its first message."""

    def __init__(self) -> None:
        self._offers: dict[int, Offer] = {}
        self._described: dict[ToolSpec, str] = {}

    def find(self, talk: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Offer | None:
        """What the conversation was told, and is told from now on; None where there never was a tool."""
        if not talk:
            return None
        first, offered = talk[0], self._read(tools)
        known = self._offers.pop(id(first), None)
        if known is not None and (known.first is not first or not offered <= known.told):
            known = None
        if known is None:
            if not tools:
                return None
            known = Offer(first, tools, offered)
        self._offers[id(first)] = known  # at the end: the one that was used last
        if len(self._offers) > _MOST:
            del self._offers[next(iter(self._offers))]
        known.narrow(talk, tools, offered)
        return known

    def _read(self, tools: tuple[ToolSpec, ...]) -> Told:
        if len(self._described) > _MOST * _MOST:
            self._described.clear()
        for tool in tools:
            if tool not in self._described:
                self._described[tool] = describe_tool(tool)
        return frozenset(self._described[tool] for tool in tools)


def _tell_change(tools: tuple[ToolSpec, ...], every: bool) -> str:
    if not tools:
        return "Now without tools: answer in words."
    if every:
        return "Now all tools again."
    return f"Now only: {', '.join(tool.name for tool in tools)}."
