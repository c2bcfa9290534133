"""What a failed verification says besides its output: where the failure may come from, and what is flaky."""

from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from headgate.checks import Verification
from headgate.core import Broken, Fail, Pass, show_path
from headgate.errors import ToolError
from headgate.reading import FailedTest, is_test
from headgate.run.job import Job
from headgate.run.trials import Trials
from headgate.scouts import trace_places
from headgate.workspace import CopyImpossible

CHEAP_SECONDS = 10.0
"""Failing tests are run once more, to see whether they are flaky, if the run took no longer."""
MOST_PLACES = 5


def failure_places(job: Job, failures: Sequence[FailedTest], output: str) -> tuple[str, ...]:
    """Where in the project's own code a failure may come from: `file:line`, the innermost first.

    Tests are left out: their names are told anyway.
    """
    root = Path(job.context.workspace.root).resolve()
    base = job.verifier.directory.resolve() if job.verifier else root
    own: dict[str, None] = {}
    for path, line in reversed(trace_places(failures, output)):
        if len(own) == MOST_PLACES:
            break
        full = PurePosixPath(path) if path.startswith("/") else PurePosixPath(base, path)
        name = str(full.relative_to(root)) if full.is_relative_to(root) else ""
        if name and not is_test(name) and _is_shown(job, name):
            own[f"{show_path(name)}:{line}"] = None
    return tuple(own)


def _is_shown(job: Job, path: str) -> bool:
    try:
        return not job.context.workspace.read(path).is_binary
    except ToolError:
        return False


async def find_flaky(job: Job, found: Verification, red_before: Collection[str]) -> tuple[str, ...]:
    """The tests that failed, and pass when they are run again in a copy of the tree.

    Nothing if the run was slow. What failed in an earlier run, too, is not flaky.
    """
    took = sum(step.seconds for step in found.steps)
    if not isinstance(found.verdict, Fail) or took > CHEAP_SECONDS:
        return ()
    last = job.state.failures[-1].failing if job.state.failures else ()
    new = [
        failure.name
        for failure in found.failures
        if failure.name not in red_before and not _is_among(job.redact(failure.name), last)
    ]
    if not new:
        return ()
    try:
        again = await Trials(job).verify([])
    except (CopyImpossible, OSError):  # nothing is said about it
        return ()
    if isinstance(again.verdict, Broken):
        return ()
    still = {failure.name for failure in again.failures}
    if not isinstance(again.verdict, Pass) and not still:
        return ()
    return tuple(name for name in new if name not in still)


def _is_among(name: str, described: Sequence[str]) -> bool:
    """Whether a test is one of those that a list describes."""
    return any(text == name or text.startswith((f"{name} (", f"{name}: ")) for text in described)
