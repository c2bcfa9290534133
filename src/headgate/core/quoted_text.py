"""What a text only quotes: fenced blocks, and what test runners and Python's tracebacks print.

A person who pastes a log does not mean what it says: no heading and no `@path` in it counts. What is quoted
without a fence is recognised only where a program prints a first and a last line of its own. Between two
lines that could be anybody's, a person may have written something that binds the task.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headgate.core.text import plain

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_PRINTED = (
    (  # pytest
        re.compile(r"={3,} (?:test session starts|FAILURES|ERRORS|short test summary info) ={3,}\s*"),
        re.compile(r"=*\s*\d+ (?:failed|passed|error|skipped|warning|deselected)\w*\b.* in \d[\d.]*s\b.*"),
    ),
    (  # unittest
        re.compile(r"={70}\s*|(?:FAIL|ERROR): \w+ \(\S+\)\s*"),
        re.compile(r"(?:OK|FAILED)(?: \([\w=, ]+\))?\s*"),
    ),
    (  # go test
        re.compile(r"=== RUN\s.*|\s*--- (?:FAIL|PASS|SKIP): .*"),
        re.compile(r"(?:FAIL|ok|PASS)(?:\s+\S+\s+(?:\d[\d.]*s|\(cached\)).*|\s*)"),
    ),
    (re.compile(r"running \d+ tests?\s*"), re.compile(r"test result: .*")),  # cargo
    (re.compile(r"\s*(?:PASS|FAIL) \S+\.[cm]?[jt]sx?\b.*"), re.compile(r"Time:\s+\d.*")),  # jest
    (  # a traceback
        re.compile(r"Traceback \(most recent call last\):\s*"),
        re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Failure|Interrupt|Warning)\b(?::.*|\s*)"),
    ),
)
"""The first and the last line of what a program prints."""


class Quotation(NamedTuple):
    """Lines that a text quotes, from 0, without the end."""

    first: int
    end: int
    is_fenced: bool


def find_quotations(lines: Sequence[str], *, open_fences: bool = False) -> Iterator[Quotation]:
    """What is quoted, from the top. With `open_fences`, a fence that is never closed goes to the end."""
    shown = [plain(line) if "\x1b" in line else line for line in lines]
    last_lines = [[at for at, line in enumerate(shown) if last.fullmatch(line)] for _, last in _PRINTED]
    index = 0
    while index < len(shown):
        fenced = _fence_end(shown, index, open_fences)
        end = fenced or _printed_end(shown, index, last_lines)
        if end:
            yield Quotation(index, end, bool(fenced))
        index = end or index + 1


def _fence_end(lines: Sequence[str], index: int, open_fences: bool) -> int:
    """The line after a fence that opens here; 0 if none does."""
    opening = _FENCE.match(lines[index])
    if opening is None:
        return 0
    for place in range(index + 1, len(lines)):
        closing = _FENCE.match(lines[place])
        if closing and closing[1].startswith(opening[1]):
            return place + 1
    return len(lines) if open_fences else 0


def _printed_end(lines: Sequence[str], index: int, last_lines: Sequence[Sequence[int]]) -> int:
    """The line after what a program printed from here on; 0 if none did."""
    for (first, _), ends in zip(_PRINTED, last_lines, strict=True):
        if first.fullmatch(lines[index]):
            place = bisect_left(ends, index + 1)
            if place < len(ends):
                return ends[place] + 1
    return 0
