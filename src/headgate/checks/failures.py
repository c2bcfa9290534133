"""Which tests failed, read from what their runner printed. An unknown format yields nothing.

A parser is a function from lines to failures that recognises its own runner's marks and ignores everything
else, so all of them are tried on every output, and an output of several runners needs no special care.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from headgate.checks.failures_base import Failure, plain_lines
from headgate.checks.failures_go import parse_go
from headgate.checks.failures_jvm import parse_jvm
from headgate.checks.failures_node import parse_jest, parse_mocha, parse_node_spec, parse_tap, parse_vitest
from headgate.checks.failures_python import parse_pytest, parse_unittest
from headgate.checks.failures_rust import parse_cargo

MAX_FAILURES = 20
_MAX_TEXT = 200
_MAX_OUTPUT = 500_000
_MAX_LINE = 500
_MAX_PARSED = 1000

Parser = Callable[[list[str], str], Iterator[Failure]]
PARSERS: dict[str, Parser] = {
    "pytest": parse_pytest,
    "unittest": parse_unittest,
    "jest": parse_jest,
    "vitest": parse_vitest,
    "mocha": parse_mocha,
    "tap": parse_tap,
    "node": parse_node_spec,
    "go": parse_go,
    "cargo": parse_cargo,
    "jvm": parse_jvm,
}


def find_failures(output: str, directory: str = "") -> tuple[Failure, ...]:
    """The tests that failed, in the order in which they were reported, at most MAX_FAILURES of them.

    `directory` is where the command ran: places below it are named relative to it, and with it given, places
    outside are taken for a library's. Of a very long output the beginning and the end are read.
    """
    if len(output) > _MAX_OUTPUT:
        output = f"{output[: _MAX_OUTPUT // 3]}\n{output[-(_MAX_OUTPUT - _MAX_OUTPUT // 3) :]}"
    lines = [line[:_MAX_LINE].rstrip() for line in plain_lines(output)]
    found: list[Failure] = []
    for parse in PARSERS.values():
        found.extend(islice(parse(lines, directory), _MAX_PARSED))
    return tuple(islice(_merge(found), MAX_FAILURES))


def render_failures(failures: Sequence[Failure]) -> str:
    """One short line for each: `- name (file:line): message`. Empty where there are none."""
    lines = [f"- {describe(failure)}" for failure in failures]
    if len(failures) >= MAX_FAILURES:
        lines.append(f"- (at most {MAX_FAILURES} are listed)")
    return "\n".join(lines)


def describe(failure: Failure) -> str:
    """`name (file:line): message`, without what is not known."""
    place = f" ({failure.location})" if failure.location else ""
    return f"{failure.name}{place}" + (f": {failure.message}" if failure.message else "")


def _merge(found: Iterable[Failure]) -> Iterator[Failure]:
    """Reports of one failure become one: those of the same name and place, or of an unknown place."""
    merged: dict[str, list[Failure]] = {}
    for failure in found:
        failure = Failure(_clip(failure.name), _clip(failure.location), _clip(failure.message))
        same = merged.setdefault(failure.name, [])
        for number, known in enumerate(same):
            if not (known.location and failure.location and known.location != failure.location):
                same[number] = Failure(
                    known.name, known.location or failure.location, known.message or failure.message
                )
                break
        else:
            same.append(failure)
    for group in merged.values():
        yield from group


def _clip(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
