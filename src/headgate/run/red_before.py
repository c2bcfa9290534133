"""What verification steps came to before the task began: whether a failure is the task's own."""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from headgate.core import BaselineVerified, StepResult
from headgate.first_use import dataclass, regex

MOST_LINES = 200
MOST_NAMED = 3
_VARYING = regex(
    r"0x[0-9a-fA-F]+"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?Z?)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\b\d+(?:[.,]\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?|min|minutes?)\b"
    r"|^\d+(?=:)|(?<=:)\d+(?::\d+)?|\(\d+(?:,\s?\d+)?\)|\b(?:line|lines|col|column|pid)\s\d+"
    r"|^\s*\d+(?=\s*[|│])"
)
"""What differs between two runs of one command, or where lines have moved: places, times, durations."""


def line_marks(output: str, directory: str) -> tuple[str, ...]:
    """Each line that says something, as a short hash without what varies; the last ones if they are many."""
    lines = [line.replace(directory, "").strip() for line in output.split("\n")]
    plain = [_VARYING.sub("#", line) for line in lines if line]
    return tuple(
        sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:8] for line in plain[-MOST_LINES:]
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A failed step beside the same step on the tree that the task began with."""

    same: tuple[str, ...] = ()
    """What failed then in the same way: tests, or the step itself where tests cannot be told."""
    nothing_new: bool = False
    """Nothing fails now that did not fail then."""
    clause: str = ""
    """The same as the end of a sentence about the failure; empty where nothing failed before."""


def compare(
    step: StepResult,
    names: Sequence[str],
    marks: Sequence[str],
    complete: bool,
    start: BaselineVerified,
) -> Comparison:
    """Holds a failure against the start's. `complete`: `names` are all the tests that failed."""
    if start.failed != step.name:
        return Comparison()
    same = tuple(name for name in dict.fromkeys(names) if name in set(start.failing))
    if names and len(same) < len(set(names)):
        listed = ", ".join(same[:MOST_NAMED]) + (", ..." if len(same) > MOST_NAMED else "")
        failed = "failed before this task as well"
        return Comparison(same, clause=f"; of these tests, {listed} {failed}" if same else "")
    if names and complete:
        return Comparison(same, True, "; the same tests failed before this task as well")
    if step.exit_code != start.exit_code or Counter(marks) - Counter(start.lines):
        return Comparison()
    return Comparison(same or (step.name,), True, "; it failed before this task as well, in the same way")
