"""The formats of Maven (Surefire, Failsafe), Gradle and the Java compiler."""

import re
from collections.abc import Iterator

from headgate.checks.failures_base import Failure, join_message, own_location

_LIST = re.compile(r"\[ERROR\] (?:Failures|Errors): *")
_LISTED = re.compile(
    r"\[ERROR\]   (?:Run \d+: )?(?P<name>[\w$.]+(?:\[.*?\]|\(.*?\))?)"
    r"(?::(?P<line>\d+))?(?:->[\w$.:>-]+)?(?: (?P<message>.*))?"
)
_MAVEN_COMPILER = re.compile(r"\[ERROR\] (?P<file>/?\S.*\.\w+):\[(?P<line>\d+),\d+\] (?P<message>.+)")
_JAVAC = re.compile(r"(?P<file>\S.*\.java):(?P<line>\d+): error: (?P<message>.+)")
_GRADLE = re.compile(r"(?P<name>[\w$][^>]* > \S.*) FAILED")
_GRADLE_SAID = re.compile(r"    (?P<message>\S.*?)(?: at (?P<file>\w+\.\w+):(?P<line>\d+))?")


def parse_jvm(lines: list[str], directory: str) -> Iterator[Failure]:
    """Surefire's closing list, Gradle's `Class > test FAILED`, and compiler errors."""
    listing = False
    for number, line in enumerate(lines):
        if _LIST.fullmatch(line):
            listing = True
        elif listing and (found := _LISTED.fullmatch(line)):
            message = (found["message"] or "").removeprefix("» ")
            yield Failure(found["name"], _surefire_place(found["name"], found["line"]), join_message(message))
        elif found := _MAVEN_COMPILER.fullmatch(line) or _JAVAC.fullmatch(line):
            location = own_location([(found["file"], found["line"])], directory)
            yield Failure("build", location, join_message(found["message"]))
        elif found := _GRADLE.fullmatch(line):
            said = _GRADLE_SAID.fullmatch(lines[number + 1]) if number + 1 < len(lines) else None
            location = f"{said['file']}:{said['line']}" if said and said["file"] else ""
            yield Failure(found["name"], location, join_message(said["message"] if said else ""))
        elif not line.startswith("[ERROR]   "):
            listing = False


def _surefire_place(name: str, line: str | None) -> str:
    """Surefire gives a line number but no file; the class's name is the file's."""
    owner = name.partition("(")[0].partition("[")[0].rpartition(".")[0].rpartition(".")[2].partition("$")[0]
    return f"{owner}.java:{line}" if owner and line else ""
