"""The test output of JavaScript, Go, Rust and the JVM."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import dropwhile, takewhile

from headgate.first_use import dataclass, regex
from headgate.reading.failed_tests import FailedTest, block_at, blocks, first_said, join_message, own_place

# Jest, Vitest, Mocha and the runner that comes with Node.

_SCRIPT = r"\S[^\t>\[\]]*\.(?:[cm]?[jt]sx?|vue|svelte)"
_NODE_FRAME = regex(r"\s*(?:at|❯) (?:.*[( ])?(?P<file>[^\s()]+\.\w+):(?P<line>\d+):\d+\)?")

_JEST_HEADING = regex(
    rf" ?(?P<verdict>FAIL|PASS) +(?:(?P<file>{_SCRIPT})|\S.*)(?: \([^()]*\))*|  ● (?P<name>\S.*)"
)
_JEST_VALUE = regex(r"\s+(?:Expected|Received)[\w ]*: .*")
_JEST_ERROR = regex(r"\s+\w*Error: .*")

_VITEST = regex(rf" *FAIL +(?:\|[^|]*\| +)?(?P<file>{_SCRIPT}) (?:(?P<rest>> .+)|\[ .* \])")

_MOCHA_COUNT = regex(r"  \d+ failing")
_MOST_TITLES = 20
_MOCHA_TEST = regex(r"  \d+\) (?P<title>\S.*)")

_TAP = regex(r" *not ok \d+ (?:- )?(?P<name>\S.*)")
_TAP_PLACE = regex(r" +location: '(?P<file>.+):(?P<line>\d+):\d+'")
_TAP_ERROR = regex(r" +error: '?(?P<error>.*?)'?")
_SPEC_PLACE = regex(r" *test at (?P<file>\S.*):(?P<line>\d+):\d+")
_SPEC_NAME = regex(r" *✖ (?P<name>\S.*?) \([\d.]+ms\)")


def parse_jest(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """`FAIL file` and the `● suite › test` below it."""
    file = ""
    for found, body in blocks(lines, _JEST_HEADING, _JEST_HEADING.fullmatch):
        if found["verdict"]:
            file = (found["file"] or "") if found["verdict"] == "FAIL" else ""
        elif file and found["name"] != "Console":
            whole = found["name"] == "Test suite failed to run"
            name = file if whole else f"{file} › {found['name']}"
            yield FailedTest(name, _node_place(body, directory) or file, _jest_message(body))


def _jest_message(body: Sequence[str]) -> str:
    first = first_said(body)
    if "Jest encountered an unexpected token" in first:
        first = next(filter(_JEST_ERROR.fullmatch, body), first)
    return join_message(first.partition(" // ")[0], *list(filter(_JEST_VALUE.fullmatch, body))[:2])


def parse_vitest(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """`FAIL file > suite > test`; several such lines in a row share what follows."""
    for found, rest in blocks(lines, _VITEST, lambda line: "⎯⎯⎯⎯" in line):
        body = block_at(list(dropwhile(_VITEST.fullmatch, rest)), 0, _VITEST.fullmatch)
        name = found["file"] + (f" {found['rest']}" if found["rest"] else "")
        message = first_said(body).partition(" // ")[0]
        yield FailedTest(name, _node_place(body, directory) or found["file"], message)


def parse_mocha(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """The numbered list after `N failing`; a title ends with the line that ends with a colon."""
    start = next((number for number, line in enumerate(lines) if _MOCHA_COUNT.fullmatch(line)), len(lines))
    for found, body in blocks(lines[start:], _MOCHA_TEST, _MOCHA_TEST.fullmatch):
        titles = [found["title"], *(line.strip() for line in body[:_MOST_TITLES])]
        last = next((number for number, title in enumerate(titles) if title.endswith(":")), None)
        if last is not None:
            name = " › ".join(titles[: last + 1]).removesuffix(":")
            yield FailedTest(name, _node_place(body[last:], directory), first_said(body[last:]))


def parse_tap(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """TAP as Node and others write it. A test that only contains a failed one is left out."""
    for found, body in blocks(lines, _TAP, lambda line: line.strip() == "..." or " - " in line[:30]):
        is_expected = re.search(r"# (?:TODO|SKIP)", found["name"], re.IGNORECASE)
        if not is_expected and not any("failureType: 'subtestsFailed'" in line for line in body):
            place = own_place(map(_TAP_PLACE.fullmatch, body), directory)
            yield FailedTest(found["name"], place, _tap_message(body))


def _tap_message(body: Sequence[str]) -> str:
    """The error, which is on its line or in an indented block below it."""
    for number, line in enumerate(body):
        if found := _TAP_ERROR.fullmatch(line):
            if not found["error"].startswith(("|", ">")):
                return found["error"]
            border = len(line) - len(line.lstrip()) + 1
            return " ".join(_indented(body[number + 1 :], border))
    return ""


def _indented(lines: Sequence[str], border: int) -> Iterator[str]:
    """The lines up to the first with something left of the border."""
    return takewhile(lambda line: not line[:border].strip(), lines)


def parse_node_spec(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """Node's readable reporter: `test at file:line:column`, the test's name, then the error."""
    for place, body in blocks(lines, _SPEC_PLACE, _SPEC_PLACE.fullmatch):
        if body and (found := _SPEC_NAME.fullmatch(body[0])):
            yield FailedTest(found["name"], own_place([place], directory), "".join(body[1:2]))


def _node_place(body: Sequence[str], directory: str) -> str:
    return own_place(map(_NODE_FRAME.fullmatch, body), directory)


# Go.

_GO_FAILED = regex(r" *--- FAIL: (?P<name>\S+) \([\d.]+s\)")
_RUNNING = regex(r"=== (?:RUN|CONT|NAME) +(?P<name>\S+)")
_LOGGED = regex(r"\s+(?P<file>[^\s:]+\.go):(?P<line>\d+): ?(?P<message>.*)")
_ASSERTED = regex(r"\s+Error:\s+(?P<message>\S.*)")
_PANIC = regex(r"(?:panic|fatal error): .+")
_FRAME = regex(r"\t(?P<file>\S+\.go):(?P<line>\d+)(?: \+0x[0-9a-f]+)?")
_PACKAGE = regex(r"(?P<verdict>FAIL|ok  )\t(?P<package>\S+)(?P<rest>.*)")
_BUILDING = regex(r"# (?P<package>\S+)(?: \[\S+\])?")
_GO_COMPILER = regex(r"(?:vet: )?(?P<file>[^\s:]+\.go):(?P<line>\d+)(?::\d+)?: (?P<message>.+)")


@dataclass
class _Test:
    places: list[re.Match[str]] = field(default_factory=list)
    message: str = ""

    def said(self, name: str, directory: str) -> FailedTest:
        return FailedTest(name, own_place(self.places, directory), self.message)


@dataclass
class _Package:
    """What is known of the package whose output is being read; its name comes last."""

    failed: list[str] = field(default_factory=list)
    tests: dict[str, _Test] = field(default_factory=dict)
    crash: _Test = field(default_factory=_Test)

    def finish(self, name: str, directory: str) -> Iterator[FailedTest]:
        """The tests that failed; one that only contains failed ones is left out."""
        containers = {test.rpartition("/")[0] for test in self.failed}
        for test in dict.fromkeys(self.failed):
            known = self.tests.get(test, _Test())
            if test in containers and not known.message:
                continue
            blamed = known if known.message or test != self.failed[-1] else self.crash
            yield blamed.said(f"{name}.{test}" if name else test, directory)
        if name and not self.failed:
            yield self.crash.said(name, directory)


def parse_go(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """Failed tests by package, and what the compiler said about packages that do not build."""
    package, current, building, built_badly = _Package(), "", "", False
    for line in lines:
        if found := _GO_FAILED.fullmatch(line):
            current = found["name"]
            package.failed.append(current)
        elif found := _RUNNING.fullmatch(line):
            current = found["name"]
        elif found := _BUILDING.fullmatch(line):
            building, built_badly = found["package"], False
        elif building and (found := _GO_COMPILER.fullmatch(line)):
            built_badly = True
            yield FailedTest(f"build {building}", own_place([found], directory), found["message"])
        elif found := _PACKAGE.fullmatch(line):
            known = "[build failed]" in found["rest"] and built_badly  # the compiler has said more already
            if "[" in found["rest"]:
                package.crash.message = package.crash.message or found["rest"].strip(" \t[]")
            if found["verdict"] == "FAIL" and not known:
                yield from package.finish(found["package"], directory)
            package, current, building = _Package(), "", ""
        else:
            _read_output(line, package, current)
    yield from package.finish("", directory)


def _read_output(line: str, package: _Package, current: str) -> None:
    """What a test printed: its log, an assertion library's words, or a crash."""
    if current and (found := _LOGGED.fullmatch(line)):
        test = package.tests.setdefault(current, _Test())
        test.places.append(found)
        test.message = test.message or found["message"].strip()
    elif current in package.tests and (found := _ASSERTED.fullmatch(line)):
        test = package.tests[current]
        test.message = test.message or found["message"]
    elif _PANIC.fullmatch(line):
        package.crash.message = package.crash.message or line
    elif package.crash.message and (found := _FRAME.fullmatch(line)):
        package.crash.places.append(found)


# The formats of Maven (Surefire, Failsafe), Gradle and the Java compiler.


_LIST = regex(r"\[ERROR\] (?:Failures|Errors): *")
_JVM_LISTED = regex(
    r"\[ERROR\]   (?:Run \d+: )?(?P<name>[\w$.]+(?:\[.*?\]|\(.*?\))?)"
    r"(?::(?P<line>\d+))?(?:->[\w$.:>-]+)?(?: (?P<message>.*))?"
)
_MAVEN_COMPILER = regex(r"\[ERROR\] (?P<file>/?\S.*\.\w+):\[(?P<line>\d+),\d+\] (?P<message>.+)")
_JAVAC = regex(r"(?P<file>\S.*\.java):(?P<line>\d+): error: (?P<message>.+)")
_GRADLE = regex(r"(?P<name>[\w$][^>]* > \S.*) FAILED")
_GRADLE_SAID = regex(r"    (?P<message>\S.*?)(?: at (?P<file>\w+\.\w+):(?P<line>\d+))?")


def parse_jvm(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """Surefire's closing list, Gradle's `Class > test FAILED`, and compiler errors."""
    listing = False
    for number, line in enumerate(lines):
        if _LIST.fullmatch(line):
            listing = True
        elif listing and (found := _JVM_LISTED.fullmatch(line)):
            place = _surefire_place(found["name"], found["line"])
            yield FailedTest(found["name"], place, (found["message"] or "").removeprefix("» "))
        elif found := _MAVEN_COMPILER.fullmatch(line) or _JAVAC.fullmatch(line):
            yield FailedTest("build", own_place([found], directory), found["message"])
        elif found := _GRADLE.fullmatch(line):
            said = _GRADLE_SAID.fullmatch(lines[number + 1]) if number + 1 < len(lines) else None
            location = f"{said['file']}:{said['line']}" if said and said["file"] else ""
            yield FailedTest(found["name"], location, said["message"] if said else "")
        elif not line.startswith("[ERROR]   "):
            listing = False


def _surefire_place(name: str, line: str | None) -> str:
    """Surefire gives a line number but no file; the class's name is the file's."""
    owner = name.partition("(")[0].partition("[")[0].rpartition(".")[0].rpartition(".")[2].partition("$")[0]
    return f"{owner}.java:{line}" if owner and line else ""


# The format of `cargo test`, and of the errors of the compiler.


_RUST_FAILED = regex(r"test (?P<name>\S.*?)(?: - should panic(?: with .*)?)? \.\.\. FAILED")
_SECTION = regex(r"---- (?P<name>\S.*) (?:stdout|stderr) ----")
_RUST_LISTED = regex(r"    (?P<name>\S.*)")
_PANICKED = regex(
    r"thread '.*' (?:\(\d+\) )?panicked at "
    r"(?:'(?P<message>.*)', )?(?P<file>[^\s:']+\.rs):(?P<line>\d+):\d+:?"
)
_VALUE = regex(r" *(?:left|right): .*")
_OTHER = regex(r"(?:note: (?P<note>test did not panic as expected.*)|(?P<error>Error: .+))")
_DOCTEST = regex(r"(?P<file>\S+\.(?:rs|md)) - .*\(line (?P<line>\d+)\)")
_RUST_COMPILER = regex(r"(?P<message>error(?:\[E\d+\])?: .+)")
_ARROW = regex(r" *--> (?P<file>\S.*\.rs):(?P<line>\d+):\d+")


def parse_cargo(lines: list[str], directory: str) -> Iterator[FailedTest]:
    """Failed tests with what they said, and compiler errors that name a place."""
    listing = False
    for number, line in enumerate(lines):
        if found := _RUST_FAILED.fullmatch(line):
            yield FailedTest(found["name"])
        elif found := _SECTION.fullmatch(line):
            yield _describe(found["name"], block_at(lines, number + 1, _ends_section), directory)
        elif found := _RUST_COMPILER.fullmatch(line):
            arrows = filter(None, map(_ARROW.fullmatch, lines[number + 1 : number + 4]))
            if arrow := next(arrows, None):
                yield FailedTest("build", own_place([arrow], directory), found["message"])
        listing = line == "failures:" or (listing and bool(_RUST_LISTED.fullmatch(line)))
        if listing and line != "failures:":
            yield FailedTest(line.strip())


def _ends_section(line: str) -> bool:
    return line == "failures:" or _SECTION.fullmatch(line) is not None


def _describe(name: str, body: Sequence[str], directory: str) -> FailedTest:
    """A test with what it printed. Of a test in a document, the name says where it is."""
    places, message = [_DOCTEST.fullmatch(name)], ""
    for number, line in enumerate(body):
        if found := _PANICKED.fullmatch(line):
            places.append(found)
            message = _panic_message(found["message"], body[number + 1 : number + 6])
            break
        if found := _OTHER.fullmatch(line):
            message = found["note"] or found["error"]
    return FailedTest(name, own_place(places, directory), message)


def _panic_message(said: str | None, following: Sequence[str]) -> str:
    """Older compilers say it on the line itself, newer ones on the next."""
    first = said if said is not None else "".join(following[:1])
    return join_message(first, *filter(_VALUE.fullmatch, following))
