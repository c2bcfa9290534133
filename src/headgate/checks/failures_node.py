"""The formats of Jest, Vitest, Mocha and of the runner that comes with Node."""

import re
from collections.abc import Callable, Iterator, Sequence

from headgate.checks.failures_base import Failure, join_message, own_location

_LOOK_AHEAD = 150
"""How many lines about one failure are read."""
_SCRIPT = r"\S[^\t>\[\]]*\.(?:[cm]?[jt]sx?|vue|svelte)"
_FRAME = re.compile(r"\s*(?:at|❯) (?:.*[( ])?(?P<file>[^\s()]+\.\w+):(?P<line>\d+):\d+\)?")

_JEST_FILE = re.compile(rf" ?(?P<verdict>FAIL|PASS) +(?:(?P<file>{_SCRIPT})|\S.*)(?: \([^()]*\))*")
_JEST_TEST = re.compile(r"  ● (?P<name>\S.*)")
_JEST_VALUE = re.compile(r"\s+(?:Expected|Received)[\w ]*: .*")
_JEST_ERROR = re.compile(r"\s+\w*Error: .*")

_VITEST = re.compile(rf" *FAIL +(?:\|[^|]*\| +)?(?P<file>{_SCRIPT}) (?:(?P<rest>> .+)|\[ .* \])")

_MOCHA_COUNT = re.compile(r"  \d+ failing")
_MOCHA_TEST = re.compile(r"  \d+\) (?P<title>\S.*)")

_TAP = re.compile(r" *not ok \d+ (?:- )?(?P<name>\S.*)")
_TAP_PLACE = re.compile(r" +location: '(?P<file>.+):(?P<line>\d+):\d+'")
_TAP_ERROR = re.compile(r" +error: '?(?P<error>.*?)'?")
_SPEC_PLACE = re.compile(r" *test at (?P<file>\S.*):(?P<line>\d+):\d+")
_SPEC_NAME = re.compile(r" *✖ (?P<name>\S.*?) \([\d.]+ms\)")


def parse_jest(lines: list[str], directory: str) -> Iterator[Failure]:
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
        yield Failure(name, _place(body, directory) or file, _jest_message(body))


def _jest_message(body: Sequence[str]) -> str:
    first = next((line for line in body if line.strip()), "")
    if "Jest encountered an unexpected token" in first:
        first = next((line for line in body if _JEST_ERROR.fullmatch(line)), first)
    values = [line for line in body if _JEST_VALUE.fullmatch(line)][:2]
    return join_message(first.partition(" // ")[0], *values)


def parse_vitest(lines: list[str], directory: str) -> Iterator[Failure]:
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
            yield Failure(name, place, join_message(message.partition(" // ")[0]))


def parse_mocha(lines: list[str], directory: str) -> Iterator[Failure]:
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
            yield Failure(name, _place(body, directory), join_message(message))


def parse_tap(lines: list[str], directory: str) -> Iterator[Failure]:
    """TAP as Node and others write it. A test that only contains a failed one is left out."""
    for number, line in enumerate(lines):
        found = _TAP.fullmatch(line)
        if not found or re.search(r"# (?:TODO|SKIP)", found["name"], re.IGNORECASE):
            continue
        body = _until(lines, number + 1, lambda each: each.strip() == "..." or " - " in each[:30])
        if any("failureType: 'subtestsFailed'" in each for each in body):
            continue
        places = [(at["file"], at["line"]) for each in body if (at := _TAP_PLACE.fullmatch(each))]
        yield Failure(found["name"], own_location(places, directory), _tap_message(body))


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


def parse_node_spec(lines: list[str], directory: str) -> Iterator[Failure]:
    """Node's readable reporter: `test at file:line:column`, the test's name, then the error."""
    for number, line in enumerate(lines[:-1]):
        place = _SPEC_PLACE.fullmatch(line)
        found = _SPEC_NAME.fullmatch(lines[number + 1]) if place else None
        if place and found:
            location = own_location([(place["file"], place["line"])], directory)
            message = lines[number + 2] if number + 2 < len(lines) else ""
            yield Failure(found["name"], location, join_message(message))


def _until(lines: Sequence[str], start: int, ends: Callable[[str], bool]) -> Sequence[str]:
    end = start
    while end < min(len(lines), start + _LOOK_AHEAD) and not ends(lines[end]):
        end += 1
    return lines[start:end]


def _place(body: Sequence[str], directory: str) -> str:
    frames = (found for line in body if (found := _FRAME.fullmatch(line)))
    return own_location(((found["file"], found["line"]) for found in frames), directory)
