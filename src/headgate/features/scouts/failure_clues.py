"""What a failed verification says besides its output: where the failure may come from, and what is flaky.

A run that took little time is repeated once, in a copy of the tree. That shows which tests fail again and,
for Python, which lines the failing tests run.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from headgate.checks import CoverageByTest, Suspect, Verification, likely_lines, rank_functions, score_lines
from headgate.config import ScoutSettings
from headgate.core import (
    Broken,
    Pass,
    VerifyRuns,
    clean_text,
    path_words,
    show_path,
)
from headgate.errors import ToolError
from headgate.features.scouts.build_facts import FailureClues
from headgate.features.scouts.clues import trace_places
from headgate.first_use import dataclass, regex
from headgate.reading import FailedTest, is_test
from headgate.run import Job, Observer, StepsRun, Trials
from headgate.tree import CopyImpossible

CHEAP_SECONDS = 10.0
"""The steps are run once more if they took no longer."""
AGAIN_SECONDS = 30.0
"""Measuring lines slows tests down; the second run ends after this time, whatever it has shown by then."""
MOST_PLACES = 5
MOST_FLAKY = 5
_MOST_FILES = 40
_NAME = regex(r"[^\W\d]\w+")


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run of the verification steps that failed."""

    tree: str
    """The git tree as the run left it."""
    failures: tuple[FailedTest, ...]
    output: str
    seconds: float = 0.0
    new: tuple[str, ...] = ()
    """The tests that did not fail before, by name: what failed twice is not flaky."""


@dataclass(frozen=True, slots=True)
class SecondRun:
    """What came of running the same tree once more."""

    failing: frozenset[str] | None = None
    """The tests that failed; None if nothing is known about them."""
    suspects: tuple[Suspect, ...] = ()


async def find_clues(
    job: Job, failed: FailedRun, *, runs: bool = True, seconds: float = AGAIN_SECONDS
) -> FailureClues:
    """What is known about a failure. Without `runs`, nothing is run to find more out."""
    named = await asyncio.to_thread(_own_places, job, failed)
    again = job.memory.of(_SecondRuns).get(failed.tree) or SecondRun()
    if runs and failed.tree not in job.memory.of(_SecondRuns):
        again = await _run_again(job, failed, seconds)
    lines = likely_lines(again.suspects, named)[: MOST_PLACES - len(named)]
    return FailureClues(
        places=tuple(f"{show_path(path)}:{line}" for path, line in named),
        suspects=tuple(
            f"{show_path(suspect.path)}:{suspect.line} in {suspect.function}" for suspect in lines
        ),
        flaky=_flaky(failed, again)[:MOST_FLAKY],
    )


def new_failures(job: Job, failures: Iterable[FailedTest], red_before: Collection[str]) -> tuple[str, ...]:
    """The tests that failed neither before the task nor in the run before this one."""
    last = job.state[VerifyRuns].failures[-1].failing if job.state[VerifyRuns].failures else ()
    return tuple(
        failure.name
        for failure in failures
        if failure.name not in red_before and not _is_among(job.place.redact(failure.name), last)
    )


def _is_among(name: str, described: Sequence[str]) -> bool:
    """Whether a test is one of those that a list describes."""
    return any(text == name or text.startswith((f"{name} (", f"{name}: ")) for text in described)


# The places that the output names.


def _own_places(job: Job, failed: FailedRun) -> list[tuple[str, int]]:
    """Where in the project's own code a trace went, the innermost place first.

    Tests are left out: their names are told anyway.
    """
    root = Path(job.place.context.workspace.root).resolve()
    base = job.place.verifier.directory.resolve() if job.place.verifier else root
    own: dict[tuple[str, int], None] = {}
    for path, line in reversed(trace_places(failed.failures, failed.output)):
        if len(own) == MOST_PLACES:
            break
        full = PurePosixPath(path) if path.startswith("/") else PurePosixPath(base, path)
        name = str(full.relative_to(root)) if full.is_relative_to(root) else ""
        if name and not is_test(name) and _source(job, name) is not None:
            own[name, line] = None
    return list(own)


def _source(job: Job, path: str) -> str | None:
    """The text of a file; None where it cannot be shown."""
    try:
        file = job.place.context.workspace.read(path)
    except ToolError:
        return None
    return None if file.is_binary else file.text


# The second run.


class _SecondRuns(dict[str, SecondRun]):
    """What is known of trees that were run twice: no tree is run a third time for this."""


async def _run_again(job: Job, failed: FailedRun, seconds: float) -> SecondRun:
    """Runs the steps once more, if that is cheap and may show something. What cannot be run shows nothing."""
    measured = any(map(_is_python, failed.failures))
    if job.place.proposing or failed.seconds > CHEAP_SECONDS or not (measured or failed.new):
        return SecondRun()
    try:
        job.people.pulse("again")
        async with asyncio.timeout(seconds):
            found, coverage = await _run(job, measured=measured)
    except (CopyImpossible, OSError):  # and a timeout: it is an OSError
        again = SecondRun()
    else:
        suspects = await asyncio.to_thread(_suspects, job, found.failures, coverage)
        again = SecondRun(_failing(found), suspects)
    job.memory.of(_SecondRuns)[failed.tree] = again
    return again


def _is_python(failure: FailedTest) -> bool:
    """Whether it is a test of pytest or unittest, not a file that could not even be imported."""
    file, is_case, _ = failure.name.partition("::")
    place = file if is_case else failure.location.rpartition(":")[0]
    return place.endswith(".py") and not failure.name.endswith(".py")


async def _run(job: Job, *, measured: bool) -> tuple[Verification, CoverageByTest]:
    if measured:
        return await Trials(job, least=AGAIN_SECONDS, quiet=True).measure()
    return await Trials(job, quiet=True).verify([]), CoverageByTest({})


def _failing(found: Verification) -> frozenset[str] | None:
    names = frozenset(failure.name for failure in found.failures)
    is_known = isinstance(found.verdict, Pass) or (names and not isinstance(found.verdict, Broken))
    return names if is_known else None


def _flaky(failed: FailedRun, again: SecondRun) -> tuple[str, ...]:
    """The tests that failed for the first time and passed in the second run.

    Nothing if that one failed otherwise: a test may then not have run at all.
    """
    first = {failure.name for failure in failed.failures}
    if again.failing is None or not again.failing <= first:
        return ()
    return tuple(name for name in failed.new if name not in again.failing)


def _suspects(job: Job, failures: Iterable[FailedTest], coverage: CoverageByTest) -> tuple[Suspect, ...]:
    """The functions that failing tests run, the most suspect first."""
    failing, passing = coverage.split([failure.name for failure in failures])
    scores = score_lines(failing, passing)
    words = (*path_words(job.request), *_NAME.findall(job.request))
    return rank_functions(_sources(job, scores), scores, named=frozenset(words))


def _sources(job: Job, scores: Mapping[tuple[str, int], float]) -> dict[str, str]:
    """The files with the most suspect lines: the project's own, and no tests."""
    paths = dict.fromkeys(path for path, _ in sorted(scores, key=lambda place: -scores[place]))
    own = [path for path in paths if not is_test(path) and clean_text(path) == path]
    own = [path for path in own if not job.ignored.file(path)][:_MOST_FILES]
    sources = {path: _source(job, path) for path in own}
    return {path: text for path, text in sources.items() if text is not None}


class CluesOfFailure(Observer):
    """The model is told with a failure what it may come from."""

    async def look_into_failure(self, run: StepsRun) -> None:
        if run.job.pinned.of(ScoutSettings).build == "off":
            return
        found = run.found
        took = sum(step.seconds for step in found.steps)
        new = new_failures(run.job, found.failures, run.red.same)
        failed = FailedRun(run.tree_after, found.failures, found.tail, took, new)
        run.clues += (await find_clues(run.job, failed)).render()
