"""What a state keeps about the past: failed verifications, answers tried, findings about the diff."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, Self

from headgate.core import events as ev
from headgate.core.phases import PhaseState, Signals
from headgate.patterns import regex


@dataclass
class Failure:
    """One failed verification and what was made of it."""

    run_id: str
    reason: str
    tree: str = ""
    """The git tree that failed."""
    failing: tuple[str, ...] = ()
    """The tests that failed, where the runner's format is known."""
    diagnosis: str = ""
    fix: str | None = None
    """What was changed afterwards, as a diff; None until that is known."""
    tree_after: str = ""
    """The tree after the run, or after a later one of the unchanged tree: a run may write files itself."""
    sentence: str = ""
    """Why it failed, for people: the first failing test by name, or else the step that failed."""
    own: str = ""
    """The tree that failed, without what others had changed; and the one after the run, without it."""
    own_after: str = ""

    @classmethod
    def of(cls, body: ev.VerifyFinished) -> Self:
        """A run that failed. Earlier versions did not tell the task's own changes apart."""
        return cls(
            body.run_id,
            body.reason,
            body.tree,
            body.failing,
            tree_after=body.tree_after,
            sentence=body.sentence,
            own=body.own or body.tree,
            own_after=body.own_after or body.tree_after,
        )


@dataclass
class WorkSinceFailure:
    """What was done since the last failed verification."""

    written: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """What tools wrote: the hash of each file before the first write and after the last."""
    ran: bool = False
    """A command was run."""

    def take(self, call: ev.ToolStarted, *, ok: bool) -> None:
        """Takes a call in that has ended. A write that failed wrote nothing."""
        for change in call.changes if ok else ():
            before, _ = self.written.get(change.path, (change.before, None))
            self.written[change.path] = (before, change.after)
        self.ran = self.ran or (call.category == "run" and call.name != "run_tests")

    def is_idle(self, failures: list[Failure], tree: str, reason: str, failing: tuple[str, ...]) -> bool:
        """Whether the task has changed nothing since the last of these failures, by what the next run found.

        `tree` is without what others changed. It shows neither what git ignores nor what a command did
        elsewhere. What tools wrote is compared by its hashes; a command counts as a change if verification
        now fails in another way.
        """
        last = failures[-1] if failures else None
        if (
            last is None
            or tree not in (last.own, last.own_after)
            or any(before != after for before, after in self.written.values())
        ):
            return False
        return not self.ran or (reason, failing) == (last.reason, last.failing)


LISTED = 12


def condense_failures(failures: Sequence[Failure]) -> str:
    """What failed, and what was made of it, a few lines each, the latest last."""
    lines = []
    for number, failure in list(enumerate(failures, 1))[-LISTED:]:
        lines.append(f"{number}. {failure.reason} ({failure.run_id})")
        lines += [f"   failing: {test}" for test in failure.failing[:3]]
        if failure.diagnosis:
            lines.append(f"   diagnosis: {failure.diagnosis}")
        fix = failure.fix or ""
        files = [line[6:] for line in fix.splitlines() if line.startswith("+++ b/")]
        if failure.diagnosis or fix:
            lines.append(f"   changed: {', '.join(files) or 'nothing'}")
    return "\n".join(lines)


@dataclass
class AnswersTried:
    """What the flow `repair` found out: the check that it began with, suspect places, answers tried."""

    opening: ev.VerifyFinished | None = None
    """The check that the flow began with, once it has ended."""
    suspects: ev.SuspectsFound | None = None
    """Where the failure of that check may come from; None before that was looked into."""
    tried: list[ev.CandidateTried] = field(default_factory=list)
    """Every whole answer that was tried, in order."""

    def apply(self, body: ev.Body) -> None:
        match body:
            case ev.VerifyFinished(opening=True):
                self.opening = body
            case ev.SuspectsFound():
                self.suspects = body
            case ev.CandidateTried():
                self.tried.append(body)
            case _:
                pass

    @property
    def repaired(self) -> bool:
        """Whether one of the answers passed, and was kept."""
        return any(tried.verdict == "passed" for tried in self.tried)


ProposalStep = Literal["", "proposed", "applying", "applied"]
"""How far the proposal of a dry run has come."""


@dataclass
class Proposal:
    """What a dry run proposes, and what became of it."""

    step: ProposalStep = ""
    trees: tuple[str, str] | None = None
    """The trees whose difference is proposed."""
    conflicts: tuple[str, ...] = ()
    """Why it could not be applied, the last time that was tried."""
    refusal: str = ""
    """What else kept it from being applied then."""
    applied_tree: str = ""
    """The git tree right after it was written."""

    def apply(self, body: ev.Body) -> None:
        match body:
            case ev.ProposalMade():
                self.step, self.trees = "proposed", (body.before, body.after)
            case ev.ApplyStarted():
                self.step, self.conflicts, self.refusal = "applying", (), ""
            case ev.ApplyFinished():
                self.step, self.applied_tree = "applied", body.tree
            case ev.ApplyRefused():
                self.step, self.conflicts, self.refusal = "proposed", body.conflicts, body.detail
            case _:
                pass


@dataclass
class OthersEdits:
    """What somebody else changed while the task ran, as far as the log tells."""

    is_told: bool = False
    """False for a task that an earlier version started, and where the tree could not be looked at."""
    left: str = ""
    """The git tree as the task was last known to have left it."""
    written: dict[str, set[str | None]] = field(default_factory=dict)
    """What tools wrote since then, by path: every hash that the file had before and after."""
    noticed: list[ev.EditsNoticed] = field(default_factory=list)

    def apply(self, body: ev.Body) -> None:
        match body:
            case ev.TaskStarted():
                self.is_told = body.tells_edits
                self._leave(body.baseline)
            case ev.ApplyStarted():
                self.noticed.clear()
                self._leave(body.baseline)
                self._write(body.changes)
            case ev.ToolStarted():
                self._write(body.changes)
            case ev.ToolFinished(tree=tree) if tree:
                self._leave(tree)
            case ev.VerifyFinished(known=tree) if tree:
                self._leave(tree)
            case ev.EditsNoticed(before=""):
                self.is_told = False
            case ev.EditsNoticed():
                self.noticed.append(body)
                self._leave(body.after)
            case _:
                pass

    def _leave(self, tree: str) -> None:
        self.left = tree
        self.written.clear()

    def _write(self, changes: Iterable[ev.FileHashes]) -> None:
        for change in changes:
            self.written.setdefault(change.path, set()).update((change.before, change.after))


@dataclass
class DiffFindings:
    """What reviews of the task's diff found. Each check goes back to the model once."""

    found: dict[str, list[str]] = field(default_factory=dict)
    """What each check found, one look after the other; an empty text where it found nothing."""
    final: set[str] = field(default_factory=set)
    """Checks whose findings do not go back to the model."""
    loops: dict[str, int] = field(default_factory=dict)
    """How many verifications had failed when each check last looked."""
    leading: dict[str, None] = field(default_factory=dict)
    """Checks whose warnings come before all other words of the summary."""

    def take(self, body: ev.CheckFinished, loops: int) -> None:
        self.found[body.check] = [*self.found.pop(body.check, []), body.reason]  # the latest is the last
        self.loops[body.check] = loops
        self.final |= {body.check} if body.final else set()
        self.leading.update({body.check: None} if body.leads else {})

    def findings(self, check: str) -> list[str]:
        """What a check has found so far."""
        return [found for found in self.found.get(check, ()) if found]

    def __bool__(self) -> bool:
        return any(map(self.findings, self.found))

    def was_told_once(self, check: str) -> bool:
        """Whether the model was told what a check found, and the second look is still to come."""
        if check not in self.found or check in self.final:
            return False
        return len(self.findings(check)) == 1 and bool(self.found[check][-1])

    def warning(self, check: str) -> str:
        """What a check last found, if the model had been told before, or is not to be told."""
        told = len(self.findings(check)) > 1 or check in self.final
        return self.found[check][-1] if told else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(map(self.warning, self.found))


# What verification runs showed: which of them ended, and what failed before the task as well.


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


@dataclass
class RunRecord:
    """A fold over what the log says about verification runs."""

    started: str = ""
    """The latest run that was started."""
    announced: str = ""
    """What people were told of its failure before it ended."""
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
    passed_tree: str = ""
    """The tree that the latest verification approved of, if nothing was written or run since."""
    failed_in_a_row: int = 0
    """Verifications that failed since one passed, or since the plan was last rewritten."""
    first: dict[str, ev.StepResult] = field(default_factory=dict)
    """What each step came to when it ran for the first time in the task."""

    def apply(self, body: ev.Body) -> None:
        match body:
            case ev.VerifyStarted():
                self.started, self.announced = body.run_id, ""
            case ev.StepFailed(decides=True):
                self.announced = self.announced or body.sentence
            case ev.CheckFinished(check="verify", verdict="broken"):
                self.ended.add(self.started)
            case ev.BaselineVerified():
                self.at_start.append(body)
            case ev.VerifyFinished():
                self.ended.add(body.run_id)
                self.first = {step.name: step for step in body.steps} | self.first
                self.red.update(dict.fromkeys(body.red_before))
                if not body.asked:
                    self.forgiven, self.still_red = body.forgiven, frozenset(body.red_before)
                    self.passed_tree = body.tree_after if body.passed and not body.rewritten else ""
                    self.failed_in_a_row = 0 if body.passed else self.failed_in_a_row + 1
            case ev.ReplanStarted():
                self.failed_in_a_row = 0
            case ev.ToolFinished() if body.changed or (body.category == "run" and body.name != "run_tests"):
                self.passed_tree = ""
            case ev.ApplyStarted():
                self.at_start.clear()  # the task now begins with another tree
                self.first.clear()

    def ended_of(self, run_ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the runs whose logs are whole."""
        return tuple(run_id for run_id in run_ids if run_id in self.ended)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was accepted although it failed, a sentence each."""
        return tuple(f'step "{step}" failed, as it did before this task' for step in self.forgiven)

    def of(self, step: str) -> ev.BaselineVerified | None:
        """The run that was to show what this step came to; None if there was none yet."""
        known = (run for run in self.at_start if step in run.steps and run.failed in ("", step))
        return next(known, None)

    def counted_at_start(self, step: str) -> ev.StepResult | None:
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


# What events do to the phase of the work, as phase control sees it.


def follow_phase(phases: PhaseState, body: ev.Body) -> PhaseState:
    """What an event does to the phase of the work, or to what its rules count."""
    match body:
        case ev.ToolFinished(ok=True):
            return phases.count(Signals(body.read, body.changed))
        case ev.PlanWritten():
            return phases.count(Signals(plan_written=True))
        case ev.StageStarted() if body.title:
            return phases.hear(answered=True)
        case ev.PhaseProbed():
            return phases.hear(answered=not body.fault)
        case ev.PhaseChanged():
            return phases.move(body.phase, body.by)
        case _:
            return phases
