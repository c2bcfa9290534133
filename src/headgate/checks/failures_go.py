"""The format of `go test`, `go vet` and `go build`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.checks.failures_base import Failure, join_message, own_location

_FAILED = re.compile(r" *--- FAIL: (?P<name>\S+) \([\d.]+s\)")
_RUNNING = re.compile(r"=== (?:RUN|CONT|NAME) +(?P<name>\S+)")
_LOGGED = re.compile(r"\s+(?P<file>[^\s:]+\.go):(?P<line>\d+): ?(?P<message>.*)")
_ASSERTED = re.compile(r"\s+Error:\s+(?P<message>\S.*)")
_PANIC = re.compile(r"(?:panic|fatal error): .+")
_FRAME = re.compile(r"\t(?P<file>\S+\.go):(?P<line>\d+)(?: \+0x[0-9a-f]+)?")
_PACKAGE = re.compile(r"(?P<verdict>FAIL|ok  )\t(?P<package>\S+)(?P<rest>.*)")
_BUILDING = re.compile(r"# (?P<package>\S+)(?: \[\S+\])?")
_COMPILER = re.compile(r"(?:vet: )?(?P<file>[^\s:]+\.go):(?P<line>\d+)(?::\d+)?: (?P<message>.+)")


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

    def finish(self, name: str, directory: str) -> Iterator[Failure]:
        """The tests that failed; one that only contains failed ones is left out."""
        containers = {test.rpartition("/")[0] for test in self.failed}
        for test in dict.fromkeys(self.failed):
            known = self.tests.get(test, _Test())
            if test in containers and not known.message:
                continue
            blamed = known if known.message or test != self.failed[-1] else self.crash
            full = f"{name}.{test}" if name else test
            yield Failure(full, own_location(blamed.places, directory), join_message(blamed.message))
        if name and not self.failed:
            yield Failure(name, own_location(self.crash.places, directory), join_message(self.crash.message))


def parse_go(lines: list[str], directory: str) -> Iterator[Failure]:
    """Failed tests by package, and what the compiler said about packages that do not build."""
    package, current, building, built_badly = _Package(), "", "", False
    for line in lines:
        if found := _FAILED.fullmatch(line):
            current = found["name"]
            package.failed.append(current)
        elif found := _RUNNING.fullmatch(line):
            current = found["name"]
        elif found := _BUILDING.fullmatch(line):
            building, built_badly = found["package"], False
        elif building and (found := _COMPILER.fullmatch(line)):
            built_badly = True
            location = own_location([(found["file"], found["line"])], directory)
            yield Failure(f"build {building}", location, join_message(found["message"]))
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
