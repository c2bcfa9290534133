"""What the model sees of a transcript. Pure: the same transcript and policy give the same messages.

Views are built at compaction points only (a stage is entered, the context is nearly full); in between, new
messages are appended, so that the server's prefix cache keeps what it has read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from headgate.core.flow import ViewPolicy
from headgate.core.messages import Message

INTERRUPTED = "The call was interrupted and brought no result. It may or may not have taken effect."
_CUT = "\n[... {count} characters cut from this older result ...]\n"


def build_view(
    transcript: Sequence[Message], policy: ViewPolicy, max_chars: int | None = None
) -> list[Message]:
    """The messages to send.

    The head (system messages and the first user message) always stays. Every call keeps its result and every
    result its call, whatever is cut. With `max_chars` the oldest exchanges go until the rest fits.
    """
    blocks = list(split_blocks(transcript))
    head_size = _head_size(blocks, policy)
    head, body = blocks[:head_size], blocks[head_size:]
    if policy.history == "tail":
        body = _last_messages(body, max(policy.max_messages - sum(map(len, head)), 1))
    body = _slim(body, policy)
    if max_chars is not None:
        body = _fit(body, max_chars - sum(size_of(block) for block in head))
    return [message for block in (*head, *body) for message in block]


def split_blocks(transcript: Iterable[Message]) -> Iterator[tuple[Message, ...]]:
    """Runs of messages that belong together: a reply with the results of its calls, or one other message.

    A call without a result gets one that says so; a result without a call is dropped, and so is a second one.
    """
    block: list[Message] = []
    waiting: dict[str, None] = {}
    for message in transcript:
        if message.role == "tool":
            if message.call_id in waiting:
                del waiting[message.call_id]
                block.append(message)
            continue
        if block:
            yield _closed(block, waiting)
        block = [message]
        waiting = dict.fromkeys(call.id for call in message.calls)
    if block:
        yield _closed(block, waiting)


def size_of(messages: Iterable[Message]) -> int:
    """The characters that these messages put into a prompt, roughly."""
    return sum(
        len(message.content)
        + len(message.reasoning)
        + sum(len(call.name) + len(call.arguments) for call in message.calls)
        + 8
        for message in messages
    )


def _closed(block: list[Message], waiting: Iterable[str]) -> tuple[Message, ...]:
    missing = (Message("tool", INTERRUPTED, call_id=call, failed=True) for call in waiting)
    return (*block, *missing)


def _head_size(blocks: Sequence[tuple[Message, ...]], policy: ViewPolicy) -> int:
    size = 0
    while size < len(blocks) and blocks[size][0].role == "system":
        size += 1
    if policy.keep_first and size < len(blocks) and blocks[size][0].role == "user":
        size += 1
    return size


def _last_messages(blocks: Sequence[tuple[Message, ...]], count: int) -> list[tuple[Message, ...]]:
    kept: list[tuple[Message, ...]] = []
    for block in reversed(blocks):
        if kept and len(block) > count:
            break
        kept.append(block)
        count -= len(block)
    return kept[::-1]


def _slim(blocks: Sequence[tuple[Message, ...]], policy: ViewPolicy) -> list[tuple[Message, ...]]:
    """Without old reasoning and with old tool results shortened.

    Reasoning since the last user message stays: some models lose the thread of an exchange without it.
    """
    current = max((index for index, block in enumerate(blocks) if block[0].role == "user"), default=-1)
    results = sum(message.role == "tool" for block in blocks for message in block)
    old_results = results - policy.truncate_keep_last
    slimmed: list[tuple[Message, ...]] = []
    seen = 0
    for index, block in enumerate(blocks):
        out: list[Message] = []
        for message in block:
            if message.role == "tool":
                seen += 1
                if policy.truncate_chars and seen <= old_results:
                    message = _shorten(message, policy.truncate_chars)
            elif policy.strip_thinking and message.reasoning and index < current:
                message = replace(message, reasoning="", wire={})
            out.append(message)
        slimmed.append(tuple(out))
    return slimmed


def _shorten(message: Message, limit: int) -> Message:
    text = message.content
    if len(text) <= limit:
        return message
    mark = _CUT.format(count=len(text) - limit)
    room = limit - len(mark)
    if room < 2:
        return replace(message, content=text[:limit], wire={})
    return replace(message, content=text[: room - room // 2] + mark + text[len(text) - room // 2 :], wire={})


def _fit(blocks: list[tuple[Message, ...]], room: int) -> list[tuple[Message, ...]]:
    """Drops the oldest blocks, then shortens results in what is left, until the rest fits."""
    sizes = [size_of(block) for block in blocks]
    total = sum(sizes)
    first = 0
    while total > room and first < len(blocks) - 1:
        total -= sizes[first]
        first += 1
    kept = blocks[first:]
    if total <= room or not kept:
        return kept
    last = kept[-1]
    fixed = size_of(message if message.role != "tool" else replace(message, content="") for message in last)
    results = sum(message.role == "tool" for message in last)
    each = max((room - fixed) // max(results, 1), 200)
    return [tuple(_shorten(message, each) if message.role == "tool" else message for message in last)]
