"""JSON to and from the wire, values in what a server sent, ids for calls, and conversations that grow."""

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import orjson

from headgate.core import Message, clean_text, image_surplus
from headgate.first_use import dataclass

UNPARSED = "_unparsed"
"""The key under which arguments that are not a JSON object are handed back to a server."""


def encode_json(value: object) -> bytes:
    """Compact JSON. Lone surrogates become U+FFFD and integers may have any size."""
    try:
        # Copied, since what orjson returns keeps its whole buffer: 16 KB for a message of 1.3 KB.
        return bytes(memoryview(orjson.dumps(value, default=_plain)))
    except orjson.JSONEncodeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
        return clean_text(text).encode()


def decode_json(data: str | bytes) -> Any:
    """The value of a JSON text; ValueError where it is none. Lone surrogate escapes and NaN may pass."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def repair_text(text: str) -> str:
    """Text that can be encoded: halves of a character that arrived separately are joined, strays replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def arguments_as_object(text: str) -> dict[str, Any]:
    """The arguments of a past call as an object: servers parse them again and fail on anything else."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, dict) else {UNPARSED: clean_text(text)}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


# Values in what a server sent, which may hold anything.


def text_in(source: Any, key: str) -> str:
    """The text under a key; empty where there is none."""
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, str) else ""


def mapping_in(source: Any, key: str) -> Mapping[str, Any]:
    """The mapping under a key; empty where there is none."""
    value = source.get(key) if isinstance(source, dict) else None
    return value if isinstance(value, dict) else {}


def mappings_in(source: Any, key: str) -> list[Mapping[str, Any]]:
    """The mappings in the list under a key."""
    value = source.get(key) if isinstance(source, dict) else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


# Ids for tool calls: unique in a transcript whatever a server sends.


class CallIds:
    """Gives each call of a reply an id that is unique in the transcript, the server's own if possible."""

    def __init__(self, *used: Container[str]) -> None:
        self._taken: set[str] = set()
        self._used = (*used, self._taken)
        self._number = 0

    def take(self, proposed: str) -> str:
        """The proposed id, or the next free `call_N`."""
        name = proposed
        while not name or any(name in used for used in self._used):
            self._number += 1
            name = f"call_{self._number}"
        self._taken.add(name)
        return name


def call_ids(messages: Iterable[Message]) -> set[str]:
    """The ids of the calls in a conversation."""
    return {call.id for message in messages for call in message.calls}


@dataclass
class SentTalk:
    """The conversation that the latest request held, encoded: a request that continues it adds what is new.

    So a turn costs its own messages, however long the conversation is.
    """

    encode: Callable[[Message, str], bytes]
    """A message as the wire format has it; the text is the name of the tool whose result it is."""
    wire: str
    """The wire format's key in `Message.wire`."""
    joined: bytes = b""
    """The messages, with commas between them."""
    tools: dict[str, str] = field(default_factory=dict)
    """The name of the tool that each call is for, by the call's id."""
    surplus: int = 0
    """See `image_surplus`."""
    _messages: list[Message] = field(default_factory=list)

    def take(self, messages: Sequence[Message]) -> bytes:
        """The messages of a request, encoded and joined."""
        messages = list(messages)
        count = len(self._messages)
        if not count or messages[:count] != self._messages:
            count, self.joined, self.tools, self.surplus = 0, b"", {}, 0
        new = messages[count:]
        parts = [self.joined] if count else []
        for message in new:
            self.tools.update((call.id, call.name) for call in message.calls)
            data = message.wire.get(self.wire)
            if data is None:
                data = message.wire[self.wire] = self.encode(message, self.tools.get(message.call_id, ""))
            parts.append(data)
        self.joined, self._messages = b",".join(parts), messages
        self.surplus += image_surplus(new)
        return self.joined
