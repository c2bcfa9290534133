"""What is true now: a fold over events. The loop applies each new event; only a resume folds them all."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from headgate.core import events as ev
from headgate.core.flow import Ending, Flow
from headgate.core.messages import Usage
from headgate.core.rules import Broken, Fail, Pass, Tally, Verdict
from headgate.core.task import Constraints, TaskState

UNUSABLE = frozenset({"invalid_arguments", "unknown_tool", "denied", "not_done"})
"""Errors of calls that could not even be tried: a turn with nothing else brought nothing."""


@dataclass
class StageState:
    """One attempt at a stage."""

    path: str
    stage: str
    title: str
    attempt: int
    tries: int
    """Attempts since the stage was last entered for a new reason."""
    turns_allowed: int
    turns: int = 0
    bad_replies: int = 0
    usable: bool = True
    """The latest reply led to at least one call that was tried."""
    faults: Counter[str] = field(default_factory=Counter)
    """Replies and calls of this attempt that could not be used, by kind."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that succeeded, by tool; signals not counted."""
    files_read: dict[str, None] = field(default_factory=dict)
    plan_written: bool = False
    done: ev.Note | None = None
    verdict: Verdict | None = None
    final_granted: bool = False
    final_taken: bool = False
    unavailable: int = 0
    refused: bool = False
    trouble: str = ""
    overflow: bool = False
    compactions: int = 0
    ending: Ending | None = None
    why: str = ""
    """What was missing when it ended without completing."""

    def tally(self) -> Tally:
        return Tally(
            turns=self.turns,
            attempts=self.tries,
            bad_replies=0 if self.usable else self.bad_replies + 1,
            faults=describe_faults(self.faults),
            done=self.done is not None,
            verdict=self.verdict,
            granted=self.final_granted,
            final=self.final_taken,
            unavailable=self.unavailable,
            refused=self.refused,
            trouble=self.trouble,
            overflow=self.overflow,
            compactions=self.compactions,
        )


REVIEWS = ("diff_scope", "tests_touched")
"""Checks on the diff that go back to the model once."""
Phase = Literal[
    "returned",
    "revising",
    "revised",
    "stages",
    "verifying",
    "verified",
    "failed",
    "replanning",
    "replanned",
    "mending",
    "mended",
]
"""Where in its flow a task is: in its stages, or where in the debug loop behind them."""


def _next_phase(state: "State", body: ev.AnyBody) -> Phase:
    match body:
        case ev.CheckFinished(check=check, verdict="fail") if (
            check in REVIEWS and len(state.reviews[check]) == 1
        ):
            return "returned"
        case ev.StageStarted(reason="review"):
            return "revising"
        case ev.StageEnded() if state.phase == "revising":
            return "revised"
        case ev.VerifyStarted():
            return "verifying"
        case ev.VerifyFinished():
            return "verified" if body.passed else "failed"
        case ev.ReplanStarted():
            return "replanning"
        case ev.StageEnded() if state.phase == "replanning":
            return "replanned"
        case ev.StageStarted(reason="check_failed"):
            return "mending"
        case ev.FixAttempted():
            return "mended"
        case _:
            return state.phase


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
    fix: str = ""


@dataclass
class State:
    """A task as its events tell it."""

    task: str = ""
    text: str = ""
    goal: str = ""
    constraints: Constraints = field(default_factory=Constraints)
    flow: Flow | None = None
    model: str = ""
    baseline: str = ""
    boundaries: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    """The configuration that the task was started with, without secrets."""
    status: TaskState = "QUEUED"
    verified: bool = False
    reason: str = ""
    summary: str = ""
    started_at: float = 0.0
    last_at: float = 0.0
    last_seq: int = 0
    stages: dict[str, StageState] = field(default_factory=dict)
    """Every attempt, by path, in the order in which they were entered."""
    notes: dict[str, ev.Note] = field(default_factory=dict)
    """The latest note of each stage, by stage id."""
    plan: tuple[ev.PlanItem, ...] = ()
    plan_version: int = 0
    usage: Usage = field(default_factory=Usage)
    requests: int = 0
    tool_calls: Counter[str] = field(default_factory=Counter)
    tool_errors: Counter[str] = field(default_factory=Counter)
    feedback: Counter[str] = field(default_factory=Counter)
    """Corrections sent to the model, by slug."""
    files_read: dict[str, None] = field(default_factory=dict)
    files_changed: dict[str, None] = field(default_factory=dict)
    """While the task runs, what its tools wrote; at its end, what really differs."""
    first_hashes: dict[str, str | None] = field(default_factory=dict)
    """What each file that tools wrote was before the first write; None for a file that was not there."""
    retries_before_write: int = 0
    run_ids: list[str] = field(default_factory=list)
    passing_run: str = ""
    """The run that verified the tree as it is, if there is one."""
    phase: Phase = "stages"
    open_calls: dict[str, ev.ToolStarted] = field(default_factory=dict)
    """Calls that were begun and not answered: after a crash, nobody knows whether they took effect."""
    pending_retry: tuple[str, str] | None = None
    """A stage that is to be attempted again, and why."""
    left_behind: dict[str, None] = field(default_factory=dict)
    """New files that verification runs made."""
    resumes: int = 0
    """How often in a row the task was taken up again without getting anywhere."""
    reviews: dict[str, list[str]] = field(default_factory=dict)
    """What each look at the diff found, the first and the second time; nothing where it found nothing."""
    failures: list[Failure] = field(default_factory=list)
    """Every failed verification, in order."""
    consecutive_failures: int = 0
    """Failed verifications since the last replan."""
    replans: int = 0
    hypotheses: str = ""

    def apply(self, event: ev.Event) -> None:
        self.task, self.last_at, self.last_seq = event.task, event.at, event.seq
        stage = self.stages.get(event.path)
        match event.body:
            case ev.TaskStarted() as body:
                self.text, self.goal, self.constraints = body.text, body.goal, body.constraints
                self.flow, self.model, self.baseline = body.flow, body.model, body.baseline
                self.boundaries, self.unenforced = body.boundaries, body.unenforced
                self.config = body.config
                self.status, self.started_at = "RUNNING", event.at
            case ev.StageStarted() as body:
                self._enter(event.path, body)
            case ev.PlanWritten() as body:
                self.plan, self.plan_version = body.items, body.version
            case ev.VerifyStarted() as body:
                self.run_ids.append(body.run_id)
                self.passing_run = ""
            case ev.VerifyFinished() as body:
                self.passing_run = body.run_id if body.passed else ""
                if not body.passed:
                    self.failures.append(Failure(body.run_id, body.reason, body.tree, body.failing))
                    self.consecutive_failures += 1
                self.left_behind.update(dict.fromkeys(body.left_behind))
            case ev.CheckFinished(check=check) as body if check in REVIEWS:
                self.reviews.setdefault(check, []).append(body.reason)
            case ev.DiagnosisGiven() as body:
                self.failures[body.loop - 1].diagnosis = body.text
            case ev.FixAttempted() as body:
                self.failures[body.loop - 1].fix = body.diff
            case ev.ReplanStarted():
                self.replans += 1
                self.consecutive_failures = 0
            case ev.HypothesesGiven() as body:
                self.hypotheses = body.text
            case ev.StageEnded() as body:
                self.notes[body.stage] = body.note
            case ev.TaskEnded() as body:
                self.status, self.verified, self.reason = body.state, body.verified, body.reason
                self.summary = body.summary
                self.files_changed = dict.fromkeys(body.files_changed)
            case ev.DecisionMade(action="retry") as body:
                self.pending_retry = (stage.stage if stage else "", body.detail or body.reason)
            case ev.ReplyReceived() as body:
                self.resumes = 0
                self.requests += 1
                self.usage += Usage(body.prompt_tokens, body.completion_tokens, body.cached_tokens)
            case ev.TaskResumed():
                self.resumes += 1
            case ev.ToolStarted() as body:
                self.open_calls[body.call] = body
                for change in body.changes:
                    self.first_hashes.setdefault(change.path, change.before)
            case ev.ToolFinished() as body:
                self.open_calls.pop(body.call, None)
                self._count_call(body)
            case ev.MessageAdded(slug=slug) if slug.startswith("correct_"):
                self.feedback[slug.removeprefix("correct_")] += 1
            case _:
                pass
        self.phase = _next_phase(self, event.body)
        if stage:
            _apply_to_stage(stage, event.body)

    def _enter(self, path: str, body: ev.StageStarted) -> None:
        before = [stage for stage in self.stages.values() if stage.stage == body.stage]
        self.pending_retry = None
        entered = StageState(path, body.stage, body.title, body.attempt, 1, body.turns)
        if before and body.reason == "retry":
            # The conversation goes on, so what was read and called in it still counts.
            last = before[-1]
            entered.tries, entered.plan_written = last.tries + 1, last.plan_written
            entered.files_read, entered.calls = dict(last.files_read), Counter(last.calls)
            self.retries_before_write += not self.files_changed
        self.stages[path] = entered

    def _count_call(self, body: ev.ToolFinished) -> None:
        self.tool_calls[body.name] += 1
        if body.error in UNUSABLE:
            self.feedback[body.error] += 1
        if not body.ok:
            self.tool_errors[body.name] += 1
        self.files_read.update(dict.fromkeys(body.read))
        if body.changed:
            self.files_changed.update(dict.fromkeys(body.changed))
            self.passing_run = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the model was told about its diff and did not mend."""
        return tuple(found[1] for found in self.reviews.values() if len(found) > 1 and found[1])

    @property
    def verify_loops(self) -> int:
        """Failed verifications of the task."""
        return len(self.failures)

    @property
    def last_failure(self) -> str:
        return self.failures[-1].reason if self.failures else ""

    def attempts_at(self, stage: str) -> int:
        return sum(entered.stage == stage for entered in self.stages.values())

    def open_attempt(self, stage: str | None = None) -> StageState | None:
        """The attempt that is under way, at this stage or at any."""
        for entered in reversed(self.stages.values()):
            if entered.ending is None and stage in (None, entered.stage):
                return entered
        return None

    def endings(self) -> dict[str, Ending]:
        """How each stage ended, by its latest attempt; stages still open are missing."""
        latest = {entered.stage: entered.ending for entered in self.stages.values()}
        again = self.pending_retry[0] if self.pending_retry else None
        return {stage: ending for stage, ending in latest.items() if ending is not None and stage != again}


_FAULTS = {
    "text_only": "text instead of a tool call",
    "not_done": "a closing signal too early",
    "cut_off": "a reply cut off at its length limit",
    "bad_reply": "a reply that could not be read",
    "invalid_arguments": "a call with wrong arguments",
    "unknown_tool": "a call to a tool that does not exist",
    "denied": "a call that is not allowed",
}


def describe_faults(faults: Counter[str]) -> str:
    """`text instead of a tool call (3 times)`, the most frequent first; nothing if there are none."""
    return ", ".join(f"{_FAULTS.get(kind, kind)} ({_times(count)})" for kind, count in faults.most_common())


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def fold(events: Iterable[ev.Event]) -> State:
    """The state after these events."""
    state = State()
    for event in events:
        state.apply(event)
    return state


def _apply_to_stage(stage: StageState, body: ev.AnyBody) -> None:
    match body:
        case ev.ReplyReceived():
            stage.bad_replies = 0 if stage.usable else stage.bad_replies + 1
            stage.turns += 1
            stage.usable = False
            stage.final_taken = stage.final_granted
            stage.unavailable = stage.compactions = 0
            stage.overflow = False
            stage.verdict = None
        case ev.ReplyFailed(error="unavailable"):
            stage.unavailable += 1
            stage.trouble = body.detail
        case ev.ReplyFailed(error="refused"):
            stage.refused = True
            stage.trouble = body.detail
        case ev.ReplyFailed(error="overflow"):
            stage.overflow = True
            stage.final_taken = stage.final_granted
        case ev.ReplyFailed(error="invalid"):
            stage.bad_replies = 0 if stage.usable else stage.bad_replies + 1
            stage.turns += 1
            stage.usable = False
            stage.final_taken = stage.final_granted
            stage.unavailable = stage.compactions = 0
        case ev.MessageAdded(slug=slug) if slug.startswith("correct_"):
            stage.faults[slug.removeprefix("correct_")] += 1
        case ev.ToolFinished():
            stage.usable = stage.usable or body.error not in UNUSABLE
            if body.error in UNUSABLE:
                stage.faults[body.error] += 1
            if body.ok and body.name not in ("stage_done", "plan_tasks"):
                stage.calls[body.name] += 1
            stage.files_read.update(dict.fromkeys(body.read))
        case ev.PlanWritten():
            stage.plan_written = True
        case ev.StageDoneSignalled():
            stage.done = body.note
        case ev.CheckFinished(verdict="pass"):
            stage.verdict = Pass()
        case ev.CheckFinished(verdict="fail"):
            stage.verdict, stage.done = Fail(body.check, body.reason), None
        case ev.CheckFinished(verdict="broken"):
            stage.verdict = Broken(body.reason)
        case ev.DecisionMade(action="final_turn"):
            stage.final_granted = True
        case ev.DecisionMade(action="fail"):
            stage.why = body.detail or body.reason
        case ev.ViewCompacted():
            stage.compactions += body.reason == "context"
            stage.overflow = False
        case ev.StageEnded():
            stage.ending = body.ending
        case _:
            pass
