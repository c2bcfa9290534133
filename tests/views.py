"""What every view must satisfy, and a long session that really happened."""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cases import case_path
from headgate.core import LEAST_MESSAGES, Message, ToolCall, ViewPolicy, build_view, size_of
from headgate.core.view import LEAST_CHARS


def pinned_of(transcript: Sequence[Message], policy: ViewPolicy) -> list[Message]:
    """The messages that no cut may touch."""
    keep_first = policy.keep_first or policy.history == "full"
    first = next((message for message in transcript if message.role == "user"), None)
    return [
        message for message in transcript if message.role == "system" or (keep_first and message is first)
    ]


def check_view(
    transcript: Sequence[Message], policy: ViewPolicy, max_chars: int | None = None
) -> list[Message]:
    """Builds the view and checks all that views promise."""
    view = build_view(transcript, policy, max_chars)
    check_pairs(view)
    check_budgets(transcript, policy, max_chars, view)
    check_newest(transcript, policy, view)
    check_reasoning(transcript, policy, view)
    again = build_view(view, policy, max_chars)
    assert again == view
    assert build_view(list(transcript), policy, max_chars) == view
    return view


def check_pairs(view: Sequence[Message]) -> None:
    """Each reply's calls are answered right after it: all of them, once, and nothing else is."""
    waiting: list[str] = []
    for message in view:
        if message.role == "tool":
            waiting.remove(message.call_id)
        else:
            assert not waiting
            waiting = [call.id for call in message.calls]
            assert len(set(waiting)) == len(waiting)
    assert not waiting


def check_budgets(
    transcript: Sequence[Message], policy: ViewPolicy, max_chars: int | None, view: Sequence[Message]
) -> None:
    pinned = pinned_of(transcript, policy)
    mine = iter(view)
    assert all(any(message is kept for message in mine) for kept in pinned), "pinned, whole and in order"
    if policy.history == "tail":
        assert len(view) <= max(policy.max_messages, len(pinned) + LEAST_MESSAGES)
    if max_chars is not None:
        assert size_of(view) <= max(max_chars, size_of(pinned) + LEAST_CHARS)
    results = [message for message in view if message.role == "tool"]
    if policy.truncate_chars:
        older = results[: max(len(results) - policy.truncate_keep_last, 0)]
        assert all(len(result.content) <= policy.truncate_chars for result in older)
    if max_chars is None:
        untouched = {id(message) for message in transcript}
        kept_last = results[len(results) - policy.truncate_keep_last :] if policy.truncate_keep_last else []
        whole = kept_last if policy.truncate_chars else results
        assert all(id(result) in untouched or "interrupted" in result.content for result in whole)


def check_newest(transcript: Sequence[Message], policy: ViewPolicy, view: Sequence[Message]) -> None:
    """Besides what is pinned, the end of the transcript is kept, and always something of its very end."""
    pinned = {id(message) for message in pinned_of(transcript, policy)}
    said, kept = (
        [message for message in messages if message.role != "tool" and id(message) not in pinned]
        for messages in (transcript, view)
    )
    assert bool(kept) == bool(said)
    for old, new in zip(said[len(said) - len(kept) :], kept, strict=True):
        assert (new.role, bool(new.calls)) == (old.role, bool(old.calls))
        assert {call.id for call in new.calls} <= {call.id for call in old.calls}


def check_reasoning(transcript: Sequence[Message], policy: ViewPolicy, view: Sequence[Message]) -> None:
    """Reasoning goes from before the last user message, and only when asked."""
    last_user = max((index for index, message in enumerate(view) if message.role == "user"), default=0)
    for message in view[:last_user]:
        assert not (policy.strip_thinking and (message.reasoning or message.opaque))
    known = {message.reasoning for message in transcript}
    assert all(message.reasoning in known or not message.reasoning for message in view)


def load_session() -> list[Message]:
    """A session of 914 messages with 391 calls, aborted and unanswered ones among them."""
    path = case_path("trajectories", "pi-large-session.json.gz")
    return read_messages(json.loads(gzip.decompress(path.read_bytes()))["messages"])


def read_messages(items: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Messages in the form of the OpenAI API."""
    return [_read_message(item) for item in items]


def _read_message(item: Mapping[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in item.get("tool_calls") or ()
    )
    return Message(
        item["role"],
        item.get("content") or "",
        calls,
        call_id=item.get("tool_call_id", ""),
        failed=bool(item.get("is_error")),
        reasoning=item.get("reasoning_content") or "",
    )
