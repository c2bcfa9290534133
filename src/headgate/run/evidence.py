"""What the check that a flow began with tells about the bug: the failing test, what it said, the suspects."""

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from headgate.checks.failures import find_failures
from headgate.checks.failures_base import Failure, plain_lines
from headgate.checks.spectrum import measure
from headgate.core.messages import clean_text
from headgate.core.pysource import excerpt, find_functions
from headgate.core.suspicion import Suspect, rank_functions, score_lines
from headgate.core.testfiles import is_code, is_test
from headgate.core.words import path_words
from headgate.errors import HeadgateError, ToolError
from headgate.host.ignored import IgnoredPaths
from headgate.run.job import Job
from headgate.run.trials import Trials

MOST_SECONDS = 120.0
"""Measuring which lines run takes no longer, and is not tried where the check alone takes that long."""
SAID_LINES = 14
TEST_LINES = 40
_PLACE = re.compile(r'(?:File "|^|[\s(])([\w./-]+\.\w+)(?:", line |:)(\d{1,7})', re.MULTILINE)
_SAID = re.compile(r"^(?:E  |>  )")
_MOST_FILES = 40


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known before the first question."""

    test: str
    """The source of the first test that fails, where it was found."""
    said: str
    """What the runner said about it, in a few lines."""
    failing: tuple[str, ...]
    """The names of all tests that fail, where the runner's format is known."""
    suspects: tuple[Suspect, ...]
    """The most suspect place first; whole files where functions are not known."""


_EVIDENCE = TypeAdapter(Evidence)


def write_evidence(evidence: Evidence) -> str:
    """For the log: questions after a crash are those from before it."""
    return _EVIDENCE.dump_json(evidence).decode()


def read_evidence(text: str) -> Evidence:
    """The inverse."""
    return _EVIDENCE.validate_json(text)


async def gather(job: Job) -> Evidence:
    """Reads the log of the opening run, and runs the tests once more to see which lines they run."""
    opening = job.state.opening
    assert opening is not None
    assert job.verifier is not None
    log = job.verifier.runs / opening.run_id / "combined.log"
    output = await asyncio.to_thread(lambda: log.read_text("utf-8", "replace"))
    failures = find_failures(output, str(job.verifier.directory))
    trace = await asyncio.to_thread(_trace, job, output)
    took = sum(step.seconds for step in opening.steps)
    scores = await _scores(job, failures) if failures and took < MOST_SECONDS else {}
    ran = dict.fromkeys(path for path, _ in scores)
    paths = [
        path for path in (*ran, *(path for path, _ in reversed(trace)), *_named(job)) if not is_test(path)
    ]
    sources = {path: job.context.workspace.read(path).text for path in dict.fromkeys(paths) if is_code(path)}
    suspects = rank_functions(
        {path: text for path, text in sources.items() if path.endswith(".py")}, scores, trace
    )
    whole = tuple(Suspect(path, last=text.count("\n") + 1) for path, text in sources.items())
    test = _test_source(job, failures, trace)
    names = tuple(failure.name for failure in failures)
    return Evidence(test, _said(output, failures), names, (*suspects, *whole[:_MOST_FILES]))


async def _scores(job: Job, failures: Sequence[Failure]) -> dict[tuple[str, int], float]:
    """How suspect each line is; nothing where that cannot be measured."""
    try:
        async with Trials(job).verifier() as (tree, verifier):
            spectrum = await measure(
                verifier.steps, tree, verifier.directory, verifier.environment, MOST_SECONDS
            )
    except (OSError, HeadgateError):
        return {}  # the trace, and the question, are still there
    failed, passed = spectrum.split([failure.name for failure in failures])
    scores = score_lines(failed, passed) if failed else {}
    return {key: score for key, score in scores.items() if not is_test(key[0]) and _readable(job, key[0])}


def _trace(job: Job, output: str) -> list[tuple[str, int]]:
    """Every `file:line` of the project's own that the output names, in order, by its path in the tree."""
    ignored = IgnoredPaths(job.context.workspace.root)
    places = [(_own_path(job, path), int(line)) for path, line in _PLACE.findall(output)[:500]]
    return [(path, line) for path, line in places if path and not ignored.file(path)]


def _own_path(job: Job, named: str) -> str:
    """A file as the tree has it, named from where the check runs, or wholly; nothing if it is not there."""
    assert job.verifier is not None
    root = os.path.realpath(job.context.workspace.root)
    path = os.path.relpath(Path(os.path.realpath(job.verifier.directory)) / named, root)
    return path if not path.startswith("..") and _readable(job, path) else ""


def _readable(job: Job, path: str) -> bool:
    """Whether a file of this name is there, and both can be shown."""
    try:
        return clean_text(path) == path and not job.context.workspace.read(path).is_binary
    except ToolError:
        return False


def _named(job: Job) -> Iterable[str]:
    """The files that the task's own words name."""
    workspace = job.context.workspace
    ignored = IgnoredPaths(workspace.root)
    paths = [workspace.read(word).path for word in path_words(job.task.goal) if _readable(job, word)]
    return [path for path in paths if not ignored.file(path)]


def _said(output: str, failures: Sequence[Failure]) -> str:
    """What the first failure says: the runner's marked lines, else its message, else the output's end."""
    lines = plain_lines(output)
    first = failures[0] if failures else None
    start = 0
    if first is not None:
        title = first.name.rpartition("::")[2].split("[", maxsplit=1)[0]
        start = next((at for at, line in enumerate(lines) if line.startswith("_") and title in line), 0)
    marked: list[str] = []
    for line in lines[start:]:
        if marked and line.startswith("____"):
            break
        if _SAID.match(line):
            marked.append(line[1:].strip())
    if marked:
        return "\n".join(marked[:SAID_LINES])
    if first is not None and first.message:
        return first.message
    return "\n".join([line for line in lines if line.strip()][-SAID_LINES:])


def _test_source(job: Job, failures: Sequence[Failure], trace: Sequence[tuple[str, int]]) -> str:
    """The source of the first failing test, by its name, in the file that the name or the trace gives."""
    if not failures:
        return ""
    file, _, rest = failures[0].name.partition("::")
    name = (rest or failures[0].name).replace("::", ".").split("[", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    for path in dict.fromkeys([_own_path(job, file), *(path for path, _ in trace)]):
        if not path.endswith(".py"):
            continue
        source = job.context.workspace.read(path).text
        for function in find_functions(source):
            if name.endswith(function.name) and function.last - function.first < TEST_LINES:
                return excerpt(source, function.first, function.last)
    return ""
