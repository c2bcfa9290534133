"""What a text only quotes: fenced blocks, and what test runners and Python's tracebacks print.

A person who pastes a log does not mean what it says: no heading and no `@path` in it counts. What is quoted
without a fence is recognised only where a program prints a first and a last line of its own. Between two
lines that could be anybody's, or after output that was cut off, a person may have written something that
binds the task.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headgate.core.text import plain
from headgate.first_use import regex

_FENCE = regex(r"[ \t]*(`{3,}|~{3,})")


class _Printed(NamedTuple):
    """What a program prints: its first line, its last line, and the lines that may be between them."""

    first: re.Pattern[str]
    last: re.Pattern[str]
    """One that nobody else writes: a bare `OK` or `FAIL` may be a person's."""
    between: re.Pattern[str] = regex(r".*")
    """Where another line comes, the output was cut off."""


_PRINTED = (
    _Printed(  # pytest
        regex(r"={3,} (?:test session starts|FAILURES|ERRORS|short test summary info) ={3,}\s*"),
        regex(r"=*\s*\d+ (?:failed|passed|error|skipped|warning|deselected)\w*\b.* in \d[\d.]*s\b.*"),
        regex(r"(?!={3,} test session starts ).*"),
    ),
    _Printed(  # unittest
        regex(r"={70}\s*|(?:FAIL|ERROR): \w+ \(\S+\)\s*"),
        regex(r"Ran \d+ tests? in \d[\d.]*s\s*"),
    ),
    _Printed(  # go test
        regex(r"=== RUN\s.*|\s*--- (?:FAIL|PASS|SKIP): .*"),
        regex(r"(?:FAIL|ok)\s+\S+\s+(?:\d[\d.]*s|\(cached\)).*"),
    ),
    _Printed(  # cargo
        regex(r"running \d+ tests?\s*"), regex(r"test result: (?:ok|FAILED)\. .*")
    ),
    _Printed(  # jest
        regex(r"\s*(?:PASS|FAIL) \S+\.[cm]?[jt]sx?\b.*"), regex(r"Time:\s+\d[\d.]* ?m?s\b.*")
    ),
    _Printed(  # a traceback
        regex(r"Traceback \(most recent call last\):\s*"),
        regex(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Failure|Interrupt|Warning)\b(?::.*|\s*)"),
        regex(r"\s.*"),
    ),
)


class Quotation(NamedTuple):
    """Lines that a text quotes, from 0, without the end."""

    first: int
    end: int
    is_fenced: bool


def find_quotations(lines: Sequence[str], *, open_fences: bool = False) -> Iterator[Quotation]:
    """What is quoted, from the top. With `open_fences`, a fence that is never closed goes to the end."""
    shown = [plain(line) if "\x1b" in line else line for line in lines]
    known = [_places(printed, shown) for printed in _PRINTED]
    index = 0
    while index < len(shown):
        fenced = _fence_end(shown, index, open_fences)
        end = fenced or _printed_end(shown[index], index, known)
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


class _Places(NamedTuple):
    """Where lines of a program are that end its output."""

    printed: _Printed
    last: Sequence[int]
    foreign: Sequence[int]
    """Lines that are not between its first and its last one."""


def _places(printed: _Printed, lines: Sequence[str]) -> _Places:
    numbered = list(enumerate(lines))
    last = [at for at, line in numbered if printed.last.fullmatch(line)]
    return _Places(printed, last, [at for at, line in numbered if not printed.between.fullmatch(line)])


def _printed_end(line: str, index: int, known: Iterable[_Places]) -> int:
    """The line after what a program printed from here on; 0 if none did."""
    for printed, last, foreign in known:
        if printed.first.fullmatch(line):
            end, cut = (_next_after(index, places) for places in (last, foreign))
            if end is not None and (cut is None or cut >= end):
                return end + 1
    return 0


def _next_after(index: int, places: Sequence[int]) -> int | None:
    place = bisect_right(places, index)
    return places[place] if place < len(places) else None
