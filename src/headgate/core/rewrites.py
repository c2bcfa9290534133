"""What was written of a task's changes elsewhere than where it worked, or taken back again.

A proposal is applied; what was done in a worktree is merged into the user's own tree; both can be undone.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from headgate.core.event import Body, Line, Moment, Slice
from headgate.core.person import Person
from headgate.core.state import State
from headgate.core.task_events import Workplace
from headgate.core.text import count
from headgate.core.turn_events import FileHashes
from headgate.core.verification import StepResult, VerifyRuns
from headgate.first_use import dataclass

ProposalStep = Literal["", "proposed", "applying", "applied"]
"""How far the proposal of a dry run has come."""
Purpose = Literal["apply", "merge", "undo"]


@dataclass
class Proposed(Slice):
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

    def report(self, state: State) -> Mapping[str, Any]:
        return {"conflicts": self.conflicts if state.status == "PROPOSED" else ()}


@dataclass
class Rewrites(Slice):
    """What was written of a task to the user's own tree after its end."""

    merge: "RewriteStarted | None" = None
    """What was written of its worktree to the user's own tree, or is about to be."""
    merged: bool = False
    merge_verified: "MergeVerified | None" = None
    undo: "RewriteStarted | None" = None
    """The attempt to take its changes back that was made, or is under way."""
    undone: bool = False
    """Its changes were taken back."""

    def report(self, state: State) -> Mapping[str, Any]:
        verified, place = self.merge_verified, state[Workplace]
        gone = not (place.has_worktree or self.merged)
        return {
            "merged": self.merged,
            "merge_verified": verified.passed if verified else None,
            "merge_reason": verified.reason if verified else "",
            "merge_run": verified.run_id if verified else "",
            "undone": self.undone,
            "discarded": bool(place.base and state.files_changed) and gone,
        }


class ProposalMade(Body):
    """A dry run's stages are over. Nothing was written; the task waits for `apply` or `abort`."""

    kind: ClassVar[str] = "proposal_made"
    before: str
    """A git tree of what was found, as far as it is to be changed."""
    after: str
    """A git tree of what is proposed; the difference is the proposal."""
    summary: str
    files_changed: tuple[str, ...]
    unread: tuple[str, ...] = ()
    """What a person said too late to be read."""

    def apply(self, state: State, now: Moment) -> None:
        state.status, state.reason, state.summary = "PROPOSED", "done", self.summary
        state.files_changed = dict.fromkeys(self.files_changed)
        state[Person].unread = self.unread
        proposal = state[Proposed]
        proposal.step, proposal.trees = "proposed", (self.before, self.after)

    def line(self, state: State, now: Moment) -> Line | None:
        what = count(len(self.files_changed), "file") if self.files_changed else "no change"
        return Line(f"PROPOSED: {what}", "good")


class Rewrite(Body):
    """A diff and the user's own tree: a proposal is applied, what a task did in its worktree is merged, or
    what a task did is undone.

    In the log the purpose is in the kind: `apply_started`, `merge_refused`, `undo_finished`.
    """

    purpose: Purpose

    @classmethod
    def kinds_in_log(cls) -> dict[str, dict[str, Any]]:
        return {cls.kind.replace("rewrite", one): {"purpose": one} for one in get_args(Purpose)}

    @property
    def kind_in_log(self) -> str:
        return self.kind.replace("rewrite", self.purpose)


class RewriteStarted(Rewrite):
    """It is about to be written. After a crash, the hashes tell how far that came.

    What is written is the content, until it is written.
    """

    kind: ClassVar[str] = "rewrite_started"
    changes: tuple[FileHashes, ...]
    baseline: str = ""
    """The git tree as it was found when a proposal is applied: the start of the task's diff from here on."""
    before: str = ""
    """A git tree with the files as a merge found them."""
    after: str = ""
    """A git tree with the files as they are to be; the difference is what an undo takes back."""
    folders: tuple[str, ...] = ()
    """The folders that are removed if nothing is left in them."""
    kept: tuple[str, ...] = ()
    """Files that changed during the task and that an undo leaves, because the task did not write them."""
    left: tuple[str, ...] = ()
    """What the task changed and cannot be undone: links, large files, other repositories."""

    def apply(self, state: State, now: Moment) -> None:
        match self.purpose:
            case "apply":
                self._begin_to_apply(state)
            case "merge":
                state[Rewrites].merge = self
            case "undo":
                state[Rewrites].undo = self

    def _begin_to_apply(self, state: State) -> None:
        state.status, state.reason, state.baseline = "RUNNING", "", self.baseline
        state.first_hashes = {change.path: change.before for change in self.changes}
        state.files_changed = dict.fromkeys(change.path for change in self.changes)
        proposal = state[Proposed]
        proposal.step, proposal.conflicts, proposal.refusal = "applying", (), ""
        runs = state[VerifyRuns]
        runs.at_start.clear()  # the task now begins with another tree
        runs.first.clear()

    def line(self, state: State, now: Moment) -> Line | None:
        if self.purpose != "apply":
            return None
        if not self.changes:
            return Line("The proposed changes are already in the working tree: nothing to write")
        return Line(f"Applying the proposal: {count(len(self.changes), 'file')}")


class RewriteFinished(Rewrite):
    """All of it is in the user's own tree."""

    kind: ClassVar[str] = "rewrite_finished"
    tree: str = ""
    """The git tree with an applied proposal: what is changed from here on, nobody has reviewed."""

    def apply(self, state: State, now: Moment) -> None:
        match self.purpose:
            case "apply":
                state[Proposed].step, state[Proposed].applied_tree = "applied", self.tree
            case "merge":
                state[Rewrites].merged = True
            case "undo":
                state[Rewrites].undone = True

    def line(self, state: State, now: Moment) -> Line | None:
        written = state[Rewrites]
        begun = {"apply": None, "merge": written.merge, "undo": written.undo}[self.purpose]
        files = count(len(begun.changes) if begun else 0, "file")
        match self.purpose:
            case "apply":
                return None
            case "merge":
                return Line(f"Written to your own tree: {files}")
            case "undo":
                return Line(f"Task {now.task} was undone: {files}", "note")


class RewriteRefused(Rewrite):
    """Nothing of it is in the user's own tree: a proposal does not fit any more, or writing was given up."""

    kind: ClassVar[str] = "rewrite_refused"
    reason: str = "conflict"
    """Why; of a proposal a word: `conflict`, `environment`, `crash`, `crash_loop` or `cancelled`."""
    conflicts: tuple[str, ...] = ()
    detail: str = ""

    def apply(self, state: State, now: Moment) -> None:
        match self.purpose:
            case "apply":
                state.status, state.reason = "PROPOSED", self.reason
                proposal = state[Proposed]
                proposal.step, proposal.conflicts, proposal.refusal = "proposed", self.conflicts, self.detail
            case "merge":
                state[Rewrites].merge = None
            case "undo":
                state[Rewrites].undo = None

    def line(self, state: State, now: Moment) -> Line | None:
        why = self.reason.rstrip(".")
        match self.purpose:
            case "merge":
                return Line(f"Not written to your own tree: {why}")
            case "undo":
                return Line(f"Task {now.task} was not undone: {why}", "bad")
        if self.reason == "cancelled":
            return Line("Cancelled before anything was written: it is a proposal again", "bad")
        if not self.conflicts:
            return Line(f"The proposal was not applied; nothing was changed: {self.detail}", "bad")
        conflicts = "; ".join(self.conflicts)
        return Line(f"The proposal no longer applies; nothing was changed: {conflicts}", "bad")


class WorktreeCommitted(Body):
    """What the task changed was committed in its worktree."""

    kind: ClassVar[str] = "worktree_committed"
    commit: str

    def apply(self, state: State, now: Moment) -> None:
        state[Workplace].commit = self.commit

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"Committed {self.commit[:12]} on headgate/{now.task}")


class WorktreeRemoved(Body):
    """The task's worktree and its branch are gone."""

    kind: ClassVar[str] = "worktree_removed"

    def apply(self, state: State, now: Moment) -> None:
        state[Workplace].has_worktree = False


class MergeVerified(Body):
    """What the verification steps found in the user's own tree, with the task's changes in it."""

    kind: ClassVar[str] = "merge_verified"
    run_id: str = ""
    """Empty if the steps could not be begun, or there are none."""
    passed: bool | None
    """None: there are no steps."""
    reason: str = ""
    """Why they did not pass."""
    steps: tuple[StepResult, ...] = ()

    def apply(self, state: State, now: Moment) -> None:
        state[Rewrites].merge_verified = self

    def line(self, state: State, now: Moment) -> Line | None:
        if self.passed is None:
            return Line("Not verified in your own tree: no verification steps are configured")
        if self.passed:
            return Line(f"Verified in your own tree: {count(len(self.steps), 'step')} passed")
        return Line(f"Verification failed in your own tree: {self.reason.rstrip('.')}")
