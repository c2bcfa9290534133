"""A conversation with tools, told to a server that is offered none: calls and results become text.

What a message becomes depends on it and on what stands before it alone, and is made once: from turn to turn
the beginning of the prompt stays the same, and the server need not read it again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headgate.core.messages import Message, ToolSpec
from headgate.models.transports.offers import Offers

Tell = Callable[[tuple[ToolSpec, ...]], str]
"""What the system message says about the tools."""
Write = Callable[[Message], str]
"""A reply with calls as the model would have written it."""
_MOST_SYSTEMS = 16


@dataclass(slots=True)
class _Group:
    """Neighbouring messages of one side: many chat templates insist that the sides alternate."""

    sources: tuple[Message, ...]
    lines: tuple[str, ...]
    """What is told of the tools behind each of them."""
    message: Message


@dataclass
class Rendering:
    """Makes the messages of a request, and keeps what it made."""

    tell: Tell
    write: Write
    keep_reasoning: bool = False
    """Replies carry what the model thought, for models that need it back."""
    _groups: list[_Group] = field(default_factory=list, init=False)
    _systems: dict[tuple[str, tuple[ToolSpec, ...]], Message] = field(default_factory=dict, init=False)
    _offers: Offers = field(default_factory=Offers, init=False)

    def render(self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]) -> list[Message]:
        """The same conversation without calls and results; the tools are described at its beginning.

        Where others are offered later, a line near the end tells of them.
        """
        count = 0
        while count < len(messages) and messages[count].role == "system":
            count += 1
        system = "\n\n".join(message.content for message in messages[:count] if message.content.strip())
        talk = messages[count:]
        offer = self._offers.find(talk, tools)
        described = offer.tools if offer else tools
        rendered = [self._system(system, described)] if system or described else []
        kept = True
        names: dict[str, str] = {}
        for index, sources in enumerate(_group(talk)):
            lines = offer.lines(sources) if offer else ("",) * len(sources)
            known = self._groups[index] if kept and index < len(self._groups) else None
            if known is None or known.lines != lines or not _same(known.sources, sources):
                if kept:
                    del self._groups[index:]
                    kept = False
                self._groups.append(_Group(sources, lines, self._join(sources, lines, names)))
            rendered.append(self._groups[index].message)
            if sources[0].role == "assistant":
                names = {call.id: call.name for message in sources for call in message.calls}
        return rendered

    def _system(self, text: str, tools: tuple[ToolSpec, ...]) -> Message:
        known = self._systems.get((text, tools))
        if known is None:
            if len(self._systems) >= _MOST_SYSTEMS:
                self._systems.clear()
            told = self.tell(tools) if tools else ""
            known = Message("system", "\n\n".join(part for part in (text, told) if part))
            self._systems[text, tools] = known
        return known

    def _join(self, sources: tuple[Message, ...], lines: tuple[str, ...], names: dict[str, str]) -> Message:
        if sources[0].role == "assistant":
            text = "\n\n".join(part for part in map(self.write, sources) if part)
            if self.keep_reasoning:
                return replace(sources[-1], content=text, calls=(), wire={})
            return Message("assistant", text)
        told = zip((_told(message, names) for message in sources), lines, strict=True)
        return Message("user", "\n\n".join(part for pair in told for part in pair if part))


def _group(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    group: list[Message] = []
    for message in messages:
        if group and (group[0].role == "assistant") != (message.role == "assistant"):
            yield tuple(group)
            group = []
        group.append(message)
    if group:
        yield tuple(group)


def _same(known: tuple[Message, ...], given: tuple[Message, ...]) -> bool:
    return len(known) == len(given) and all(one is other for one, other in zip(known, given, strict=True))


def _told(message: Message, names: dict[str, str]) -> str:
    if message.role != "tool":
        return message.content
    name = names.get(message.call_id, "")
    label = f' name="{name}"' if name.replace("_", "").replace("-", "").isalnum() else ""
    failed = ' failed="true"' if message.failed else ""
    return f"<tool_response{label}{failed}>\n{message.content}\n</tool_response>"
