"""Which tools a conversation's system message describes, and what its messages say when others are offered.

The description is the beginning of the prompt: each change of it costs the server all of what follows. So it
stays, and what is offered instead is told in a line behind one of the last messages, with a description of
the tools that had none. There the line stays: the prompt only grows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.messages import Message, ToolSpec
from headgate.models.transports.describing import describe_tool

Described = Mapping[str, str]
"""Tools by their names, as they are described: two that read the same are the same to a model."""
_MOST = 16
_MOST_LINES = 64
"""After which those are forgotten that are behind no message any more."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What is told behind a message: the tools that are offered from there on, and new ones among them."""

    message: Message
    offered: Described
    new: Described
    text: str


@dataclass(slots=True)
class Offer:
    """One conversation: what its system message describes, and what was told since."""

    first: Message
    tools: tuple[ToolSpec, ...]
    """As described."""
    described: Described
    _lines: dict[int, _Line] = field(default_factory=dict)

    def lines(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """What is told behind each of some messages; empty where nothing is."""
        return tuple(line.text if (line := self._line(message)) else "" for message in messages)

    def tell(self, talk: Sequence[Message], offered: Described) -> bool:
        """Tells which tools there are now, if that was not told before; False if there is no place for it."""
        place = _place(talk)
        self._lines.pop(id(place), None)
        now = known = self.described
        if self._lines:
            for message in talk:
                if line := self._line(message):
                    now, known = line.offered, {**known, **line.new}
        if len(self._lines) >= _MOST_LINES:
            self._lines = {id(message): line for message in talk if (line := self._line(message))}
        if offered == now:
            return True
        new = {name: text for name, text in offered.items() if known.get(name) != text}
        # Where little was said yet, or nothing can be added, the description itself is the place for them.
        if new and (len(talk) == 1 or place.role == "assistant"):
            return False
        if place.role != "assistant":
            text = _tell_change(offered, new, every=offered == known == self.described)
            self._lines[id(place)] = _Line(place, offered, new, text)
        return True

    def _line(self, message: Message) -> _Line | None:
        line = self._lines.get(id(message))
        return line if line is not None and line.message is message else None


class Offers:
    """The conversations of one model, each known by its first message."""

    def __init__(self) -> None:
        self._offers: dict[int, Offer] = {}
        self._read: dict[ToolSpec, str] = {}

    def find(self, talk: Sequence[Message], tools: tuple[ToolSpec, ...]) -> Offer | None:
        """What the conversation was told, and is told from now on; None where there never was a tool."""
        if not talk:
            return None
        first, offered = talk[0], self._describe(tools)
        known = self._offers.pop(id(first), None)
        if known is None or known.first is not first or not known.tell(talk, offered):
            if not tools:
                return None
            known = Offer(first, tools, offered)
        self._offers[id(first)] = known  # at the end: the one that was used last
        if len(self._offers) > _MOST:
            del self._offers[next(iter(self._offers))]
        return known

    def _describe(self, tools: tuple[ToolSpec, ...]) -> Described:
        if len(self._read) > _MOST * _MOST:
            self._read.clear()
        for tool in tools:
            if tool not in self._read:
                self._read[tool] = describe_tool(tool)
        return {tool.name: self._read[tool] for tool in tools}


def _place(talk: Sequence[Message]) -> Message:
    """The message behind which tools are told of: not a hint that comes last and is gone the next time."""
    hinted = len(talk) > 1 and talk[-1].role == "user" and talk[-2].role != "assistant"
    return talk[-2] if hinted else talk[-1]


def _tell_change(offered: Described, new: Described, *, every: bool) -> str:
    if not offered:
        return "No tools now: answer in plain text."
    if every:
        return "You have all tools now."
    only = f"Only these tools now: {', '.join(offered)}."
    return "\n".join((f"{only} New:", *new.values())) if new else only
