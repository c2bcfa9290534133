"""What is true now: a fold over events. The loop applies each new event; only a resume folds them all."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headgate.core import events as ev
from headgate.core.attempt import UNUSABLE, StageState, is_announced_end
from headgate.core.executed import Executions
from headgate.core.flow import Flow
from headgate.core.history import (
    AnswersTried,
    DiffFindings,
    Failure,
    OthersEdits,
    Proposal,
    RunRecord,
    WorkSinceFailure,
    follow_phase,
)
from headgate.core.messages import Usage
from headgate.core.phases import PhaseState
from headgate.core.plan_and_notes import with_status, written_since
from headgate.core.recipes import Execution
from headgate.core.spending import Accounts
from headgate.core.task import Constraints, TaskState
from headgate.core.tree import TreeState, join_path, place_of, stage_ids


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
    unmatched: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    """The configuration that the task was started with, without secrets."""
    sandbox: str = ""
    """`bubblewrap`, or why commands run without it."""
    status: TaskState = "QUEUED"
    verified: bool = False
    reason: str = ""
    summary: str = ""
    started_at: float = 0.0
    lead: float = 0.0  # how long it was worked on before it started
    last_at: float = 0.0
    last_seq: int = 0
    paused: float = 0.0
    """Seconds in which nobody worked on it: after a crash, or while a proposal waited."""
    cost: float = 0.0
    tree: TreeState = field(default_factory=TreeState)
    """Every attempt at a stage, and how the stages of each group ended."""
    notes: dict[str, ev.Note] = field(default_factory=dict)
    """The latest note of each stage, by stage id."""
    plan: tuple[ev.PlanItem, ...] = ()
    plan_version: int = 0
    executed: Executions = field(default_factory=Executions)
    """The recipes that a planner had carried out."""
    plan_since: dict[str, int] = field(default_factory=dict)
    """In which version of the plan each step was written as it is."""
    usage: Usage = field(default_factory=Usage)
    accounts: Accounts = field(default_factory=Accounts)
    """The same, with requests and cost, by stage and model."""
    requests: int = 0
    """What the model was asked, classifiers and last words included."""
    replies: int = 0
    """What it answered in stages."""
    remarks: Counter[str] = field(default_factory=Counter)
    """What servers could not do with requests; people are told once."""
    tool_calls: Counter[str] = field(default_factory=Counter)
    tool_errors: Counter[str] = field(default_factory=Counter)
    sources: dict[str, None] = field(default_factory=dict)
    """Pages of the web that research has returned, a line each."""
    feedback: Counter[str] = field(default_factory=Counter)
    """Corrections sent to the model, by slug."""
    files_read: dict[str, None] = field(default_factory=dict)
    files_changed: dict[str, None] = field(default_factory=dict)
    """While the task runs, what its tools wrote; at its end, what really differs."""
    mentions_shown: int = 0
    """Conversations that began with files which the task mentions."""
    first_hashes: dict[str, str | None] = field(default_factory=dict)
    """What each file that tools wrote was before the first write; None for a file that was not there."""
    retries_before_write: int = 0
    run_ids: list[str] = field(default_factory=list)
    """Every verification run, those that the model asked for included."""
    asked_pass: str = ""
    """The run that passed when the model asked for it, if nothing was changed since."""
    answers: AnswersTried = field(default_factory=AnswersTried)
    """What was tried out in copies of the tree."""
    runs: RunRecord = field(default_factory=RunRecord)
    """Which of them ended, and what is known of the steps on the tree that the task began with."""
    verifications: int = 0
    """Times the work was handed to verification."""
    passing_run: str = ""
    """The run that verified the tree as it is, if there is one."""
    last_steps: tuple[ev.StepResult, ...] = ()
    """What the latest verification ran."""
    is_verifying: bool = False
    """A verification was started and has not ended."""
    phases: PhaseState = field(default_factory=PhaseState)
    """How far the work has come, as phase control sees it."""
    open_calls: dict[tuple[str, str], ev.ToolStarted] = field(default_factory=dict)
    """Calls that were begun and not answered, by the path of the attempt and the id of the call: after a
    crash, nobody knows whether they took effect. Ids are unique only within a conversation."""
    left_behind: dict[str, None] = field(default_factory=dict)
    """New files that verification runs made."""
    resumes: int = 0
    """How often in a row the task was taken up again without getting anywhere."""
    review: DiffFindings = field(default_factory=DiffFindings)
    """What reviews of the diff found."""
    failures: list[Failure] = field(default_factory=list)
    """Every failed verification, in order."""
    idle_rounds: int = 0
    """Rounds in a row, each from one failed verification to the next, that changed nothing."""
    round: WorkSinceFailure = field(default_factory=WorkSinceFailure)
    """What was done since the last failed verification."""
    idle_attempts: int = 0
    """Attempts at stages in a row, the latest that ended included, in which no call succeeded."""
    replans: int = 0
    final_turns: list[str] = field(default_factory=list)
    """Why the model was made to conclude, each time."""
    hypotheses: str = ""
    cut: ev.PromptCut | None = None
    """What a server cut off a prompt, the first time that it did."""
    answer: str = ""
    losses: list[str] = field(default_factory=list)
    """What commands have destroyed of Headgate's own files, and what was put back, a sentence each."""
    said: dict[int, str] = field(default_factory=dict)
    """What a person has said since the task was submitted, by the number of the line."""
    unread: tuple[str, ...] = ()
    """What a person said too late to be read."""
    proposal: Proposal = field(default_factory=Proposal)
    """What a dry run proposes."""
    others: OthersEdits = field(default_factory=OthersEdits)
    base: str = ""
    """The commit that its own worktree was made from; empty where it works in the tree itself."""
    has_worktree: bool = False
    """That worktree is there."""
    commit: str = ""
    """The commit that was made there of its changes."""
    merge: ev.MergeStarted | None = None
    """What was written of its worktree to the user's own tree, or is about to be."""
    merged: bool = False
    merge_verified: ev.MergeVerified | None = None
    undo: ev.UndoStarted | None = None
    """The attempt to take its changes back that was made, or is under way."""
    undone: bool = False
    """Its changes were taken back."""
    ended: ev.TaskEnded | None = None
    end_tree: str = ""
    diffstat: tuple[str, ...] = ()
    traceback: str = ""

    def apply(self, event: ev.Event) -> None:
        if self.status == "PROPOSED" or self.ended or isinstance(event.body, ev.TaskResumed):
            idle = max(event.at - self.last_at, 0.0)
            self.paused += idle
            self.tree.pause(idle)
        self.task, self.last_at, self.last_seq = event.task, event.at, event.seq
        stage = self.nodes.get(event.path)
        if isinstance(event.body, ev.VerifyFinished):
            self.losses += event.body.put_back
        match event.body:
            case ev.TaskStarted() as body:
                self.text, self.goal, self.constraints = body.text, body.goal, body.constraints
                self.flow, self.model, self.baseline = body.flow, body.model, body.baseline
                self.boundaries, self.config, self.sandbox = body.boundaries, body.config, body.sandbox
                self.unenforced, self.unmatched = body.unenforced, body.unmatched
                self.base, self.has_worktree = body.worktree, bool(body.worktree)
                self.losses += [remark.rstrip(".") for remark in body.remarks]
                self.status, self.started_at = "RUNNING", event.at
                self.lead = event.at - (body.began or event.at)
            case ev.StageStarted() as body:
                self._enter(event.path, body, event.at)
            case ev.PlanWritten() as body:
                self.plan_since = written_since(self.plan_since, self.plan, body.items, body.version)
                self.plan, self.plan_version = body.items, body.version
            case ev.RecipeStarted() as body:
                made = Execution(body.number, body.task_type, body.goals)
                self.tree.rounds[join_path(place_of(event.path), made.id)] = body.round
            case ev.VerifyStarted() as body:
                self.run_ids.append(body.run_id)
                self.verifications += not body.asked and not self.is_verifying
                self.is_verifying = self.is_verifying or not body.asked
                self.passing_run = ""
            case ev.VerifyFinished(rewritten=changed) as body if changed:
                self.left_behind.update(dict.fromkeys(body.left_behind))
            case ev.VerifyFinished(asked=True) as body:
                last = self.failures[-1] if self.failures else None
                if last and body.own in (last.own, last.own_after):
                    last.tree_after, last.own_after = body.tree_after, body.own_after
                self.asked_pass = body.run_id if body.passed else ""
                self.left_behind.update(dict.fromkeys(body.left_behind))
            case ev.VerifyFinished() as body:
                self.is_verifying = False
                self.passing_run = body.run_id if body.passed else ""
                self.last_steps = body.steps
                if not body.passed:
                    idle = self.round.is_idle(self.failures, body.own, body.reason, body.failing)
                    self.idle_rounds = self.idle_rounds + 1 if idle else 0
                    self.round = WorkSinceFailure()
                    self.failures.append(Failure.of(body))
                self.left_behind.update(dict.fromkeys(body.left_behind))
            case ev.CheckFinished() as body if self._is_review(stage, body):
                self.review.take(body, len(self.failures))
            case ev.DiagnosisGiven() as body:
                if 0 < body.loop <= len(self.failures):
                    self.failures[body.loop - 1].diagnosis = body.text
            case ev.FixAttempted() as body:
                if 0 < body.loop <= len(self.failures):
                    self.failures[body.loop - 1].fix = body.diff
            case ev.ReplanStarted() as body:
                self.replans += 1
                self.tree.replan(event.path, body.item)
            case ev.HypothesesGiven() as body:
                self.hypotheses = body.text
            case ev.AnswerGiven() as body:
                self.answer = body.text
            case ev.StageEnded() as body:
                self._leave(event.path, body, stage)
            case ev.StageSkipped() as body:
                self.tree.skip(event.path, body)
            case ev.PersonSpoke() as body:
                self.said[body.number] = body.text
            case ev.ProposalMade() as body:
                self.status, self.reason, self.summary = "PROPOSED", "done", body.summary
                self.unread = body.unread
                self.files_changed = dict.fromkeys(body.files_changed)
            case ev.ApplyStarted() as body:
                self.status, self.reason, self.baseline = "RUNNING", "", body.baseline
                self.first_hashes = {change.path: change.before for change in body.changes}
                self.files_changed = dict.fromkeys(change.path for change in body.changes)
            case ev.ApplyRefused() as body:
                self.status, self.reason = "PROPOSED", body.reason
            case ev.Remark() as body:
                self.losses.append(body.sentence.rstrip("."))
            case ev.TaskEnded() as body:
                self.status, self.verified, self.reason = body.state, body.verified, body.reason
                self.summary, self.files_changed = body.summary, dict.fromkeys(body.files_changed)
                self.end_tree, self.diffstat = body.tree, body.diffstat
                self.ended, self.unread = body, body.unread
                self.traceback = body.traceback or self.traceback
            case ev.WorktreeCommitted() as body:
                self.commit = body.commit
            case ev.WorktreeRemoved():
                self.has_worktree = False
            case ev.MergeStarted() as body:
                self.merge = body
            case ev.MergeRefused():
                self.merge = None
            case ev.MergeFinished():
                self.merged = True
            case ev.MergeVerified() as body:
                self.merge_verified = body
            case ev.UndoStarted() as body:
                self.undo = body
            case ev.UndoRefused():
                self.undo = None
            case ev.UndoFinished():
                self.undone = True
            case ev.DecisionMade(action="final_turn") as body:
                self.final_turns.append(body.reason)
            case ev.DecisionMade(action="retry") as body:
                self.tree.retries[place_of(event.path)] = body.detail or body.reason
            case ev.DecisionMade(action="wait", seconds=seconds) if seconds:
                self.tree.retry_at[place_of(event.path)] = event.at + seconds
            case ev.ReplyReceived() | ev.ReplyFailed(error="invalid") as body:
                self.resumes, self.replies = 0, self.replies + 1
                self._spend(event.path, body)
                self.remarks.update(filter(None, [getattr(body, "remark", "")]))
            case ev.PromptCut() as body:
                self.cut = self.cut or body
            case ev.PhaseProbed() as body:
                self._spend(event.path, body)
            case ev.StageCompacted() as body:
                self._spend(event.path, body, body.requests)
            case ev.TaskResumed() as body:
                self.resumes += 1
                self.traceback = body.traceback or self.traceback
            case ev.ToolStarted() as body:
                self.open_calls[event.path, body.call] = body
                for change in body.changes:
                    self.first_hashes.setdefault(change.path, change.before)
            case ev.ToolFinished() as body:
                if begun := self.open_calls.pop((event.path, body.call), None):
                    self.round.take(begun, ok=body.ok)
                    self.executed.work.take(begun, ok=body.ok)
                self._count_call(body)
            case ev.MentionsRead() as body:
                self.mentions_shown += 1
                self.files_read.update(dict.fromkeys(body.read))
            case ev.MessageAdded(slug=slug) if slug.startswith("correct_"):
                self.feedback[slug.removeprefix("correct_")] += 1
            case ev.MessageAdded(slug=slug) if slug.startswith("nudge_"):
                self.feedback[slug.replace("nudge_", "loop_")] += 1
            case _:
                pass
        self.answers.apply(event.body)
        self.proposal.apply(event.body)
        self.others.apply(event.body)
        self.phases = follow_phase(self.phases, event.body)
        self.runs.apply(event.body)
        self.executed.apply(event.body)
        if stage:
            stage.last_at = event.at
            stage.apply(event.body)

    @property
    def nodes(self) -> dict[str, StageState]:
        """Every attempt at a stage, by path, in the order in which they were entered."""
        return self.tree.nodes

    def _enter(self, path: str, body: ev.StageStarted, at: float) -> None:
        entered = self.tree.enter(path, body, at)
        self.retries_before_write += entered.tries > 1 and not self.files_changed
        if body.item:
            self.plan = with_status(self.plan, body.item, "in_progress")

    def _leave(self, path: str, body: ev.StageEnded, stage: StageState | None) -> None:
        self.tree.leave(path, body)
        is_told = is_announced_end(body, stage)
        if is_told or body.note.summary:
            self.notes[body.stage] = body.note
        elif stage:
            self.notes.pop(body.stage, None)  # what an earlier run of the steps left holds no longer
        if not is_told:
            return
        if stage is None or stage.succeeded or body.ending == "completed":
            self.idle_attempts = 0
        else:
            self.idle_attempts += stage.can_act
        if stage and stage.item:
            status: ev.Status = "completed" if body.ending == "completed" else "failed"
            self.plan = with_status(self.plan, stage.item, status)

    def _is_review(self, stage: StageState | None, body: ev.CheckFinished) -> bool:
        """Whether a check looked at the diff, and not at what a stage did; logs of 0.1 name no stage."""
        if body.verdict == "broken":
            return False
        return stage.kind == "review" if stage else body.check != "verify"

    def _spend(self, path: str, body: ev.Spending, requests: int = 1) -> None:
        self.requests += requests
        self.cost += body.cost
        self.accounts.take(stage_ids(path)[-1] if path else "", body, requests)
        self.usage += Usage(body.prompt_tokens, body.completion_tokens, body.cached_tokens)

    def _count_call(self, body: ev.ToolFinished) -> None:
        self.tool_calls[body.name] += 1
        if body.error in UNUSABLE:
            self.feedback[body.error] += 1
        if not body.ok:
            self.tool_errors[body.name] += 1
        self.files_read.update(dict.fromkeys(body.read))
        self.sources.update(dict.fromkeys(body.sources))
        if body.changed:
            self.files_changed.update(dict.fromkeys(body.changed))
            self.passing_run = self.asked_pass = ""

    @property
    def seconds(self) -> float:
        """How long it was worked on."""
        return self.lead + max(self.last_at - self.started_at - self.paused, 0.0) if self.started_at else 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know: findings about the diff that were left as they were, what was red
        before, what a command has destroyed, a cut prompt."""
        cut = self.cut.describe() if self.cut else ""
        found = (*self.review.warnings, *self.runs.warnings, *dict.fromkeys(self.losses), cut)
        return tuple(filter(None, found))

    @property
    def verify_loops(self) -> int:
        """Failed verifications of the task."""
        return len(self.failures)

    @property
    def last_failure(self) -> str:
        return self.failures[-1].sentence if self.failures else ""


def fold(events: Iterable[ev.Event]) -> State:
    """The state after these events."""
    state = State()
    for event in events:
        state.apply(event)
    return state
