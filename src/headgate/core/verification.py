"""Verification: the runs of the project's own checks, and what was made of those that failed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from headgate.core.counts import Fail, Pass, WorkSinceFailure
from headgate.core.event import Body, Line, Moment, Slice, follows
from headgate.core.failures import Failure, FailureReport
from headgate.core.settings import Data
from headgate.core.state import State
from headgate.core.task_events import Mishaps
from headgate.core.text import shorten
from headgate.core.turn_events import Calls, ToolFinished
from headgate.first_use import dataclass, regex

MOST_LEFT = 5
_CACHE = regex(r"(^|/)(__pycache__|\.\w+_cache|\.coverage|\.hypothesis|node_modules|target|build|dist)(/|$)")
"""What programs leave when they run, and nobody wants to hear of."""


class StepResult(Data):
    """One verification step."""

    name: str
    passed: bool
    exit_code: int | None
    timed_out: bool
    seconds: float
    tests: int = 0
    """How many there were, by what known runners say at their ends."""
    left_out: int = 0
    """Of these, the ones that were skipped, or expected to fail."""
    told_all: bool = False
    """The runner came to all its tests, also where some of them failed."""


@dataclass
class VerifyRuns(Slice, order=30):
    """What verification runs showed."""

    run_ids: list[str] = field(default_factory=list)
    """Every run that was started, those that the model asked for included."""
    ended: set[str] = field(default_factory=set)
    """The runs that came to an end; the others were cut short, and have no whole log."""
    count: int = 0
    """Times the work was handed to verification."""
    is_running: bool = False
    """A verification was started and has not ended; one that the model asked for does not count."""
    announced: str = ""
    """What people were told of the latest run's failure before it ended."""
    passing_run: str = ""
    """The run that verified the tree as it is, if there is one."""
    asked_pass: str = ""
    """The run that passed when the model asked for it, if nothing was changed since."""
    last_steps: tuple[StepResult, ...] = ()
    """What the latest verification ran."""
    left_behind: dict[str, None] = field(default_factory=dict)
    """New files that runs made."""
    failures: list[Failure] = field(default_factory=list)
    """Every failed verification, in order."""
    failed_in_a_row: int = 0
    """Verifications that failed since one passed, or since the plan was last rewritten."""
    idle_rounds: int = 0
    """Rounds in a row, each from one failed verification to the next, that changed nothing."""
    work: WorkSinceFailure = field(default_factory=WorkSinceFailure)
    """What was done since the last failed verification."""
    passed_tree: str = ""
    """The tree that the latest verification approved of, if nothing was written or run since."""
    at_start: list["BaselineVerified"] = field(default_factory=list)
    """What steps came to on the tree that the task began with."""
    first: dict[str, StepResult] = field(default_factory=dict)
    """What each step came to when it ran for the first time in the task."""
    red: dict[str, None] = field(default_factory=dict)
    """What failed in verification and had failed at the start as well."""
    forgiven: tuple[str, ...] = ()
    """The steps that failed, as then, in the latest verification, and were accepted."""
    still_red: frozenset[str] = frozenset()
    """What failed in it as it did then."""

    def begin(self, body: "VerifyStarted") -> None:
        """A run was started."""
        self.run_ids.append(body.run_id)
        self.announced = self.passing_run = ""
        if not body.asked:
            self.count += not self.is_running
            self.is_running = True

    def end(self, body: "VerifyFinished") -> None:
        """A run ended."""
        self.ended.add(body.run_id)
        self.first = {step.name: step for step in body.steps} | self.first
        self.red.update(dict.fromkeys(body.red_before))
        self.left_behind.update(dict.fromkeys(body.left_behind))
        if not body.asked:
            self.forgiven, self.still_red = body.forgiven, frozenset(body.red_before)
            self.passed_tree = body.tree_after if body.passed and not body.rewritten else ""
            self.failed_in_a_row = 0 if body.passed else self.failed_in_a_row + 1
        if body.rewritten:
            return  # it is run again
        if body.asked:
            last = self.failures[-1] if self.failures else None
            if last and body.own in (last.own, last.own_after):
                last.tree_after, last.own_after = body.tree_after, body.own_after
            self.asked_pass = body.run_id if body.passed else ""
            return
        self.is_running, self.last_steps = False, body.steps
        self.passing_run = body.run_id if body.passed else ""
        if not body.passed:
            idle = self.work.is_idle(self.failures, body.own, body.reason, body.failing)
            self.idle_rounds = self.idle_rounds + 1 if idle else 0
            self.work = WorkSinceFailure()
            self.failures.append(Failure.of(body))

    def break_off(self) -> None:
        """The steps could not be run."""
        self.ended.add(self.run_ids[-1] if self.run_ids else "")

    @property
    def loops(self) -> int:
        """Failed verifications of the task."""
        return len(self.failures)

    @property
    def last_failure(self) -> str:
        return self.failures[-1].sentence if self.failures else ""

    def failure(self, number: int) -> Failure | None:
        """A failed verification by its number, from 1."""
        return self.failures[number - 1] if 0 < number <= len(self.failures) else None

    @property
    def whole_runs(self) -> tuple[str, ...]:
        """The runs whose logs are whole."""
        return tuple(run_id for run_id in self.run_ids if run_id in self.ended)

    def report(self, state: State) -> Mapping[str, Any]:
        announced = [entered.stage for entered in state.nodes.values() if entered.is_announced]
        return {
            "attempts": self.count or state.tree.attempts_at(announced[-1] if announced else ""),
            "verify_loops": self.loops,
            "red_before": tuple(self.red),
            "failures": tuple(map(FailureReport.of, self.failures)),
            "run_ids": self.whole_runs,
            "left_behind": tuple(self.left_behind),
        }

    def warnings(self, state: State) -> Iterable[str]:
        return (f'step "{step}" failed, as it did before this task' for step in self.forgiven)

    def left_over(self, state: State) -> Iterable[str]:
        if left := self.worth_naming:
            more = f" and {len(left) - MOST_LEFT} more" if len(left) > MOST_LEFT else ""
            yield f"Left by verification, and not in the diff: {', '.join(left[:MOST_LEFT])}{more}."

    @property
    def worth_naming(self) -> list[str]:
        """The new files that runs made, without caches."""
        return [path for path in self.left_behind if not _CACHE.search(path)]

    def of(self, step: str) -> "BaselineVerified | None":
        """The run that was to show what this step came to at the start; None if there was none yet."""
        known = (run for run in self.at_start if step in run.steps and run.failed in ("", step))
        return next(known, None)

    def counted_at_start(self, step: str) -> StepResult | None:
        """How many tests a step had then; None if that is not known."""
        results = (result for run in self.at_start for result in run.results)
        return next((result for result in results if result.name == step), None)

    def was_red(self) -> bool:
        """Whether a step failed then that passes now, or a test in a step that is forgiven."""
        return any(
            run.failed and (run.failed not in self.forgiven or set(run.failing) - self.still_red)
            for run in self.at_start
        )

    def was_green(self, steps: Iterable[str]) -> bool:
        """Whether all of these steps passed then."""
        passed = {name for run in self.at_start if not run.failed and not run.problem for name in run.steps}
        return passed.issuperset(steps)


FAILING_SHOWN = 240
"""What is shown of a failing test's line."""


def say_failed(failing: Sequence[str], reason: str, clause: str = "") -> str:
    """A failed verification in one sentence for people: the first failing test with its error, how many more
    there are, and the clause; or the reason, which includes the clause, where no test is known."""
    if not failing:
        return reason
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    return f"{shorten(' '.join(failing[0].split()), FAILING_SHOWN)}{more}{clause}"


class VerifyStarted(Body):
    """The project's own checks were started by the runtime."""

    kind: ClassVar[str] = "verify_started"
    run_id: str
    steps: tuple[str, ...]
    asked: bool = False
    """Not the flow's last word: a run that is recorded and decides nothing."""
    opening: bool = False
    """The flow begins with it; otherwise it is the model that asked."""

    def apply(self, state: State, now: Moment) -> None:
        state[VerifyRuns].begin(self)

    def line(self, state: State, now: Moment) -> Line | None:
        if self.opening:
            return Line("Running the check first...")
        return Line("Running the tests for the model..." if self.asked else "Running verification...")


class StepFailed(Body):
    """A verification step failed. What else is found out about that takes time, and ends with the run."""

    kind: ClassVar[str] = "step_failed"
    run_id: str
    step: str
    sentence: str
    """Why it failed, for people."""
    asked: bool = False
    """As in the event that started the run."""
    decides: bool = True
    """False where the configuration may accept it because it failed before the task as well."""

    def apply(self, state: State, now: Moment) -> None:
        runs = state[VerifyRuns]
        if self.decides:
            runs.announced = runs.announced or self.sentence

    def line(self, state: State, now: Moment) -> Line | None:
        if not self.decides or state[VerifyRuns].announced != self.sentence:
            return Line(f'Step "{self.step}" failed: {self.sentence}', "bad")
        return Line(f"{'The tests fail' if self.asked else 'Verification failed'}: {self.sentence}", "bad")


class VerifyFinished(Body):
    """The project's own checks ended."""

    kind: ClassVar[str] = "verify_finished"
    run_id: str
    passed: bool
    steps: tuple[StepResult, ...]
    reason: str = ""
    tree: str = ""
    """The git tree that was verified."""
    tree_after: str = ""
    """The tree when the run had ended: it may have written files itself."""
    own: str = ""
    """`tree` without what others had changed; and `tree_after` without it."""
    own_after: str = ""
    left_behind: tuple[str, ...] = ()
    """New files that the run itself made."""
    failing: tuple[str, ...] = ()
    """The tests that failed, one short line each, where the runner's format is known."""
    asked: bool = False
    opening: bool = False
    """As in the event that started it."""
    red_before: tuple[str, ...] = ()
    """What of it failed before the task as well: tests, or a step where tests cannot be told."""
    forgiven: tuple[str, ...] = ()
    """Steps that failed as they did before the task, where the configuration accepts that."""
    rewritten: tuple[str, ...] = ()
    """Source files that the run itself changed: it passed on another tree, and a run follows."""
    known: str = ""
    """The git tree that the run left, where whose changes are whose is recorded and the run changed files."""
    put_back: tuple[str, ...] = ()
    """What earlier versions said here of files that configure the task is now `config_restored`."""
    clause: str = ""
    """What the reason says besides the step that failed, as the end of a sentence: of the time before the
    task, or that the step took too long."""

    @property
    def sentence(self) -> str:
        """Why it failed, for people: the first failing test by name, or else the step that failed."""
        return say_failed(self.failing, self.reason, self.clause)

    def apply(self, state: State, now: Moment) -> None:
        state[Mishaps].losses += self.put_back
        state[VerifyRuns].end(self)
        attempt = state.nodes.get(now.path)
        if attempt and not self.asked and not self.rewritten:
            attempt.counts.verdict = Pass() if self.passed else Fail("verify_failed", self.reason)

    def line(self, state: State, now: Moment) -> Line | None:
        failures = state[VerifyRuns].failures
        before = failures[-2].sentence if len(failures) > 1 else ""
        text = self._say(state[VerifyRuns].announced, before)
        return Line(text, "good" if self.passed else "bad") if text else None

    def _say(self, announced: str, before: str) -> str:
        if self.opening:
            return "It passes" if self.passed else f"It fails: {self.sentence}"
        if self.rewritten:
            return (
                f"Verification passed, but the run changed {', '.join(self.rewritten[:3])}: it is run again"
            )
        if not self.passed and announced and self.sentence.startswith(announced):
            more = self.sentence.removeprefix(announced).removeprefix("; ") if self.sentence != before else ""
            return f"{more[:1].upper()}{more[1:]}"
        if self.asked:
            return "The tests pass" if self.passed else f"The tests fail: {self.sentence}"
        if not self.passed:
            return f"Verification failed: {self.sentence}"
        red = f"; failed as before the task: {', '.join(self.forgiven)}" if self.forgiven else ""
        return f"Verification passed{red}"


class BaselineVerified(Body):
    """A verification step was run on the tree as it was at the task's start."""

    kind: ClassVar[str] = "baseline_verified"
    steps: tuple[str, ...]
    """The step, or steps of which all passed, or of which none could be run."""
    failed: str = ""
    """The step that failed, if one did."""
    exit_code: int | None = None
    failing: tuple[str, ...] = ()
    """The names of the tests that failed in it."""
    lines: tuple[str, ...] = ()
    """What the failed step printed, a short hash for each line."""
    problem: str = ""
    """Why it is not known what the steps come to there, if so."""
    results: tuple[StepResult, ...] = ()
    """What the steps came to."""

    def apply(self, state: State, now: Moment) -> None:
        state[VerifyRuns].at_start.append(self)


class DiagnosisGiven(Body):
    """What the model believes to be the cause of a failed verification, before it fixes anything."""

    kind: ClassVar[str] = "diagnosis_given"
    loop: int
    text: str

    def apply(self, state: State, now: Moment) -> None:
        if failure := state[VerifyRuns].failure(self.loop):
            failure.diagnosis = self.text


class FixAttempted(Body):
    """What was changed after a failed verification."""

    kind: ClassVar[str] = "fix_attempted"
    loop: int
    diff: str
    """A unified diff, shortened if it is long."""

    def apply(self, state: State, now: Moment) -> None:
        if failure := state[VerifyRuns].failure(self.loop):
            failure.fix = self.diff


@follows(ToolFinished)
def _take_call(state: State, body: ToolFinished, now: Moment) -> None:
    runs = state[VerifyRuns]
    if begun := state[Calls].answered:
        runs.work.take(begun, ok=body.ok)
    if body.changed:
        runs.passing_run = runs.asked_pass = ""
    if body.changed or (body.category == "run" and body.name != "run_tests"):
        runs.passed_tree = ""
