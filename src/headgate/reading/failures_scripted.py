"""The test output of Python and JavaScript."""

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from headgate.patterns import regex
from headgate.reading.failed_tests import FailedTest, join_message, own_location

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
    places: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def describe(self, name: str, short: str, directory: str) -> FailedTest:
        """`short` is the summary's message, which pytest cuts to the width of the terminal."""
        if self.collecting:
            raised = [error for error in self.errors if _EXCEPTION.match(error)]
            message = next(reversed(raised or self.errors), short)
        else:
            wanted = short.removesuffix("...")
            message = next((error for error in self.errors if error.startswith(wanted)), short)
        return FailedTest(name, own_location(reversed(self.places), directory), join_message(message))


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
        section.places.append((found["file"], found["line"]))
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
            body = list(takewhile(lambda line: not _is_rule(line, "="), lines[number + 2 : number + 400]))
            places = [(frame["file"], frame["line"]) for each in body if (frame := _PY_FRAME.fullmatch(each))]
            message = "unexpected success" if found["kind"] == "UNEXPECTED SUCCESS" else _raised(body)
            location = own_location(reversed(places), directory)
            yield FailedTest(_unittest_name(found["what"]), location, message)


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


def _raised(body: list[str]) -> str:
    """The exception that ended the last traceback."""
    message, inside = "", False
    for line in body:
        if line.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and line and not line[0].isspace():
            message, inside = line, False
    return join_message(message)


# The formats of Jest, Vitest, Mocha and of the runner that comes with Node.


_LOOK_AHEAD = 150
"""How many lines about one failure are read."""
_SCRIPT = r"\S[^\t>\[\]]*\.(?:[cm]?[jt]sx?|vue|svelte)"
_NODE_FRAME = regex(r"\s*(?:at|❯) (?:.*[( ])?(?P<file>[^\s()]+\.\w+):(?P<line>\d+):\d+\)?")

_JEST_FILE = regex(rf" ?(?P<verdict>FAIL|PASS) +(?:(?P<file>{_SCRIPT})|\S.*)(?: \([^()]*\))*")
_JEST_TEST = regex(r"  ● (?P<name>\S.*)")
_JEST_VALUE = regex(r"\s+(?:Expected|Received)[\w ]*: .*")
_JEST_ERROR = regex(r"\s+\w*Error: .*")

_VITEST = regex(rf" *FAIL +(?:\|[^|]*\| +)?(?P<file>{_SCRIPT}) (?:(?P<rest>> .+)|\[ .* \])")

_MOCHA_COUNT = regex(r"  \d+ failing")
_MOCHA_TEST = regex(r"  \d+\) (?P<title>\S.*)")

_TAP = regex(r" *not ok \d+ (?:- )?(?P<name>\S.*)")
_TAP_PLACE = regex(r" +location: '(?P<file>.+):(?P<line>\d+):\d+'")
_TAP_ERROR = regex(r" +error: '?(?P<error>.*?)'?")
_SPEC_PLACE = regex(r" *test at (?P<file>\S.*):(?P<line>\d+):\d+")
_SPEC_NAME = regex(r" *✖ (?P<name>\S.*?) \([\d.]+ms\)")


def parse_jest(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """`FAIL file` and the `● suite › test` below it."""
    file = ""
    for number, line in enumerate(lines):
        if found := _JEST_FILE.fullmatch(line):
            file = (found["file"] or "") if found["verdict"] == "FAIL" else ""
            continue
        test = _JEST_TEST.fullmatch(line) if file else None
        if not test or test["name"] == "Console":
            continue
        body = _until(lines, number + 1, lambda each: bool(_JEST_TEST.match(each) or _JEST_FILE.match(each)))
        whole = test["name"] == "Test suite failed to run"
        name = file if whole else f"{file} › {test['name']}"
        yield FailedTest(name, _place(body, directory) or file, _jest_message(body))


def _jest_message(body: Sequence[str]) -> str:
    first = next((line for line in body if line.strip()), "")
    if "Jest encountered an unexpected token" in first:
        first = next((line for line in body if _JEST_ERROR.fullmatch(line)), first)
    values = [line for line in body if _JEST_VALUE.fullmatch(line)][:2]
    return join_message(first.partition(" // ")[0], *values)


def parse_vitest(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """`FAIL file > suite > test`; several such lines in a row share what follows."""
    for number, line in enumerate(lines):
        if found := _VITEST.fullmatch(line):
            name = found["file"] + (f" {found['rest']}" if found["rest"] else "")
            start = number + 1
            while start < min(len(lines), number + _LOOK_AHEAD) and _VITEST.fullmatch(lines[start]):
                start += 1
            body = _until(lines, start, lambda each: "⎯⎯⎯⎯" in each or bool(_VITEST.fullmatch(each)))
            message = next((each for each in body if each.strip()), "")
            place = _place(body, directory) or found["file"]
            yield FailedTest(name, place, join_message(message.partition(" // ")[0]))


def parse_mocha(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """The numbered list after `N failing`; a title ends with the line that ends with a colon."""
    counted = False
    for number, line in enumerate(lines):
        counted = counted or bool(_MOCHA_COUNT.fullmatch(line))
        found = _MOCHA_TEST.fullmatch(line) if counted else None
        if not found:
            continue
        titles, start = [found["title"]], number + 1
        while not titles[-1].endswith(":") and start < len(lines) and len(titles) < 20:
            titles.append(lines[start].strip())
            start += 1
        if titles[-1].endswith(":"):
            body = _until(lines, start, lambda each: bool(_MOCHA_TEST.fullmatch(each)))
            message = next((each for each in body if each.strip()), "")
            name = " › ".join(titles).removesuffix(":")
            yield FailedTest(name, _place(body, directory), join_message(message))


def parse_tap(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """TAP as Node and others write it. A test that only contains a failed one is left out."""
    for number, line in enumerate(lines):
        found = _TAP.fullmatch(line)
        if not found or re.search(r"# (?:TODO|SKIP)", found["name"], re.IGNORECASE):
            continue
        body = _until(lines, number + 1, lambda each: each.strip() == "..." or " - " in each[:30])
        if any("failureType: 'subtestsFailed'" in each for each in body):
            continue
        places = [(at["file"], at["line"]) for each in body if (at := _TAP_PLACE.fullmatch(each))]
        yield FailedTest(found["name"], own_location(places, directory), _tap_message(body))


def _tap_message(body: Sequence[str]) -> str:
    """The error, which is on its line or in an indented block below it."""
    at = next((number for number, line in enumerate(body) if _TAP_ERROR.fullmatch(line)), None)
    found = _TAP_ERROR.fullmatch(body[at]) if at is not None else None
    if at is None or not found:
        return ""
    if not found["error"].startswith(("|", ">")):
        return join_message(found["error"])
    border = len(body[at]) - len(body[at].lstrip()) + 1
    return join_message(" ".join(_until(body, at + 1, lambda line: bool(line[:border].strip()))))


def parse_node_spec(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """Node's readable reporter: `test at file:line:column`, the test's name, then the error."""
    for number, line in enumerate(lines[:-1]):
        place = _SPEC_PLACE.fullmatch(line)
        found = _SPEC_NAME.fullmatch(lines[number + 1]) if place else None
        if place and found:
            location = own_location([(place["file"], place["line"])], directory)
            message = lines[number + 2] if number + 2 < len(lines) else ""
            yield FailedTest(found["name"], location, join_message(message))


def _until(lines: Sequence[str], start: int, ends: Callable[[str], bool]) -> Sequence[str]:
    end = start
    while end < min(len(lines), start + _LOOK_AHEAD) and not ends(lines[end]):
        end += 1
    return lines[start:end]


def _place(body: Sequence[str], directory: str) -> str:
    frames = (found for line in body if (found := _NODE_FRAME.fullmatch(line)))
    return own_location(((found["file"], found["line"]) for found in frames), directory)
