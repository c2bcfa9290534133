"""What verification runs showed: which of them ended, and what failed before the task as well."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from headgate.core import events as ev

MOST_LINES = 200
MOST_NAMED = 3
_VARYING = re.compile(
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


@dataclass
class RunRecord:
    """A fold over what the log says about verification runs."""

    started: str = ""
    """The latest run that was started."""
    ended: set[str] = field(default_factory=set)
    """The runs that came to an end; the others were cut short, and have no whole log."""
    at_start: list[ev.BaselineVerified] = field(default_factory=list)
    """What steps came to on the tree that the task began with."""
    red: dict[str, None] = field(default_factory=dict)
    """What failed in verification and had failed then as well."""
    forgiven: tuple[str, ...] = ()
    """The steps that failed, as then, in the latest verification, and were accepted."""
    still_red: frozenset[str] = frozenset()
    """What failed in it as it did then."""

    def apply(self, body: ev.AnyBody) -> None:
        match body:
            case ev.VerifyStarted():
                self.started = body.run_id
            case ev.CheckFinished(check="verify", verdict="broken"):
                self.ended.add(self.started)
            case ev.BaselineVerified():
                self.at_start.append(body)
            case ev.VerifyFinished():
                self.ended.add(body.run_id)
                self.red.update(dict.fromkeys(body.red_before))
                if not body.asked:
                    self.forgiven, self.still_red = body.forgiven, frozenset(body.red_before)
            case ev.ApplyStarted():
                self.at_start.clear()  # the task now begins with another tree

    def ended_of(self, run_ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the runs whose logs are whole."""
        return tuple(run_id for run_id in run_ids if run_id in self.ended)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was accepted although it failed, a sentence each."""
        return tuple(f'step "{step}" failed, as it did before this task' for step in self.forgiven)

    def of(self, step: str) -> ev.BaselineVerified | None:
        """The run that was to show what this step came to; None if there was none yet."""
        return next((run for run in self.at_start if step in run.steps), None)

    def was_red(self) -> bool:
        """Whether a step failed then that passes now, or a test in a step that is forgiven."""
        return any(
            run.failed and (run.failed not in self.forgiven or set(run.failing) - self.still_red)
            for run in self.at_start
        )

    def was_green(self, steps: Iterable[str]) -> bool:
        """Whether all of these steps passed then."""
        passed = [set(run.steps) for run in self.at_start if not run.failed and not run.problem]
        return any(set(steps) <= names for names in passed)


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
    step: ev.StepResult,
    names: Sequence[str],
    marks: Sequence[str],
    complete: bool,
    start: ev.BaselineVerified,
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
