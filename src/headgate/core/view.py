"""What the model sees of a transcript. Pure: the same transcript and policy give the same messages.

Views are built at compaction points only (a stage is entered, the view has outgrown its budget, the context
is nearly full); in between, new messages are appended, so that the server's prefix cache keeps what it read.

Promised, whatever is cut:
- Every call has its result and every result its call.
- System messages stay, and so does the first user message unless a tail was asked for without it. They are
  the task itself and are never shortened.
- The budgets hold. One too small for the messages that stay and the least form of the latest exchange
  (LEAST_MESSAGES, LEAST_CHARS) is taken to be just large enough for them.
- A view of a view, under the same policy and budget, is that view.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from headgate.core.knobs import ViewPolicy
from headgate.core.messages import Message, Reply, Request, ToolCall, ToolSpec, Usage
from headgate.core.text import cut_text, share_out

INTERRUPTED = "The call was interrupted and returned no result. It may or may not have taken effect."
LEAST_MESSAGES = 2
"""The messages that the latest exchange keeps at least: a call and its result."""
LEAST_CHARS = 400
"""The characters that the latest exchange keeps at least."""
_LEAST_RESULT = 200
"""Results are shortened to no less than this while there are older ones that can go instead."""
_LEAST_VALUE = 50
"""The same for the values in a call's arguments."""
_LONGEST_NAME = 64
"""Providers accept no longer tool name, so nothing is lost."""
_MESSAGE_COST = 8
_TOOL_COST = 70
"""The JSON around a tool's name, description and parameters."""

Block = tuple[Message, ...]


class _Part(NamedTuple):
    messages: Block
    pinned: bool


def build_view(
    transcript: Sequence[Message], policy: ViewPolicy, max_chars: int | None = None
) -> list[Message]:
    """The messages to send: with `tail` at most `max_messages` of the policy, and at most `max_chars`.

    Characters are counted as `size_of` does.
    """
    parts = _pin(list(split_blocks(transcript)), policy)
    if policy.history == "tail":
        room = policy.max_messages - sum(len(part.messages) for part in parts if part.pinned)
        parts = _keep_newest(parts, max(room, LEAST_MESSAGES), len, _drop_old_calls)
    parts = _slim(parts, policy)
    if max_chars is not None:
        room = max_chars - sum(size_of(part.messages) for part in parts if part.pinned)
        parts = _keep_newest(parts, max(room, LEAST_CHARS), size_of, _squeeze)
    return [message for part in parts for message in part.messages]


def split_blocks(transcript: Iterable[Message]) -> Iterator[Block]:
    """Runs of messages that belong together: a reply with the results of its calls, or one other message.

    A call without a result gets one that says so. Dropped are a result that does not follow its call, a
    second one, and a second call of the same id in one reply.
    """
    block: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    for message in transcript:
        if message.role == "tool":
            if waiting.pop(message.call_id, None):
                block.append(message)
            continue
        if block:
            yield _closed(block, waiting)
        waiting = {}
        for call in message.calls:
            waiting.setdefault(call.id, call)
        if len(waiting) < len(message.calls):
            message = replace(message, calls=tuple(waiting.values()), wire={})
        block = [message]
    if block:
        yield _closed(block, waiting)


CHARS_PER_TOKEN = 4
"""About how many characters a token has, for counts that no server has made."""
CHARS_PER_CODE_TOKEN = 3.5
"""The same for what has to fit into a context window: a cautious guess, since most of it is code."""


_IMAGE_COST = 6_000
"""In characters: most models see an image as one or two thousand tokens, however many bytes it has."""


def size_of(messages: Iterable[Message]) -> int:
    """The characters that these messages put into a prompt, roughly."""
    return sum(
        len(message.content)
        + len(message.reasoning)
        + sum(len(call.name) + len(call.arguments) for call in message.calls)
        + len(message.images) * _IMAGE_COST
        + _MESSAGE_COST
        for message in messages
    )


def image_surplus(messages: Iterable[Message]) -> int:
    """By how much a request with these messages is larger than what it costs: images cost less."""
    shown = [image for message in messages if message.images for image in message.images]
    return sum(len(image.data) - _IMAGE_COST for image in shown)


def image_chars(messages: Iterable[Message]) -> int:
    """The characters of all images, which are no text: nobody reads them as tokens."""
    return sum(len(image.data) for message in messages if message.images for image in message.images)


def request_size(request: Request) -> int:
    """The characters that a request puts into a prompt, roughly: its messages, and its tools as JSON."""
    chars = request.chars or size_of(request.messages)
    return chars + sum(_tool_size(tool) for tool in request.shown)


@lru_cache(maxsize=512)
def _tool_size(tool: ToolSpec) -> int:
    parameters = json.dumps(tool.parameters, default=dict)
    return len(tool.name) + len(tool.description) + len(parameters) + _TOOL_COST


def estimate_missing(reply: Reply, request: Request) -> Reply:
    """The reply with estimates, aside, in place of counts that its server did not make.

    Without them a limit on tokens would never be reached.
    """
    told, added = reply.usage, reply.aside
    if told.prompt <= 0 and not added.prompt:
        added += Usage(prompt=(reply.sent or request_size(request)) // CHARS_PER_TOKEN)
    if told.completion <= 0 and not added.completion:
        added += Usage(completion=size_of([reply.message]) // CHARS_PER_TOKEN)
    prompt, completion = max(told.prompt, 0), max(told.completion, 0)
    told = Usage(prompt, completion, min(max(told.cached, 0), prompt))
    if told == reply.usage and added == reply.aside:
        return reply
    estimated = reply.estimated or added != reply.aside
    return replace(reply, usage=told, aside=added, estimated=estimated)


def _closed(block: list[Message], waiting: Iterable[str]) -> Block:
    missing = (Message("tool", INTERRUPTED, call_id=call, failed=True) for call in waiting)
    return (*block, *missing)


def _pin(blocks: Sequence[Block], policy: ViewPolicy) -> list[_Part]:
    keep_first = policy.keep_first or policy.history == "full"
    users = (index for index, block in enumerate(blocks) if block[0].role == "user")
    first = next(users, -1) if keep_first else -1
    return [_Part(block, block[0].role == "system" or index == first) for index, block in enumerate(blocks)]


def _keep_newest(
    parts: Sequence[_Part],
    room: int,
    cost: Callable[[Block], int],
    shrink: Callable[[Block, int], Block],
) -> list[_Part]:
    """What is pinned, and the newest of the rest that fit the room.

    Where the latest exchange does not fit, what `shrink` leaves of it is kept.
    """
    kept: list[_Part] = []
    is_full = has_exchange = False
    for part in reversed(parts):
        if part.pinned:
            kept.append(part)
            continue
        if is_full:
            continue
        messages, price = part.messages, cost(part.messages)
        if price > room:
            is_full = True
            messages = () if has_exchange else shrink(messages, room)
        if messages:
            kept.append(_Part(messages, False))
        room -= price
        has_exchange = has_exchange or len(messages) > 1
    return kept[::-1]


def _drop_old_calls(block: Block, room: int) -> Block:
    """The reply with its latest calls and their results, in so many messages; nothing if none has room."""
    return _latest_pairs(block, room - 1) if room >= LEAST_MESSAGES else ()


def _latest_pairs(block: Block, count: int) -> Block:
    results = block[max(len(block) - count, 1) :]
    if len(results) == len(block) - 1:
        return block
    ids = {result.call_id for result in results}
    calls = tuple(call for call in block[0].calls if call.id in ids)
    return (replace(block[0], calls=calls, wire={}), *results)


def _slim(parts: Sequence[_Part], policy: ViewPolicy) -> list[_Part]:
    """Without old reasoning and with old tool results shortened.

    The reasoning of the latest exchange stays, unless a user message follows it: some models lose the thread
    of an exchange without it. A view is built where a stage begins or where a notice about a cut follows, so
    what was thought before the latest exchange belongs to an earlier one.
    """
    current = max((index for index, part in enumerate(parts) if _begins(part.messages[0])), default=-1)
    results = sum(message.role == "tool" for part in parts for message in part.messages)
    old_results = results - policy.truncate_keep_last if policy.truncate_chars else 0
    slimmed: list[_Part] = []
    for index, part in enumerate(parts):
        first, *rest = part.messages
        if policy.strip_thinking and index < current:
            first = _without_reasoning(first)
        rest = [
            _shorten(result, policy.truncate_chars) if position < old_results else result
            for position, result in enumerate(rest)
        ]
        old_results -= len(rest)
        slimmed.append(_Part((first, *rest), part.pinned))
    return slimmed


def _begins(message: Message) -> bool:
    """Whether a message begins an exchange: a person's word, or a reply with calls."""
    return message.role == "user" or bool(message.calls)


def _without_reasoning(message: Message) -> Message:
    """The provider's own blocks go too: they hold the reasoning a second time."""
    if not message.reasoning and not message.opaque:
        return message
    return replace(message, reasoning="", opaque="", wire={})


def _squeeze(block: Block, room: int) -> Block:
    """The block in so many characters; nothing if there are fewer than LEAST_CHARS.

    First results are shortened, then older calls go with their results, then reasoning; at last the reply's
    own text and arguments are shortened.
    """
    if room < LEAST_CHARS:
        return ()
    for reply in (block[0], _without_reasoning(block[0])):
        count = _pairs_that_fit((reply, *block[1:]), room)
        if count:
            reply, *results = _latest_pairs((reply, *block[1:]), count)
            rest = room - size_of((reply,)) - _MESSAGE_COST * len(results)
            limit = share_out([len(result.content) for result in results], rest)
            return (reply, *(_shorten(result, limit) for result in results))
    reply, *results = _latest_pairs((_without_reasoning(block[0]), *block[1:]), 1)
    calls = [replace(call, name=call.name[:_LONGEST_NAME]) for call in reply.calls]
    texts = [reply.content, *(call.arguments for call in calls), *(result.content for result in results)]
    rest = room - _MESSAGE_COST * (1 + len(results)) - sum(len(call.name) for call in calls)
    limit = share_out([len(text) for text in texts], rest)
    calls = [replace(call, arguments=_shorten_arguments(call.arguments, limit)) for call in calls]
    reply = replace(_shorten(reply, limit), calls=tuple(calls), wire={})
    return (reply, *(_shorten(result, limit) for result in results))


def _pairs_that_fit(block: Block, room: int) -> int:
    """How many of the latest calls fit, when their results are shortened as far as they may be."""
    calls = {call.id: call for call in block[0].calls}
    room -= size_of((replace(block[0], calls=()),))
    for count, result in enumerate(reversed(block[1:])):
        call = calls[result.call_id]
        room -= len(call.name) + len(call.arguments) + _MESSAGE_COST + min(len(result.content), _LEAST_RESULT)
        if room < 0:
            return count
    return len(block) - 1


def _shorten(message: Message, limit: int) -> Message:
    if len(message.content) <= limit:
        return message
    return replace(message, content=cut_text(message.content, limit), wire={})


def _shorten_arguments(arguments: str, limit: int) -> str:
    """JSON of at most so many characters that still says what the call was about, where it was an object."""
    if len(arguments) <= limit:
        return arguments
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        parsed = None  # What the model wrote was no JSON: the size is all that can be told.
    if isinstance(parsed, dict):
        width = limit // 2
        while width >= _LEAST_VALUE:
            values = {
                key: cut_text(value, width) if isinstance(value, str) else value
                for key, value in parsed.items()
            }
            text = json.dumps(values, ensure_ascii=False)
            if len(text) <= limit:
                return text
            width //= 2
    return json.dumps({"cut": f"{len(arguments)} characters"})
