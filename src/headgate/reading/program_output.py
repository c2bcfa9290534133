"""What programs print: whether a text is such output and not a request, and its parts that matter."""

import itertools
import re
from typing import Literal

from headgate.core import Constraints, find_quotations, parse_task_text, plain
from headgate.first_use import regex
from headgate.reading.command_lines import word_set
from headgate.reading.test_output import find_failures

OutputKind = Literal["request", "failing", "passing"]
_TRACES = regex(
    r"^\s*Traceback \(most recent call last\):"
    r"|^\s*(?:Caused by|Exception in thread)\b.*"
    r"|^thread '.*' .*panicked at|^panic: |^goroutine \d+ \["
    r"|^\s+at .+[:(][\w./$<>-]+:\d+(?::\d+)?\)?$"
    r"|^\s+-->\s+\S+:\d+:\d+"
    r"|^(?:[A-Za-z_][\w.]*(?:Error|Exception|Failure)): ",
    re.MULTILINE,
)
_COMPILERS = regex(
    r"^[^\s:(][^:(\n]{0,200}(?::\d+){1,2}:\s*(?:fatal )?(?:error|E\d+|F\d+|undefined|cannot|expected)\b"
    r"|^[^\s:(][^:(\n]{0,200}\(\d+,\d+\): error\b"
    r"|^\s*error(?:\[\w+\])?: "
    r"|^(?:make|ninja|gmake)(?:\[\d+\])?: \*\*\*|^npm (?:ERR!|error)|^FAIL(?:ED)?\b|^E {2,}\S",
    re.MULTILINE,
)
_PASSED = regex(
    r"^[=\s]*\d+ passed\b.* in \d[\d.]*s\b|^Ran \d+ tests? in [\d.]+s\n\s*\nOK\b|^test result: ok\."
    r"|^ok  \t|^Tests: +\d+ passed",
    re.MULTILINE,
)
_LOGGED = regex(
    r"^[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )"
    r"|^\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b\]?[: \t]",
    re.MULTILINE,
)
"""The beginning of a line in a log."""
_LOGGED_FAILURE = regex(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b")
_ASKING = word_set(
    """
    add after analyse analyze answer can change check clean convert correct could create debug delete describe
    do does document explain extend find fix get goal handle help how i implement improve in investigate it
    let look make move my our please port refactor remove rename repair replace rewrite simplify since solve
    support task tell the there these this update use we what when where which why write you
    """
)
"""Words that a request begins with, and what programs print does not."""
_FIRST_WORD = regex(r"[#>*\s-]*([A-Za-z]+)(?:[\s,.?!']|:\s|$)")
_SENTENCE = regex(r"[A-Z][a-z']*(?:,? [\w'`()/-]+){3,}[.!?]")
"""A first line that is a whole sentence of plain words was written by a person."""
_FENCED = regex(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)
_CONTENT = regex(r"[^\s`~]")
_LOG_LINES = 3
"""Lines that make a log; fewer may be what a person wrote."""
_LOOKED_AT = 400_000
"""Characters of a long text, its end, in which marks of a program are looked for."""


def output_kind(text: str, *, beside_words: bool = False) -> OutputKind:
    """Whether a text is a person's request, or what tests, a compiler, a log or a crashed program printed.

    A request may quote such output: it begins with words that ask for something, states constraints, or
    fences the quotation. `beside_words`: the text was given with words that ask for something already, so
    that a heading in it makes it no request.
    """
    said = plain(text)
    first = next((line for line in said.splitlines() if line.strip()), "")
    word = _FIRST_WORD.match(first)
    asks = word is not None and word[1].lower() in _ASKING and not first.startswith(("make:", "In file "))
    if asks or _SENTENCE.fullmatch(first.strip()):
        return "request"
    end = _FENCED.sub(_blank_out, said[-_LOOKED_AT:])
    if not beside_words and _binds(end):
        return "request"
    is_log = _is_log(end)
    if _TRACES.search(end) or _COMPILERS.search(end) or find_failures(end):
        return "failing"
    if is_log and _LOGGED_FAILURE.search(end):
        return "failing"
    return "passing" if is_log or _PASSED.search(end) else "request"


def _binds(text: str) -> bool:
    """Whether a person has stated constraints in a text: before all that a program printed, or after it."""
    lines = text.split("\n")
    marks = [mark for pattern in (_TRACES, _COMPILERS, _PASSED, _LOGGED) for mark in pattern.finditer(text)]
    printed = [range(quoted.first, quoted.end) for quoted in find_quotations(lines) if not quoted.is_fenced]
    if marks:
        first, last = min(mark.start() for mark in marks), max(mark.end() for mark in marks)
        printed.append(range(text.count("\n", 0, first), text.count("\n", 0, last) + 1))
    for index in itertools.chain.from_iterable(printed):
        lines[index] = ""
    return parse_task_text("\n".join(lines)).constraints != Constraints()


def _is_log(text: str) -> bool:
    """Whether most lines are those of a log."""
    lines = [line for line in text.splitlines() if line.strip()]
    logged = sum(_LOGGED.match(line) is not None for line in lines)
    return logged >= _LOG_LINES and 2 * logged >= len(lines)


def _blank_out(fenced: re.Match[str]) -> str:
    return _CONTENT.sub("x", fenced[0])


_HEAD, _TAIL = 0.15, 0.4
"""Of the room; the rest is for what failed in between."""
_MATTERS = regex(
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
