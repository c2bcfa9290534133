"""Test output: which tests failed, and whether the runner got to its end."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from headgate.first_use import dataclass, regex
from headgate.reading.command_lines import find_runner, split_commands
from headgate.reading.failed_tests import FailedTest, plain_lines
from headgate.reading.failures_other import (
    parse_cargo,
    parse_go,
    parse_jest,
    parse_jvm,
    parse_mocha,
    parse_node_spec,
    parse_tap,
    parse_vitest,
)
from headgate.reading.failures_python import parse_pytest, parse_unittest

MAX_FAILURES = 20
_MAX_TEXT = 200
_MAX_OUTPUT = 500_000
_MAX_LINE = 500
_MAX_PARSED = 1000

Parser = Callable[[list[str], str], Iterator[FailedTest]]
PARSERS: tuple[Parser, ...] = (
    parse_pytest,
    parse_unittest,
    parse_jest,
    parse_vitest,
    parse_mocha,
    parse_tap,
    parse_node_spec,
    parse_go,
    parse_cargo,
    parse_jvm,
)


def find_failures(output: str, directory: str = "") -> tuple[FailedTest, ...]:
    """The tests that failed, in the order in which they were reported, at most MAX_FAILURES of them.

    `directory` is where the command ran: places below it are named relative to it, and with it given, places
    outside are taken for a library's. Of a very long output the beginning and the end are read.
    """
    if len(output) > _MAX_OUTPUT:
        output = f"{output[: _MAX_OUTPUT // 3]}\n{output[-(_MAX_OUTPUT - _MAX_OUTPUT // 3) :]}"
    lines = [line[:_MAX_LINE].rstrip() for line in plain_lines(output)]
    found: list[FailedTest] = []
    for parse in PARSERS:
        found.extend(islice(parse(lines, directory), _MAX_PARSED))
    return tuple(islice(_merge(found), MAX_FAILURES))


def render_failures(failures: Sequence[FailedTest]) -> str:
    """One short line for each: `- name (file:line): message`. Empty where there are none."""
    lines = [f"- {describe(failure)}" for failure in failures]
    if len(failures) >= MAX_FAILURES:
        lines.append(f"- (at most {MAX_FAILURES} are listed)")
    return "\n".join(lines)


def describe(failure: FailedTest) -> str:
    """`name (file:line): message`, without what is not known."""
    place = f" ({failure.location})" if failure.location else ""
    return f"{failure.name}{place}" + (f": {failure.message}" if failure.message else "")


def _merge(found: Iterable[FailedTest]) -> Iterator[FailedTest]:
    """Reports of one failure become one: those of the same name and place, or of an unknown place."""
    merged: dict[str, list[FailedTest]] = {}
    for failure in found:
        failure = FailedTest(_clip(failure.name), _clip(failure.location), _clip(failure.message))
        same = merged.setdefault(failure.name, [])
        for number, known in enumerate(same):
            if not (known.location and failure.location and known.location != failure.location):
                same[number] = FailedTest(
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


# The line with which a test runner closes: without it an exit code of 0 says nothing.


_UNSURE = regex(r"\|\||<<|(?:^|[\s;&(])(?:(?:if|for|while|until|case|trap|eval|select)\s|exec\s+\d?>)")
"""A command of which it cannot be said that all its parts ran, or what they are."""
_SUBSTITUTED = regex(r"\$\([^()]*\)|`[^`]*`")
_PIPED_INTO = regex(r"\|&?\s*([\w./-]+)")
_ERRORS_REDIRECTED = regex(r"(?<!\S)2>>?(?!&)\s*\S+")
_PASSES_ON = frozenset({"tee", "cat"})
_INDIRECT = frozenset({"npm", "hatch"})
"""What they run by a name may be another command, in package.json or pyproject.toml."""
_PYTEST = regex(
    r"[=\s]*(?P<said>\d+ [a-z][a-z0-9, ]*) in \d[\d.]*s\b.*|\s{3,}(?P<sugar>\d+ (?:passed|skipped|failed).*)"
)
_PYTEST_RAN = regex(r"\d+ (passed|skipped|xfailed|xpassed|failed|errors?)\b")
_FAILED = regex(r"\d+ (failed|errors?)\b")
_PROGRESS = regex(r"(?:\S+ )?([.sxXFE]+) *\[ *(\d+)%\]")
_UNITTEST = regex(r"^Ran \d+ tests? in [\d.]+s\n\s*\n(OK|FAILED)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _RunEnds:
    """How many runs an output tells the end of, and whether one of them ended badly."""

    closed: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _Runner:
    read: Callable[[list[str]], _RunEnds]
    silent: re.Pattern[str]
    """Options with which it does not run tests, or does not close as usual."""
    on_errors: bool = False
    """It speaks on the standard error."""


def explain_doubtful_success(command: str, output: str) -> str:
    """What is wrong with an exit code of 0, as the end of a sentence; empty where nothing is known to be."""
    calls = list(_calls(_decisive(command)))
    if not calls or _UNSURE.search(command):
        return ""
    lines = [line.rstrip() for line in plain_lines(output)]
    for name in sorted(set(calls)):
        found = _RUNNERS[name].read(lines)
        if found.failed:
            return f"ended with exit code 0, but {name}'s own result says that tests failed"
        if found.closed < calls.count(name):
            return f"ended with exit code 0, but {name} printed no result: something ended the run early"
    return ""


def _decisive(text: str) -> str:
    """The part of a command that its exit code is that of."""
    return text if "set -e" in text else re.split(r"[;\n]", text.strip("; \n"))[-1]


def _calls(text: str) -> Iterator[str]:
    """The known runners that a command calls and whose words are seen, once for each call."""
    text = _SUBSTITUTED.sub("x", text)
    if any(word.rpartition("/")[2] not in _PASSES_ON for word in _PIPED_INTO.findall(text)):
        return
    without_errors = split_commands(_ERRORS_REDIRECTED.sub("", text))
    for command, plain in zip(split_commands(text), without_errors, strict=False):
        called = _runner([command.program, *command.arguments])
        if called is None:
            continue
        name, arguments = called
        runner = _RUNNERS[name]
        written = command.written if runner.on_errors else plain.written
        hidden = any(not file.isdigit() for file in written)
        if not hidden and not any(runner.silent.fullmatch(word) for word in arguments):
            yield name


def _runner(words: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The known runner that a command's words start, and its arguments; None where it cannot be told."""
    place = find_runner(words)
    if place is None:
        return None
    before = words[:place]
    is_module = before[-1:] == ["-m"]
    if any(word in _INDIRECT or word.endswith(".py") for word in before):
        return None
    if not is_module and any(word.startswith("-") for word in before):
        return None  # it may be the value of a launcher's option
    name, arguments = words[place].rpartition("/")[2], words[place + 1 :]
    if is_module or name == "unittest":  # which is never a program, but may be the name of a script
        return (name, _split_short(arguments)) if is_module and name in ("pytest", "unittest") else None
    if name in ("go", "cargo"):
        return (f"{name} test", arguments[1:]) if arguments[:1] == ["test"] else None
    if name in ("pytest", "py.test"):
        return "pytest", _split_short(arguments)
    return (name, arguments) if name in _RUNNERS else None


def _split_short(words: Sequence[str]) -> list[str]:
    """`-p no:terminal` as one word, as which it can be told from other plugins."""
    return [
        f"-p{word}" if before == "-p" else word for before, word in zip(["", *words], words, strict=False)
    ]


def _read_pytest(lines: list[str]) -> _RunEnds:
    said = [found["said"] or found["sugar"] for line in lines if (found := _PYTEST.fullmatch(line))]
    said = [text for text in said if _PYTEST_RAN.search(text)]
    if said:
        return _RunEnds(len(said), any(map(_FAILED.search, said)))
    # Very quiet runs, such as those of -qq, only show how far they came.
    progress = [found for line in lines if (found := _PROGRESS.fullmatch(line))]
    failed = any(mark in found[1] for found in progress for mark in "FE")
    return _RunEnds(sum(found[2] == "100" for found in progress), failed)


def _read_unittest(lines: list[str]) -> _RunEnds:
    ends = _UNITTEST.findall("\n".join(lines))
    return _RunEnds(len(ends), "FAILED" in ends)


def _read_jest(lines: list[str]) -> _RunEnds:
    said = [line for line in lines if line.startswith(("Tests: ", "No tests found, exiting with code 0"))]
    return _RunEnds(len(said), any(map(_FAILED.search, said)))


def _read_go(lines: list[str]) -> _RunEnds:
    ends = re.compile(r"(ok|\?) +\t.*|.*\"Action\":\"(pass|skip)\".*")
    return _RunEnds(sum(ends.fullmatch(line) is not None for line in lines))


def _read_cargo(lines: list[str]) -> _RunEnds:
    """Every test program says how many tests it runs; one that was ended does not say how that went."""
    begun = sum(re.fullmatch(r"running \d+ tests?", line) is not None for line in lines)
    ended = sum(line.startswith("test result: ok") for line in lines)
    return _RunEnds(ended if ended >= begun else 0)


_RUNNERS = {
    "pytest": _Runner(
        _read_pytest,
        regex(
            r"--co(llect-only)?|--version|-V+|--help|-h|--fixtures(-per-test)?|--markers|--setup-(only|plan)"
            r"|-pno:terminal|--cache-show.*"
        ),
    ),
    "unittest": _Runner(_read_unittest, regex(r"-h|--help"), on_errors=True),
    "jest": _Runner(
        _read_jest,
        regex(
            r"--listTests|--showConfig|--version|-v|--help|-h|--json|--reporters.*|--init|--clearCache|--watch.*"
        ),
        on_errors=True,
    ),
    "go test": _Runner(_read_go, regex(r"--?(c|n|list|h|help|exec)(=.*)?")),
    "cargo test": _Runner(
        _read_cargo, regex(r"--no-run|--list|--format.*|-Z.*|--help|-h|--message-format.*|--bench(es)?")
    ),
}


# Tests that were found and did not run to their end: a change that makes them so corrects nothing.


_CLOSING = regex(
    r"""
    [=\ ]*\d+\ [a-z][a-z0-9, ]*\ in\ \d[\d.]*s\b          # pytest
    | Ran\ \d+\ tests?\ in\  | (?:OK|FAILED)\ \(.*\)$     # unittest
    | \ *Tests:?\ +\d+\                                   # jest, vitest
    | test\ result:\                                       # cargo
    | \ *\d+\ (?:passing|failing|pending)\b                # mocha
    """,
    re.VERBOSE,
)
"""How a line begins that closes a run. Lines are matched one at a time, as commands print what they like."""
_COUNTED = regex(
    r"(?P<run>\d+) (?:passed|failed|errors?|xpassed|passing|failing)\b|Ran (?P<ran>\d+) tests?"
    r"|(?P<out>\d+) (?:skipped|xfailed|deselected|todo|ignored|pending)\b"
)
_PYTEST_CUT = regex(r"^!{3,}|\b\d+ errors?\b", re.MULTILINE)
"""What pytest says if it stopped early or could not read a file of tests."""
_OF_THESE = regex(r"(?:skipped|expected failures)=(\d+)")


@dataclass(frozen=True, slots=True)
class CountedTests:
    """What known runners say at their ends."""

    tests: int
    left_out: int
    """Of these, the ones that were skipped, or expected to fail."""
    told_all: bool = False
    """The runner came to all of them, also where some failed. Of runners that stop early, pytest says so."""


def count_tests(output: str) -> CountedTests:
    """How many tests there were, and how many were left out."""
    closing = "\n".join(filter(_CLOSING.match, plain_lines(output)))
    counted = list(_COUNTED.finditer(closing))
    if not counted:
        return _count_progress(output)
    ends = [line for line in closing.split("\n") if _PYTEST.fullmatch(line)]
    told_all = bool(ends) and "\n".join(ends) == closing and not _PYTEST_CUT.search(output)
    tests = sum(int(found["run"] or found["ran"] or found["out"]) for found in counted)
    left_out = sum(int(found["out"] or 0) for found in counted)
    return CountedTests(tests, left_out + sum(map(int, _OF_THESE.findall(closing))), told_all)


def _count_progress(output: str) -> CountedTests:
    """The same for very quiet runs of pytest, such as those of -qq, which only show how far they came."""
    progress = [found for line in plain_lines(output) if (found := _PROGRESS.match(line))]
    marks = "".join(found[1] for found in progress)
    left_out = sum(mark in "sx" for mark in marks)
    return CountedTests(len(marks), left_out, any(found[2] == "100" for found in progress))
