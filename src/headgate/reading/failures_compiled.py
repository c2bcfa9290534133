"""The test output of Go, the JVM and Rust."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.patterns import regex
from headgate.reading.failed_tests import FailedTest, join_message, own_location

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
    places: list[tuple[str, str]] = field(default_factory=list)
    message: str = ""

    def log(self, file: str, line: str, message: str) -> None:
        self.places.append((file, line))
        self.message = self.message or message


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
            full = f"{name}.{test}" if name else test
            yield FailedTest(full, own_location(blamed.places, directory), join_message(blamed.message))
        if name and not self.failed:
            yield FailedTest(
                name, own_location(self.crash.places, directory), join_message(self.crash.message)
            )


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
            location = own_location([(found["file"], found["line"])], directory)
            yield FailedTest(f"build {building}", location, join_message(found["message"]))
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
        test.log(found["file"], found["line"], found["message"].strip())
    elif current in package.tests and (found := _ASSERTED.fullmatch(line)):
        test = package.tests[current]
        test.message = test.message or found["message"]
    elif _PANIC.fullmatch(line):
        package.crash.message = package.crash.message or line
    elif package.crash.message and (found := _FRAME.fullmatch(line)):
        package.crash.places.append((found["file"], found["line"]))


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
            message = (found["message"] or "").removeprefix("» ")
            yield FailedTest(
                found["name"], _surefire_place(found["name"], found["line"]), join_message(message)
            )
        elif found := _MAVEN_COMPILER.fullmatch(line) or _JAVAC.fullmatch(line):
            location = own_location([(found["file"], found["line"])], directory)
            yield FailedTest("build", location, join_message(found["message"]))
        elif found := _GRADLE.fullmatch(line):
            said = _GRADLE_SAID.fullmatch(lines[number + 1]) if number + 1 < len(lines) else None
            location = f"{said['file']}:{said['line']}" if said and said["file"] else ""
            yield FailedTest(found["name"], location, join_message(said["message"] if said else ""))
        elif not line.startswith("[ERROR]   "):
            listing = False


def _surefire_place(name: str, line: str | None) -> str:
    """Surefire gives a line number but no file; the class's name is the file's."""
    owner = name.partition("(")[0].partition("[")[0].rpartition(".")[0].rpartition(".")[2].partition("$")[0]
    return f"{owner}.java:{line}" if owner and line else ""


# The format of `cargo test`, and of the errors of the compiler.


_LOOK_AHEAD = 60
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
            yield _describe(found["name"], lines[number + 1 : number + _LOOK_AHEAD], directory)
        elif found := _RUST_COMPILER.fullmatch(line):
            arrow = next(
                (at for each in lines[number + 1 : number + 4] if (at := _ARROW.fullmatch(each))), None
            )
            if arrow:
                location = own_location([(arrow["file"], arrow["line"])], directory)
                yield FailedTest("build", location, join_message(found["message"]))
        listing = line == "failures:" or (listing and bool(_RUST_LISTED.fullmatch(line)))
        if listing and line != "failures:":
            yield FailedTest(line.strip())


def _describe(name: str, body: list[str], directory: str) -> FailedTest:
    places = [(at["file"], at["line"]) for at in (_DOCTEST.fullmatch(name),) if at]
    message = ""
    for number, line in enumerate(body):
        if _SECTION.fullmatch(line) or line == "failures:":
            break
        if found := _PANICKED.fullmatch(line):
            places.append((found["file"], found["line"]))
            message = _panic_message(found["message"], body[number + 1 : number + 6])
            break
        if found := _OTHER.fullmatch(line):
            message = found["note"] or found["error"]
    return FailedTest(name, own_location(places, directory), join_message(message))


def _panic_message(said: str | None, following: list[str]) -> str:
    """Older compilers say it on the line itself, newer ones on the next."""
    first = said if said is not None else next(iter(following), "")
    return join_message(first, *(line for line in following if _VALUE.fullmatch(line)))
