"""What is left of a stage's messages when they are replaced by one. Pure: a record in, a text out."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from headgate.core import (
    Compaction,
    Ending,
    Message,
    Note,
    ToolCall,
    share_out,
)
from headgate.first_use import dataclass

ERROR_CHARS = 400
"""Of each failed call, what it answered. The beginning and the end are kept."""
ERRORS_CHARS = 8_000
"""Of all failed calls together. Each is shortened alike, and none is left out."""
TARGET_CHARS = 80
SAID_CHARS = 600
"""Of each thought and each text of the model."""
TOLD_CHARS = 300
"""Of each message to the model."""
RESULT_CHARS = 160
"""Of each call's arguments, and of each result."""
CHAIN_CHARS = 40_000
"""Of all these lines together."""
_LEFT_OUT = " [...] "
_LEAST_BOTH = 60


@dataclass(frozen=True, slots=True)
class StageRecord:
    """What is known about a stage that has ended."""

    title: str
    ending: Ending
    note: Note = field(default_factory=Note)
    """What it left to later stages."""
    files_changed: tuple[str, ...] = ()
    """The runtime's own findings."""
    messages: Sequence[Message] = ()
    """What was said in it."""


def summarise_stage(record: StageRecord, compaction: Compaction) -> str:
    """The text that takes the place of the stage's messages."""
    parts = [first_line(record)]
    if compaction.strategy != "aggressive":
        parts += _preserved(record, compaction)
    if compaction.strategy == "comprehensive" and (chain := _chain(record.messages)):
        parts.append(f"What happened:\n{chain}")
    return "\n".join(parts)


def first_line(record: StageRecord) -> str:
    """How the stage ended. One that was left without its closing signal did not succeed."""
    return f"Task {record.title} completed: {'success' if record.ending == 'completed' else 'failure'}"


def _preserved(record: StageRecord, compaction: Compaction) -> Iterator[str]:
    """The parts of the record that are to be kept, as lines."""
    note = record.note
    if "outputs" in compaction.preserve:
        refused = "" if note.accepted else " (the runtime did not accept this)"
        yield from [f"Summary{refused}: {note.summary}"] if note.summary else []
        yield from files_lines(record)
        yield from [f"Data: {_as_json(note.metadata)}"] if note.metadata else []
    if "decisions" in compaction.preserve:
        yield from _listed("Decisions", note.decisions)
        yield from _listed("Next", note.next_actions)
    if "errors" in compaction.preserve:
        yield from _listed("Errors", failed_calls(record.messages))
        yield from _listed("Risks", note.risks)


def files_lines(record: StageRecord) -> Iterator[str]:
    """The files that the stage changed, and apart from them what only the model says it changed."""
    if record.files_changed:
        yield f"Files changed: {', '.join(record.files_changed)}"
    claimed = [name for name in record.note.files_changed if name not in record.files_changed]
    if claimed:
        yield f"Files changed, as the stage said: {', '.join(claimed)}"


def failed_calls(messages: Sequence[Message]) -> list[str]:
    """Each call that failed, once, with the beginning and the end of what it answered."""
    calls = {call.id: call for message in messages for call in message.calls}
    failed: dict[str, None] = {}
    for message in messages:
        if message.role == "tool" and message.failed:
            call = calls.get(message.call_id)
            name = f"{call.name} {_target(call)}".strip() if call else "a call"
            failed[f"{name}: {_one_line(message.content, ERROR_CHARS)}"] = None
    limit = share_out([len(error) for error in failed], ERRORS_CHARS)
    return [_one_line(error, limit) for error in failed]


def _chain(messages: Sequence[Message]) -> str:
    """Every thought, word, call and result, a short line each."""
    lines = [line for message in messages for line in _short_lines(message)]
    limit = share_out([len(line) + 1 for line in lines], CHAIN_CHARS) - 1
    return "\n".join(_clip(line, limit) for line in lines)


def _short_lines(message: Message) -> Iterator[str]:
    if message.role == "tool":
        mark = "failed" if message.failed else "result"
        yield f"  {mark}: {_one_line(message.content, RESULT_CHARS)}"
    elif message.role == "assistant":
        said = (("thought", message.reasoning), ("said", message.content))
        yield from (f"{mark}: {_one_line(text, SAID_CHARS)}" for mark, text in said if text.strip())
        for call in message.calls:
            limit = SAID_CHARS if call.name == "think" else RESULT_CHARS
            yield f"called {call.name} {_one_line(call.arguments, limit)}"
    elif message.content.strip():
        yield f"told: {_one_line(message.content, TOLD_CHARS)}"


# For a model that writes the summary: what it is sent, and what it answered.


def chunk_texts(texts: Iterable[str], room: int) -> list[str]:
    """The texts in order, packed into as few pieces as that allows. No piece is longer than the room."""
    chunks: list[str] = []
    for text in texts:
        for start in range(0, len(text), room):
            piece = text[start : start + room]
            if chunks and len(chunks[-1]) + 1 + len(piece) <= room:
                chunks[-1] = f"{chunks[-1]}\n{piece}"
            else:
                chunks.append(piece)
    return chunks


def read_answer_object(text: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The JSON object in a reply, if it has what the schema requires; otherwise None."""
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or any(name not in answer for name in schema.get("required", ())):
        return None
    kinds = schema.get("properties", {})
    known = {name: value for name, value in answer.items() if name in kinds}
    fits = all(_fits(value, kinds[name]) for name, value in known.items())
    return known if known and fits else None


_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "array": list,
    "object": dict,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def _fits(value: Any, schema: Any) -> bool:
    """Whether a value is of the type that its schema names; what is in objects is not looked at."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return True
    items = schema.get("items")
    inner = all(_fits(item, items) for item in value) if isinstance(value, list) else True
    return isinstance(value, _KINDS[kind]) and inner


def render_answer(answer: Mapping[str, Any]) -> str:
    """The fields of such an object as lines; empty ones are left out."""
    lines: list[str] = []
    for name, value in answer.items():
        title = name.replace("_", " ").capitalize()
        if isinstance(value, list):
            lines += _listed(title, [item if isinstance(item, str) else _as_json(item) for item in value])
        elif value not in ("", None, {}):
            lines.append(f"{title}: {value if isinstance(value, str) else _as_json(value)}")
    return "\n".join(lines)


def preserved_fields(answer: Mapping[str, Any], compaction: Compaction) -> dict[str, Any]:
    """The fields of an answer without those that are not to be kept."""
    left_out = {"key_outputs": "outputs", "decisions": "decisions", "errors": "errors"}
    return {
        name: value
        for name, value in answer.items()
        if name not in left_out or left_out[name] in compaction.preserve
    }


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"- {item}" for item in items)] if items else []


def _target(call: ToolCall) -> str:
    """What a call was about: its first argument that is a text."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return ""  # the model wrote no JSON: the name says enough
    texts = arguments.values() if isinstance(arguments, dict) else ()
    found = next((value for value in texts if isinstance(value, str)), "")
    return _one_line(found, TARGET_CHARS)


def _one_line(text: str, limit: int) -> str:
    return _clip(" ".join(text.split()), limit)


def _clip(text: str, limit: int) -> str:
    """The beginning and the end of a line, or only the beginning if there is little room."""
    if len(text) <= limit or limit < _LEAST_BOTH:
        return text[:limit]
    room = limit - len(_LEFT_OUT)
    return f"{text[: room - room // 2]}{_LEFT_OUT}{text[len(text) - room // 2 :]}"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
