"""A conversation as plain text for a server without tools: descriptions of tools, calls and results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from headgate.core import Message, ToolSpec
from headgate.first_use import dataclass
from headgate.models.encoding import encode_json
from headgate.models.textcalls.offered_tools import read_properties

# Tools in words, for a system message: a line each, because a local model reads all of it.


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
        case "array" if isinstance(places := schema.get("prefixItems"), list | tuple):
            return f"[{', '.join(_type(place, depth + 1) for place in places)}]"
        case "array":
            return f"[{_type(schema.get('items'), depth + 1)}]"
        case "object" if isinstance(values := schema.get("additionalProperties"), Mapping):
            named = _arguments(schema, depth)
            return f"{{{named}{', ' if named else ''}...: {_type(values, depth + 1)}}}"
        case "object" if read_properties(schema):
            return f"{{{_arguments(schema, depth)}}}"
        case str() as name:
            return name
        case [*names]:
            return "|".join(str(name) for name in names)
    return "any"


# Which tools a conversation's system message describes, and what its messages say when others are offered.


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
class ConversationTools:
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
        place = _message_to_extend(talk)
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


class KnownConversations:
    """The conversations of one model, each known by its first message."""

    def __init__(self) -> None:
        self._offers: dict[int, ConversationTools] = {}
        self._read: dict[ToolSpec, str] = {}

    def find(self, talk: Sequence[Message], tools: tuple[ToolSpec, ...]) -> ConversationTools | None:
        """What the conversation was told, and is told from now on; None where there never was a tool."""
        if not talk:
            return None
        first, offered = talk[0], self._describe(tools)
        known = self._offers.pop(id(first), None)
        if known is None or known.first is not first or not known.tell(talk, offered):
            if not tools:
                return None
            known = ConversationTools(first, tools, offered)
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


def _message_to_extend(talk: Sequence[Message]) -> Message:
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


# A conversation with tools, told to a server that is offered none: calls and results become text.


Tell = Callable[[tuple[ToolSpec, ...]], str]
"""What the system message says about the tools."""
Write = Callable[[Message], str]
"""A reply with calls as the model would have written it."""
_MOST_SYSTEMS = 16


@dataclass(slots=True)
class _MessageGroup:
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
    _groups: list[_MessageGroup] = field(default_factory=list, init=False)
    _systems: dict[tuple[str, tuple[ToolSpec, ...]], Message] = field(default_factory=dict, init=False)
    _offers: KnownConversations = field(default_factory=KnownConversations, init=False)

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
                self._groups.append(_MessageGroup(sources, lines, self._join(sources, lines, names)))
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
        images = tuple(image for message in sources for image in message.images)
        return Message("user", "\n\n".join(part for pair in told for part in pair if part), images=images)


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
