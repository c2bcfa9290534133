"""The format of `cargo test`, and of the errors of the compiler."""

import re
from collections.abc import Iterator

from headgate.checks.failures_base import Failure, join_message, own_location

_LOOK_AHEAD = 60
_FAILED = re.compile(r"test (?P<name>\S.*?)(?: - should panic(?: with .*)?)? \.\.\. FAILED")
_SECTION = re.compile(r"---- (?P<name>\S.*) (?:stdout|stderr) ----")
_LISTED = re.compile(r"    (?P<name>\S.*)")
_PANICKED = re.compile(
    r"thread '.*' (?:\(\d+\) )?panicked at "
    r"(?:'(?P<message>.*)', )?(?P<file>[^\s:']+\.rs):(?P<line>\d+):\d+:?"
)
_VALUE = re.compile(r" *(?:left|right): .*")
_OTHER = re.compile(r"(?:note: (?P<note>test did not panic as expected.*)|(?P<error>Error: .+))")
_DOCTEST = re.compile(r"(?P<file>\S+\.(?:rs|md)) - .*\(line (?P<line>\d+)\)")
_COMPILER = re.compile(r"(?P<message>error(?:\[E\d+\])?: .+)")
_ARROW = re.compile(r" *--> (?P<file>\S.*\.rs):(?P<line>\d+):\d+")


def parse_cargo(lines: list[str], directory: str) -> Iterator[Failure]:
    """Failed tests with what they said, and compiler errors that name a place."""
    listing = False
    for number, line in enumerate(lines):
        if found := _FAILED.fullmatch(line):
            yield Failure(found["name"])
        elif found := _SECTION.fullmatch(line):
            yield _describe(found["name"], lines[number + 1 : number + _LOOK_AHEAD], directory)
        elif found := _COMPILER.fullmatch(line):
            arrow = next(
                (at for each in lines[number + 1 : number + 4] if (at := _ARROW.fullmatch(each))), None
            )
            if arrow:
                location = own_location([(arrow["file"], arrow["line"])], directory)
                yield Failure("build", location, join_message(found["message"]))
        listing = line == "failures:" or (listing and bool(_LISTED.fullmatch(line)))
        if listing and line != "failures:":
            yield Failure(line.strip())


def _describe(name: str, body: list[str], directory: str) -> Failure:
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
    return Failure(name, own_location(places, directory), join_message(message))


def _panic_message(said: str | None, following: list[str]) -> str:
    """Older compilers say it on the line itself, newer ones on the next."""
    first = said if said is not None else next(iter(following), "")
    return join_message(first, *(line for line in following if _VALUE.fullmatch(line)))
