"""The test output of pytest and unittest."""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import field

from headgate.first_use import dataclass, regex
from headgate.reading.failed_tests import FailedTest, block_at, own_place

_SECTIONS = {"FAILURES": "FAILED", "ERRORS": "ERROR", "short test summary info": "summary"}
_LAST_LINE = regex(r"(?:no tests ran|\d+ [a-z]+(?:, \d+ [a-z ]+)*) in [\d.:]+.*")
_OTHER_SECTION = regex(
    r"PASSES|XPASSES|XFAILURES|warnings summary.*|test session starts|slowest .*durations|tests coverage"
    rf"|{_LAST_LINE.pattern}"
)
_SUMMARY = regex(
    r"(?P<kind>FAILED|ERROR) (?P<entry>\S.*)|SUBFAILED(?P<subtest>[\[(].{0,200}?[\])]) (?P<within>[^\s(\[].*)"
)
_ONLY_CONTAINS = regex(r"contains \d+ failed subtests?")
_PROGRESS = regex(
    r"(?P<name>\S.*::.*\S) (?:FAILED|ERROR) +\[ *\d+%\]"
    r"|\[gw\d+\] \[ *\d+%\] (?:FAILED|ERROR) (?P<worker_name>\S.*)"
)
_PLACE = regex(r"(?P<file>[^\s:][^:]*\.\w+):(?P<line>\d+): ?(?:in .*|[\w.]*)")
_PY_FRAME = regex(r'(?:E )? *File "(?P<file>[^"]+)", line (?P<line>\d+).*')
_EXCEPTION = regex(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Warning|Failed)\b")
_TITLE_START = regex(r"(?:ERROR collecting |ERROR at (?:setup|teardown) of |\[doctest\] )")

_UNITTEST_HEADING = regex(r"(?P<kind>FAIL|ERROR|UNEXPECTED SUCCESS): (?P<what>\S.*)")
_UNITTEST_NAME = regex(r"(?P<test>\S+) \((?P<where>[^\s()]+)\)(?P<subtest>.*)")
_UNITTEST_PROGRESS = regex(r" *(?P<what>\w+ \([\w.]+\)(?: [\[(].*)?) \.\.\. (?:FAIL|ERROR)")


@dataclass
class _Section:
    """What pytest prints about one failure."""

    collecting: bool = False
    """It is about a file that cannot be imported; what it says begins with source code."""
    places: list[re.Match[str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def describe(self, name: str, short: str, directory: str) -> FailedTest:
        """`short` is the summary's message, which pytest cuts to the width of the terminal."""
        if self.collecting:
            raised = [error for error in self.errors if _EXCEPTION.match(error)]
            message = next(reversed(raised or self.errors), short)
        else:
            wanted = short.removesuffix("...")
            message = next((error for error in self.errors if error.startswith(wanted)), short)
        return FailedTest(name, own_place(reversed(self.places), directory), message)


def parse_pytest(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """The short summary, with each failure's place and whole message; without one, what else there is."""
    sections: dict[tuple[str, str], deque[_Section]] = defaultdict(deque)
    summary: list[tuple[str, str, str]] = []
    progress: list[str] = []
    titles: list[tuple[str, str]] = []
    part, current = "", _Section()
    for line in lines:
        if line.startswith("=") and line.endswith("="):
            title = line.strip("=").strip()
            part = _SECTIONS.get(title, "" if _OTHER_SECTION.fullmatch(title) else part)
            current = _Section()
        elif part == "summary":
            if found := _SUMMARY.fullmatch(line):
                name, short = _split(found["entry"] or found["within"])
                subtest = f" {found['subtest']}" if found["subtest"] else ""
                summary.append((found["kind"] or "FAILED", name + subtest, short))
            elif _LAST_LINE.fullmatch(line):
                part = ""
        elif part:
            if line.startswith("---") and " Captured " in line:
                current = _Section()  # what the test itself printed says nothing
            elif title := _section_title(line):
                current = _Section("_ ERROR collecting " in line)
                sections[part, title].append(current)
                titles.append((part, title))
            _read_section_line(line, current)
        elif (line.endswith("%]") or line.startswith("[gw")) and (found := _PROGRESS.fullmatch(line)):
            progress.append(found["name"] or found["worker_name"])
    if not summary:
        summary = [("FAILED", name, "") for name in progress]
    if not summary:
        summary = [(kind, title, "") for kind, title in titles]
    for kind, name, short in summary:
        if _ONLY_CONTAINS.fullmatch(short):
            continue
        matching = sections.get((kind, _title(name)))
        section = matching.popleft() if matching else _Section()
        yield section.describe(name, short, directory)


def _read_section_line(line: str, section: _Section) -> None:
    if found := _PLACE.fullmatch(line) or _PY_FRAME.fullmatch(line):
        section.places.append(found)
    elif line.startswith("E ") and (error := line[1:].strip()):
        section.errors.append(error)


def _section_title(line: str) -> str:
    """The failure that `____ title ____` begins, or nothing."""
    if not (line.startswith("_") and line.endswith("_")):
        return ""
    title = line.strip("_").strip()
    return "" if title.startswith("_ ") else _TITLE_START.sub("", title, count=1)


def _title(name: str) -> str:
    """How the heading of a section names the test."""
    path, separator, test = name.partition("::")
    if not separator:
        return path
    plain, bracket, values = test.partition("[")
    return plain.replace("::", ".") + bracket + values


def _split(entry: str) -> tuple[str, str]:
    """Name and message; both may contain the dash that is between them."""
    bracket, dash = entry.find("["), entry.find(" - ")
    if 0 <= bracket < dash:
        close = entry.find("] - ", bracket)
        if close < 0 and entry.endswith("]"):
            return entry, ""
        dash = close + 1 if close >= 0 else dash
    return (entry, "") if dash < 0 else (entry[:dash], entry[dash + 3 :])


def parse_unittest(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """The blocks between rules; before them, the lines of a verbose run, which may be all there is."""
    for number, line in enumerate(lines):
        if line.endswith(("... FAIL", "... ERROR")) and (found := _UNITTEST_PROGRESS.fullmatch(line)):
            yield FailedTest(_unittest_name(found["what"]))
        if not _is_rule(line, "=") or number + 1 == len(lines):
            continue
        if found := _UNITTEST_HEADING.fullmatch(lines[number + 1]):
            body = block_at(lines, number + 2, lambda line: _is_rule(line, "="))
            message = "unexpected success" if found["kind"] == "UNEXPECTED SUCCESS" else _raised(body)
            place = own_place(map(_PY_FRAME.fullmatch, reversed(body)), directory)
            yield FailedTest(_unittest_name(found["what"]), place, message)


def _is_rule(line: str, character: str) -> bool:
    return len(line) == 70 and not line.strip(character)


def _unittest_name(what: str) -> str:
    """`module.Class.test`, from the format of any version of Python."""
    found = _UNITTEST_NAME.fullmatch(what)
    if not found:
        return what
    test, where, subtest = found.group("test", "where", "subtest")
    if where.startswith("unittest.loader._FailedTest"):
        return test  # a module that could not be imported
    full = where if where.endswith(f".{test}") else f"{where}.{test}"
    return full + subtest


def _raised(body: Sequence[str]) -> str:
    """The exception that ended the last traceback."""
    message, inside = "", False
    for line in body:
        if line.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and line and not line[0].isspace():
            message, inside = line, False
    return message
