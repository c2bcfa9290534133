"""Finds calls and thinking in a reply whose family is not known for sure."""

import re
from contextlib import suppress
from itertools import islice
from typing import Literal

from headgate.first_use import dataclass, regex
from headgate.models.textcalls.json_families import CALLS, read_marked, read_pythonic
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import (
    THINKING_CLOSING,
    THINKING_MARKS,
    THINKING_OPENING,
    CallAttempt,
    CallsFound,
    Opening,
    ParsedCall,
    QuotedText,
    ReplyPart,
    check_attempt,
    find_unreadable,
)
from headgate.models.textcalls.source import Source, WorkLimitReached
from headgate.models.textcalls.table import OPENINGS, Family

MARK = regex(
    # The look ahead tells quickly that there is none, which is so almost everywhere.
    r"(?=<[|｜]?[A-Za-z/]|\[[/A-Z]|\]<|functools)(?:"
    + "|".join(f"(?:{opening.replace('?P<prefix>', '?:')})" for opening in OPENINGS)
    + f"|(?P<think>{THINKING_OPENING})|(?P<answer>{THINKING_CLOSING}))"
)
"""What begins a call, or begins or ends thinking."""
_KEYS = r"name|id|type|action|tool\w{0,9}|function\w{0,5}|call_id|arg\w{1,7}|param\w{1,7}"
_OBJECT = rf"""\{{\s{{0,40}}["'](?:{_KEYS})["']"""
_LINE = regex(
    r"^[ \t]*+(?:(?P<fence>`{3,}+|~{3,}+)"
    rf"|(?P<plain>{_OBJECT}|\[\s{{0,40}}(?:{_OBJECT}|[A-Za-z_][\w.\-]{{0,128}}+\()))",
    re.MULTILINE,
)
_INLINE = regex(rf"{_OBJECT}|\[\s{{0,40}}(?:{_OBJECT}|[A-Za-z_][\w.\-]{{0,128}}+\()")
_CALL_END = regex(r"[}\]](?:\s|</?[^<>\s]{1,40}>)*+\Z")
_READERS = tuple((regex(opening), families) for opening, families in OPENINGS.items())
_CALL_FENCES = ("", "json", "tool_call", "tool_calls", "tool_code", "tool", "xml", "text", "plaintext")
_PYTHON_FENCES = ("tool_code", "tool_call", "tool_calls", "tool")
_NAME_LINE = regex(r"([\w.\-]{1,128}+)[ \t]*+\n\s*+(?=\{)")
_CALL_START = regex(r'\{\s{0,40}"(?:name|tool_name|function|tool)"')
_INTRODUCTION = regex(r"\s*(?:Action:|functools)?\s*\Z")
ATTEMPTS = 4_000
"""Marks that are looked at in one reply; after so many the rest is text."""
INLINE = 40
"""Objects in a line of text that may be a call which ends the reply."""


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of the text that is no plain content, or may not be."""

    kind: Literal["calls", "reasoning"]
    start: int
    end: int
    attempts: tuple[CallAttempt, ...] = ()
    weak: bool = False
    """It has no mark of its own, so that its place in the reply decides whether it is meant."""
    inside: tuple[int, int] = (0, 0)
    """Thinking without the marks around it."""


class ReplyScan:
    """One pass over a reply."""

    def __init__(self, source: Source, book: ToolBook, family: str = "", thinking: bool = False) -> None:
        self._source = source
        self._text = source.text
        self._book = book
        self._family = family
        self._spans: list[_Span] = []
        self._start = 0
        self._thought = False
        self._unclosed = 0 if thinking else -1
        """Where thinking begins that has no end so far."""
        self._quoting = QuotedText(self._text, 0)

    def parts(self) -> list[ReplyPart]:
        """The reply in parts."""
        # Out of work, what was found stands; the rest of such a text is nothing that a model meant.
        with suppress(WorkLimitReached):
            self._scan()
            self._take_inline()
        self._keep_meant()
        if not any(span.kind == "calls" for span in self._spans):
            self._read_whole()
        return list(self._cut())

    def _scan(self) -> None:
        position = 0
        mark = MARK.search(self._text)
        line = _LINE.search(self._text)
        for _ in range(ATTEMPTS):
            if sum(len(span.attempts) for span in self._spans[-1:]) >= CALLS:
                break
            if mark and mark.start() < position:
                mark = MARK.search(self._text, position)
            if line and line.start() < position:
                line = _LINE.search(self._text, position)
            # At one place the mark rules: `[TOOL_CALLS]` looks like a list, too.
            if line and (not mark or line.start(line.lastgroup or 0) < mark.start()):
                position = self._take_fence(line) if line["fence"] else self._take_plain(line)
            elif mark:
                position = self._take_mark(mark)
            else:
                break

    def _take_mark(self, mark: re.Match[str]) -> int:
        if mark["think"]:
            return self._take_thinking(mark)
        if mark["answer"]:
            return self._take_answer(mark)
        found = self._read_marked(mark) if self._book else None
        if not found:
            return mark.end()
        if self._quoting.is_quoted(mark.start(), found.end):
            return max(found.end, mark.end())
        return self._add(_Span("calls", mark.start(), max(found.end, mark.end()), found.attempts))

    def _read_marked(self, mark: re.Match[str]) -> CallsFound | None:
        closings: list[str] = []
        for pattern, families in _READERS:
            if opening := pattern.match(self._text, mark.start()):
                for family in sorted(families, key=self._is_other):
                    if found := self._read_family(self._source, opening, family):
                        return found
                    closings += family.closings
        return find_unreadable(self._source, mark, closings, self._book)

    def _read_family(self, source: Source, mark: re.Match[str], family: Family) -> CallsFound | None:
        prefix = mark.groupdict().get("prefix") or ""
        return family.read(source, Opening(mark.end(), family.closings, prefix), self._book)

    def _is_other(self, family: Family) -> bool:
        return family.name != self._family

    def _take_thinking(self, mark: re.Match[str]) -> int:
        fresh = self._spans[-1].end if self._spans else self._start
        if self._text[fresh : mark.start()].strip() or self._unclosed > 0:
            return mark.end()
        end = self._source.find(THINKING_MARKS[mark[0]], mark.end())
        self._thought = True
        if end < 0:
            self._unclosed = mark.end()
            self._spans.append(_Span("reasoning", mark.start(), mark.end(), inside=(mark.end(), mark.end())))
            return mark.end()
        self._unclosed = -1
        stop = end + len(THINKING_MARKS[mark[0]])
        return self._add(_Span("reasoning", mark.start(), stop, inside=(mark.end(), end)))

    def _take_answer(self, mark: re.Match[str]) -> int:
        """The end of thinking that was opened in the prompt: all before it was thinking, calls included."""
        if self._thought or self._quoting.is_quoted(mark.start(), mark.end()):
            return mark.end()
        self._thought = True
        self._unclosed = -1
        self._spans = []
        return self._add(_Span("reasoning", 0, mark.end(), inside=(0, mark.start())))

    def _take_fence(self, line: re.Match[str]) -> int:
        fence = line["fence"]
        info_end = self._text.find("\n", line.end(), line.end() + 200)
        if info_end < 0:
            return line.end()
        info = self._text[line.end() : info_end].strip().lower()
        close = self._source.search(
            re.compile(rf"^[ \t]*+{re.escape(fence)}[`~]*+[ \t]*+$|(?<=[}}\]>)]){fence}\s*+\Z", re.MULTILINE),
            info_end,
        )
        body_end = close.start() if close else len(self._text)
        stop = close.end() if close else len(self._text)
        attempts = self._read_block(info_end + 1, body_end, info) if self._book else ()
        if attempts and not self._quoting.is_quoted(line.start(), stop):
            return self._add(_Span("calls", line.start(), stop, attempts, weak=True))
        self._quoting.skip_to(stop)
        return stop

    def _read_block(self, start: int, end: int, info: str) -> tuple[CallAttempt, ...]:
        """The calls in a code block that holds nothing else."""
        if info not in _CALL_FENCES:
            return ()
        inner = Source(self._text[start:end].strip())
        self._source.spend(2 * (end - start))
        found = self._read_run(inner, info in _PYTHON_FENCES)
        if not found or inner.text[found.end :].strip():
            return ()
        return found.attempts if all(not attempt.fault for attempt in found.attempts) else ()

    def _read_run(self, inner: Source, pythonic: bool) -> CallsFound | None:
        if inner.text.startswith(("{", "[")):
            return self._read_values(inner, 0)
        if pythonic:
            return read_pythonic(inner, 0, self._book)
        for pattern, families in _READERS:
            if opening := pattern.match(inner.text):
                for family in families:
                    if found := self._read_family(inner, opening, family):
                        return found
        return None

    def _read_values(self, source: Source, start: int, *, pythonic: bool = True) -> CallsFound | None:
        """The calls that begin at a position without a mark."""
        if source.text[start : start + 1] not in ("{", "["):
            return None
        return read_marked(source, Opening(start), self._book, pythonic=pythonic)

    def _take_plain(self, line: re.Match[str]) -> int:
        start = line.start("plain")
        if not self._book:
            return line.end()
        found = self._read_values(self._source, start)
        is_call = found and all(
            isinstance(check_attempt(a, self._book), ParsedCall) or a.fault for a in found.attempts
        )
        if not found or not is_call:
            return line.end()
        if any(attempt.fault for attempt in found.attempts):
            return self._take_broken(line, found)
        if self._quoting.is_quoted(start, found.end):
            return found.end
        return self._add(_Span("calls", start, found.end, found.attempts, weak=True))

    def _take_inline(self) -> None:
        """Calls without a mark that end the reply behind text on the same line."""
        end, start = len(self._text), 0
        for span in reversed(self._spans):
            start = span.end
            if span.kind != "calls" or not _is_markup(self._text[span.end : end]):
                break
            end, start = span.start, 0
        if not self._book or not _CALL_END.search(self._text, max(start, end - 400), end):
            return
        quoting = QuotedText(self._text, start)
        for head in islice(_INLINE.finditer(self._text, start, end), INLINE):
            found = self._read_values(self._source, head.start())
            if not found or not all(
                isinstance(check_attempt(each, self._book), ParsedCall) for each in found.attempts
            ):
                continue
            # Calls on lines of their own below it were found already: they are read here once more.
            others = [each for each in self._spans if not head.start() < each.start < found.end]
            following = next((each.start for each in others if each.start >= found.end), len(self._text))
            if _is_markup(self._text[found.end : following]):
                if not quoting.is_quoted(head.start(), found.end):
                    span = _Span("calls", head.start(), found.end, found.attempts, weak=True)
                    self._spans = sorted([*others, span], key=lambda each: each.start)
                return

    def _take_broken(self, line: re.Match[str], found: CallsFound) -> int:
        """An object that breaks off and is begun again: the model noticed its own slip."""
        again = _CALL_START.search(self._text, line.end(), line.end() + 2_000)
        second = self._read_values(self._source, again.start(), pythonic=False) if again else None
        start = line.start("plain")
        if second and not any(attempt.fault for attempt in second.attempts):
            return self._add(_Span("calls", start, second.end, second.attempts, weak=True))
        if self._book.find(found.attempts[-1].name):
            return self._add(_Span("calls", start, found.end, found.attempts, weak=True))
        return line.end()

    def _add(self, span: _Span) -> int:
        self._spans.append(span)
        self._quoting.skip_to(span.end)
        return span.end

    def _keep_meant(self) -> None:
        """Drops calls that stand in the middle of text without a mark, or in thinking that has no end."""
        leading: set[int] = set()
        position = 0
        for index, span in enumerate(self._spans):
            if span.start - position > 40 or not _INTRODUCTION.match(self._text[position : span.start]):
                break
            leading.add(index)
            position = span.end
        trailing: set[int] = set()
        position = len(self._text)
        for index in reversed(range(len(self._spans))):
            span = self._spans[index]
            if not _is_markup(self._text[span.end : position]):
                break
            trailing.add(index)
            position = span.start
        kept = []
        for index, span in enumerate(self._spans):
            meant = span.kind == "reasoning" or not span.weak or index in leading or index in trailing
            if span.kind == "calls" and 0 <= self._unclosed <= span.start:
                meant = index in trailing
            if meant:
                kept.append(span)
        self._spans = kept

    def _read_whole(self) -> None:
        """Forms that are calls only if the reply is nothing else: `ls(path=".")`, a name with an object."""
        start = self._spans[-1].end if self._spans else 0
        rest = self._text[start:].strip()
        if not rest or len(rest) > 200_000 or not self._book:
            return
        inner = Source(rest)
        try:
            head = _NAME_LINE.match(rest)
            if head and self._book.find(head[1]):
                value = inner.json_at(head.end())
                if value and isinstance(value.value, dict) and not rest[value.end :].strip():
                    call = CallAttempt(head[1], value.value)
                    self._spans.append(_Span("calls", start, len(self._text), (call,)))
            elif rest.startswith(("{", "[")):
                run = self._read_values(inner, 0, pythonic=False)
                if run and run.end == len(rest) and not any(attempt.fault for attempt in run.attempts):
                    self._spans.append(_Span("calls", start, len(self._text), run.attempts))
            elif re.match(r"[A-Za-z_][\w.\-]{0,128}+\(", rest):
                found = read_pythonic(inner, 0, self._book)
                if found and found.end == len(rest) and not found.attempts[-1].fault:
                    self._spans.append(_Span("calls", start, len(self._text), found.attempts))
        except WorkLimitReached:
            return

    def _cut(self) -> list[ReplyPart]:
        parts: list[ReplyPart] = []
        position = 0
        unclosed = self._unclosed
        for span in [*self._spans, _Span("reasoning", len(self._text), len(self._text))]:
            if between := self._text[position : span.start]:
                thinking = 0 <= unclosed <= position and not any(part.kind == "calls" for part in parts)
                parts.append(ReplyPart("reasoning" if thinking else "content", between))
            if span.kind == "calls":
                parts.append(ReplyPart("calls", self._text[span.start : span.end], span.attempts))
            elif span.inside[0] < span.inside[1]:
                parts.append(ReplyPart("reasoning", self._text[span.inside[0] : span.inside[1]]))
            elif span.start < span.end:
                parts.append(ReplyPart("reasoning", ""))
            position = span.end
        return parts


def _is_markup(text: str) -> bool:
    """Whether there are only marks and white space."""
    if len(text) > 400:
        return not text.strip()
    return not re.sub(r"</?[^<>\s]{1,40}>|\]<\]minimax\[>\[", "", text).strip()
