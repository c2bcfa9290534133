"""What a stage leaves to the next ones.

A note is the model's own text, and a model may write any amount. It is bounded in the log, and bounded again
in what later stages are told. Whatever is cut is marked with what it was.
"""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from headgate.core.settings import Data
from headgate.core.text import cut_text, share_out


class Note(Data):
    """What a stage leaves to the next ones."""

    summary: str = ""
    decisions: tuple[str, ...] = ()
    next_actions: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    files_read: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    output: Any = None
    """The typed result of the stage, as JSON holds it, where the stage has one."""
    accepted: bool = True
    """False for what the model said in a final turn although a check fails."""


SUMMARY_CHARS = 6_000
LIST_CHARS = 2_500
"""Of the decisions, of the next actions, and of the risks, together."""
ITEM_CHARS = 1_000
FILES_CHARS = 1_500
METADATA_CHARS = 3_500
LOGGED_CHARS = SUMMARY_CHARS + 3 * LIST_CHARS + 2 * FILES_CHARS + METADATA_CHARS
"""What a note has in the log at most: 20,000 characters."""


def bound_note(note: Note) -> Note:
    """The note as the log keeps it."""
    metadata = len(json.dumps(note.metadata, ensure_ascii=False, default=str))
    return note.model_copy(
        update={
            "summary": cut_text(note.summary, SUMMARY_CHARS, "the summary"),
            "decisions": _bound_list(note.decisions, LIST_CHARS, "decisions"),
            "next_actions": _bound_list(note.next_actions, LIST_CHARS, "next actions"),
            "risks": _bound_list(note.risks, LIST_CHARS, "risks"),
            "files_read": _bound_list(note.files_read, FILES_CHARS, "files"),
            "files_changed": _bound_list(note.files_changed, FILES_CHARS, "files"),
            "metadata": note.metadata
            if metadata <= METADATA_CHARS
            else {"cut": f"{metadata} characters of metadata"},
        }
    )


def render_notes(notes: Sequence[tuple[str, Note]], room: int) -> str:
    """What earlier stages left, in at most so many characters: short notes whole, long ones alike."""
    texts = [(stage, *_parts(stage, note)) for stage, note in notes]
    texts = [(stage, summary, rest) for stage, summary, rest in texts if summary or rest]
    sizes = [len(summary) + len(rest) + bool(summary and rest) + 1 for _, summary, rest in texts]
    limit = share_out(sizes, room + 1) - 1
    return "\n".join(_fit(stage, summary, rest, limit) for stage, summary, rest in texts if limit > 0)


def list_names(names: Sequence[str], most: int, room: int) -> str:
    """The latest names, as many as `most` and the room allow, and how many others there are."""
    shown: list[str] = []
    for name in reversed(names[-most:]):
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    left = len(names) - len(shown)
    return ", ".join([*([f"{left} more"] if left else []), *reversed(shown)])


def _bound_list(items: Sequence[str], room: int, what: str) -> tuple[str, ...]:
    if sum(len(item) + 1 for item in items) <= room and all(len(item) <= ITEM_CHARS for item in items):
        return tuple(items)
    kept: list[str] = []
    room -= 60  # for the mark at the end
    for item in items:
        item = cut_text(item, min(ITEM_CHARS, max(room, 0)), what)
        room -= len(item) + 1
        if room < 0:
            return (*kept, f"[... {len(items) - len(kept)} more {what} cut here ...]")
        kept.append(item)
    return tuple(kept)


def _parts(stage: str, note: Note) -> tuple[str, str]:
    said = stage if note.accepted else f"{stage} (the runtime did not accept this)"
    summary = f"- {said}: {note.summary}" if note.summary else ""
    output = () if note.output is None else (json.dumps(note.output, ensure_ascii=False, default=str),)
    lists = (
        ("output", output),
        ("decided", note.decisions),
        ("next", note.next_actions),
        ("risk", note.risks),
    )
    rest = "\n".join(f"  {title}: {item}" for title, items in lists for item in items)
    return summary or (f"- {said}:" if rest else ""), rest


def _fit(stage: str, summary: str, rest: str, limit: int) -> str:
    """A note in so many characters. Its lists give way first, but never to less than a half of it."""
    half = max(limit // 2, limit - len(summary) - 1)
    rest = cut_text(rest, half, f"the lists of {stage}") if summary else cut_text(rest, limit, stage)
    summary = cut_text(summary, limit - len(rest) - bool(rest), f"the note of {stage}")
    return "\n".join(part for part in (summary, rest) if part)
