"""Replies that run on after their calls: in rows that go round, or with results that the model makes up.

Only a reply that begins with calls is looked at, and only calls that are whole and read to the letter: what
is found in its beginning then holds whatever follows, and a call that is quoted, thought about or part of an
argument is never taken for one.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headgate.core.messages import Message, Model, OnDelta, Reply, Request, ToolSpec, Usage
from headgate.models.jsontext import encode_json
from headgate.models.profile import Profile
from headgate.models.textcalls.thinking import PAIRS
from headgate.models.textcalls.toolbook import ToolBook

MOST_CALLS = 32
"""In a row of one reply."""
SAME_MOST = 4
"""How often a call may come, with others that change something in between."""
_STEP = 120
"""Characters between two looks at a reply; the gaps grow with it, which keeps the work in proportion."""
_CHARACTERS = 4
"""To a token, about."""
_CALL = re.compile(r"\s*+(?P<mark><tool_call>\s*+)?(?=\{)")
_CALL_END = re.compile(r"\s*+</tool_call>")
_RESULT = re.compile(r"\s*+<tool_response\b")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    key: str
    """The same for calls that ask for the same."""
    end: int


def find_end(text: str, tools: Sequence[ToolSpec], profile: Profile) -> int | None:
    """Where a reply should have ended; None where it runs on nowhere.

    That is behind the one call of a model that manages one, behind MOST_CALLS, before two calls in a row that
    can bring nothing new, or before a result. What a text gives, its continuation gives as well.
    """
    ends: list[int] = []
    row = _Row(tools)
    stale = 0
    most = 1 if profile.one_call else MOST_CALLS
    start = _row_start(text, profile.opens_thinking)
    for call in _calls(text, start) if start is not None else ():
        stale = 0 if row.takes(call) else stale + 1
        ends.append(call.end)
        if len(ends) > most:
            return ends[most - 1]
        if stale == 2:
            return ends[-3]
    return ends[-1] if ends and _RESULT.match(text, ends[-1]) else None


class _Row:
    """Tells calls that can bring something new from those that cannot."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._book = ToolBook(tools)
        self._seen: Counter[str] = Counter()
        self._since_change: set[str] = set()

    def takes(self, call: _Call) -> bool:
        """Whether it has not come with nothing but reading since, nor SAME_MOST times already."""
        if call.key in self._since_change or self._seen[call.key] == SAME_MOST:
            return False
        tool = self._book.find(call.name)
        if tool and tool.category != "read":
            self._since_change.clear()
        self._since_change.add(call.key)
        self._seen[call.key] += 1
        return True


def _row_start(text: str, opened: bool) -> int | None:
    """Where calls begin if a reply begins with any: behind its thinking. None where that has no end yet."""
    start = len(text) - len(text.lstrip())
    for opening, closing in PAIRS.items():
        if text.startswith(opening, start):
            return _behind(text, closing)
    # A server that splits the thinking off leaves neither mark.
    return _behind(text, "</think>") if opened and not _CALL.match(text) else 0


def _behind(text: str, mark: str) -> int | None:
    end = text.find(mark)
    return None if end < 0 else end + len(mark)


def _calls(text: str, start: int) -> Iterator[_Call]:
    """The calls of a row, with nothing but space between them."""
    while opening := _CALL.match(text, start):
        try:
            value, start = _DECODER.raw_decode(text, opening.end())
        except (ValueError, RecursionError):
            return
        if opening["mark"]:
            closing = _CALL_END.match(text, start)
            if not closing:
                return
            start = closing.end()
        name, arguments = value.get("name"), value.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return
        yield _Call(name, json.dumps([name, arguments], sort_keys=True), start)


class _RunningOn:
    """Sees the text of a reply as it comes, and says when the rest of it would not count."""

    def __init__(self, tools: Sequence[ToolSpec], profile: Profile) -> None:
        self.ended = False
        self._tools = tools
        self._profile = profile
        self._pieces: list[str] = []
        self._size = 0
        self._look_at = _STEP

    def see(self, piece: str) -> bool:
        """Takes what has just arrived; whether that is enough."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= self._look_at and not self.ended:
            self._look_at = self._size + max(_STEP, self._size // 4)
            self.ended = find_end("".join(self._pieces), self._tools, self._profile) is not None
        return self.ended


async def ask_for_calls(
    model: Model, request: Request, tools: Sequence[ToolSpec], profile: Profile, on_delta: OnDelta | None
) -> Reply:
    """The reply to a request whose answer may call these tools in its text, without what runs on."""
    if not tools:
        return await model.reply(request, on_delta)
    running_on = _RunningOn(tools, profile)
    reply = await model.reply(replace(request, enough=running_on.see), on_delta)
    if running_on.ended:
        reply = _charge(reply, request)
    message = reply.message
    end = None if message.calls else find_end(message.content, tools, profile)
    if end is None:
        return reply
    # One that was cut off at the server's limit has its calls all the same.
    return replace(reply, message=replace(message, content=message.content[:end], wire={}), finish="stop")


def _charge(reply: Reply, request: Request) -> Reply:
    """The reply with its cost: a server counts at the end, and does not come to that if it is stopped.

    What is estimated stands aside: the size of the next request is reckoned from counts alone.
    """
    told = reply.usage
    completion = told.completion or len(reply.message.content) // _CHARACTERS
    if told.prompt:
        return replace(reply, usage=replace(told, completion=completion))
    size = sum(map(_size, request.messages))
    size += sum(len(tool.description) + len(encode_json(tool.parameters)) for tool in request.tools)
    return replace(reply, aside=reply.aside + Usage(size // _CHARACTERS, completion))


def _size(message: Message) -> int:
    arguments = sum(len(call.arguments) for call in message.calls)
    return len(message.content) + len(message.reasoning) + arguments
