"""What programs print: whether a text is such output and not a request, and its parts that matter."""

import re
from typing import Literal

from headgate.core import Constraints, parse_task_text, plain
from headgate.reading.command_lines import word_set
from headgate.reading.test_output import find_failures

OutputKind = Literal["request", "failing", "passing"]
_TRACES = re.compile(
    r"^\s*Traceback \(most recent call last\):"
    r"|^\s*(?:Caused by|Exception in thread)\b.*"
    r"|^thread '.*' .*panicked at|^panic: |^goroutine \d+ \["
    r"|^\s+at .+[:(][\w./$<>-]+:\d+(?::\d+)?\)?$"
    r"|^\s+-->\s+\S+:\d+:\d+"
    r"|^(?:[A-Za-z_][\w.]*(?:Error|Exception|Failure)): ",
    re.MULTILINE,
)
_COMPILERS = re.compile(
    r"^[^\s:(][^:(\n]{0,200}(?::\d+){1,2}:\s*(?:fatal )?(?:error|E\d+|F\d+|undefined|cannot|expected)\b"
    r"|^[^\s:(][^:(\n]{0,200}\(\d+,\d+\): error\b"
    r"|^\s*error(?:\[\w+\])?: "
    r"|^(?:make|ninja|gmake)(?:\[\d+\])?: \*\*\*|^npm (?:ERR!|error)|^FAIL(?:ED)?\b|^E {2,}\S",
    re.MULTILINE,
)
_PASSED = re.compile(
    r"^[=\s]*\d+ passed\b.* in \d[\d.]*s\b|^Ran \d+ tests? in [\d.]+s\n\s*\nOK\b|^test result: ok\."
    r"|^ok  \t|^Tests: +\d+ passed",
    re.MULTILINE,
)
_ASKING = word_set(
    """
    add after analyse analyze answer can change check clean convert correct could create debug delete describe
    do does document explain extend find fix get goal handle help how i implement improve in investigate it
    let look make move my our please port refactor remove rename repair replace rewrite simplify since solve
    support task tell the there these this update use we what when where which why write you
    """
)
"""Words that a request begins with, and what programs print does not."""
_FIRST_WORD = re.compile(r"[#>*\s-]*([A-Za-z]+)(?:[\s,.?!']|:\s|$)")
_SENTENCE = re.compile(r"[A-Z][a-z']*(?:,? [\w'`()/-]+){3,}[.!?]")
"""A first line that is a whole sentence of plain words was written by a person."""
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)
_LOOKED_AT = 400_000
"""Characters of a long text, its end, in which marks of a program are looked for."""


def output_kind(text: str) -> OutputKind:
    """Whether a text is a person's request, or what tests, a compiler or a crashed program printed.

    A request may quote such output; it begins with words that ask for something, or fences the quotation.
    """
    said = plain(text)
    if parse_task_text(said).constraints != Constraints():
        return "request"  # programs print no boundaries
    first = next((line for line in said.splitlines() if line.strip()), "")
    word = _FIRST_WORD.match(first)
    asks = word is not None and word[1].lower() in _ASKING and not first.startswith(("make:", "In file "))
    if asks or _SENTENCE.fullmatch(first.strip()):
        return "request"
    end = _FENCED.sub("", said[-_LOOKED_AT:])
    if _TRACES.search(end) or _COMPILERS.search(end) or find_failures(end):
        return "failing"
    return "passing" if _PASSED.search(end) else "request"


_HEAD, _TAIL = 0.15, 0.4
"""Of the room; the rest is for what failed in between."""
_MATTERS = re.compile(
    r"\b(?:error|errors|failed|failure|failures|fatal|panicked|exception|traceback|assert\w*|undefined)\b"
    r"|\w(?:Error|Exception)\b|^E {2,}|^FAIL|^not ok\b|^_{5,} .+ _{5,}$",
    re.IGNORECASE,
)
_BEFORE, _AFTER = 2, 6
"""Lines shown around a line that matters."""
_MARK = 40
_LONGEST_LINE = 1_000


def condense_output(text: str, limit: int) -> str:
    """The output in at most `limit` characters: its beginning, its end, and what failed in between.

    What is left out is said where it was.
    """
    if len(text) <= limit:
        return text
    lines = [_clip(line) for line in text.split("\n")]
    head = _count_fitting(lines, int(limit * _HEAD))
    tail = _count_fitting(lines[head:][::-1], int(limit * _TAIL))
    end = len(lines) - tail
    kept = [*range(head), *range(end, len(lines))]
    room = limit - sum(len(lines[index]) + 1 for index in kept) - 2 * _MARK
    kept[head:head] = _choose(lines, head, end, room)
    return _join(lines, kept)[:limit]


def _choose(lines: list[str], start: int, end: int, room: int) -> list[int]:
    """Lines that matter, with those around them, as many as fit."""
    chosen: list[int] = []
    shown = start
    for index in range(start, end):
        if index < shown or not _MATTERS.search(lines[index]):
            continue
        block = range(max(index - _BEFORE, shown), min(index + _AFTER + 1, end))
        size = sum(len(lines[number]) + 1 for number in block) + _MARK
        if size > room:
            break
        room -= size
        chosen += block
        shown = block.stop
    return chosen


def _join(lines: list[str], kept: list[int]) -> str:
    parts: list[str] = []
    expected = 0
    for index in kept:
        if index > expected:
            parts.append(f"[... {index - expected:,} lines cut ...]")
        parts.append(lines[index])
        expected = index + 1
    if expected < len(lines):
        parts.append(f"[... {len(lines) - expected:,} lines cut ...]")
    return "\n".join(parts)


def _count_fitting(lines: list[str], room: int) -> int:
    """How many lines fit from the first on."""
    for count, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return count
    return len(lines)


def _clip(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    return f"{line[: _LONGEST_LINE - 40]} [... {len(line) - _LONGEST_LINE + 40:,} characters cut]"
