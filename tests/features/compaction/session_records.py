"""A recorded session as records of stages that share a conversation: one for each thing a person asked."""

import json
from collections.abc import Sequence

from headgate.core import (
    Message,
    Note,
    bound_note,
)
from headgate.features.compaction.summary import StageRecord

_WRITING = ("edit", "write")
DECISION_CHARS = 200


def split_session(messages: Sequence[Message]) -> list[StageRecord]:
    """A stage begins with each message of the person.

    Its summary is what the model said last. What it announced before a call is a decision. The files of its
    calls that write and did not fail are the ones it changed.
    """
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    ends = [*starts[1:], len(messages)]
    return [
        _record(f"REQUEST {number}", messages[start:end])
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    ]


def _record(title: str, messages: Sequence[Message]) -> StageRecord:
    failed = {message.call_id for message in messages if message.role == "tool" and message.failed}
    answered = {message.call_id for message in messages if message.role == "tool"}
    said = [message for message in messages if message.role == "assistant" and message.content.strip()]
    decisions = [" ".join(message.content.split())[:DECISION_CHARS] for message in said if message.calls]
    closing = said[-1].content.strip() if said and not said[-1].calls else ""
    changed = [
        json.loads(call.arguments)["path"]
        for message in messages
        for call in message.calls
        if call.name in _WRITING and call.id in answered - failed
    ]
    note = Note(summary=closing, decisions=tuple(dict.fromkeys(decisions)))
    ending = "completed" if closing else "exhausted"
    return StageRecord(title, ending, bound_note(note), tuple(dict.fromkeys(changed)), messages)
