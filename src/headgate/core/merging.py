"""Two changes to one text, made into one where they do not touch each other."""

from difflib import SequenceMatcher
from itertools import pairwise

MOST_LINES = 3_000
"""The time that finding the changes takes grows with the square of this."""
_Edit = tuple[int, int, tuple[str, ...]]


def merge(base: str, one: str, other: str) -> str | None:
    """The base with the changes of both; None where they meet in the same or neighbouring lines."""
    lines = base.split("\n")
    if max(len(lines), one.count("\n"), other.count("\n")) > MOST_LINES:
        return None
    edits = sorted({*_edits(lines, one.split("\n")), *_edits(lines, other.split("\n"))})
    for (_, end, _), (start, _, _) in pairwise(edits):
        if start <= end:
            return None
    for start, end, new in reversed(edits):
        lines[start:end] = new
    return "\n".join(lines)


def _edits(lines: list[str], changed: list[str]) -> list[_Edit]:
    """The ranges of lines that are replaced, and with what."""
    matcher = SequenceMatcher(None, lines, changed, autojunk=False)
    return [
        (start, end, tuple(changed[new_start:new_end]))
        for tag, start, end, new_start, new_end in matcher.get_opcodes()
        if tag != "equal"
    ]
