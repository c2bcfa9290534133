"""A task's start and end, and what it was told on the way of the environment that it runs in."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, ClassVar

from headgate.core.boundary_text import boundary_problems
from headgate.core.event import Body, Line, Moment, Slice, Tone
from headgate.core.flow import Flow
from headgate.core.person import Person
from headgate.core.reasons import say_end
from headgate.core.settings import OWN_FOLDER, package_of
from headgate.core.state import State
from headgate.core.task import Constraints, TaskState
from headgate.first_use import dataclass

BUBBLEWRAP = "bubblewrap"
"""The sandbox that commands run in where it works."""


def describe_trust(sandbox: str) -> str:
    """The level of trust of a task, by what `TaskStarted.sandbox` says."""
    return "sandboxed" if sandbox == BUBBLEWRAP else f"open: no sandbox for commands: {sandbox}"


@dataclass
class Workplace(Slice, order=10):
    """Where a task works, and within which bounds."""

    boundaries: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    sandbox: str = ""
    """`bubblewrap`, or why commands run without it."""
    base: str = ""
    """The commit that its own worktree was made from; empty where it works in the tree itself."""
    has_worktree: bool = False
    """That worktree is there."""
    commit: str = ""
    """The commit that was made there of its changes."""

    def report(self, state: State) -> Mapping[str, Any]:
        bare = self.sandbox not in ("", BUBBLEWRAP)
        return {
            "sandbox": f"none: {self.sandbox}" if bare else self.sandbox,
            "worktree": f"{OWN_FOLDER}/worktrees/{state.task}" if self.has_worktree else "",
            "branch": f"headgate/{state.task}" if self.has_worktree else "",
            "commit": self.commit,
        }

    def warnings(self, state: State) -> Iterable[str]:
        problems = boundary_problems(self.unenforced, self.unmatched)
        return (problem.removesuffix(".") for problem in problems)


@dataclass
class Mishaps(Slice, order=40):
    """What went wrong around the work."""

    losses: list[str] = field(default_factory=list)
    """What commands have destroyed of Headgate's own files, and what was put back, a sentence each."""
    traceback: str = ""
    """Where Headgate itself failed, if it did."""
    resumes: int = 0
    """How often in a row the task was taken up again without getting anywhere."""

    def report(self, state: State) -> Mapping[str, Any]:
        return {"traceback": self.traceback}

    def warnings(self, state: State) -> Iterable[str]:
        return dict.fromkeys(filter(None, self.losses))

    def note(self, *sentences: str) -> None:
        """People are told of this, also in the report."""
        self.losses += [sentence.rstrip(".") for sentence in sentences]


@dataclass
class Conclusion(Slice):
    """The last words of a task."""

    answer: str = ""
    """What the model answered, if the task is a question."""
    hypotheses: str = ""
    """What it thinks may be wrong, if the task is stuck."""
    final_turns: list[str] = field(default_factory=list)
    """Why it was made to conclude, each time."""

    def report(self, state: State) -> Mapping[str, Any]:
        answered = state.status == "SUCCESS" and not state.files_changed
        return {
            "answer": self.answer if answered else "",
            "hypotheses": self.hypotheses,
            "final_turns": tuple(self.final_turns),
        }


class TaskStarted(Body):
    """The task left the queue. Pins what it runs with: later changes to files have no effect on it."""

    kind: ClassVar[str] = "task_started"
    text: str
    goal: str
    constraints: Constraints
    flow: Flow
    model: str
    began: float = 0.0
    """When a process took the task up: in a large repository, long before this event."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """The models that are not on this machine, each with its server's address."""
    tools: tuple[str, ...]
    boundaries: tuple[str, ...] = ()
    """The patterns that are enforced, those found for boundaries in prose included."""
    unenforced: tuple[str, ...] = ()
    """Boundaries that name no path: the model reads them, and nothing enforces them."""
    unmatched: tuple[str, ...] = ()
    """Patterns among `boundaries` that matched nothing at the start."""
    baseline: str
    """The git tree, untracked files included, against which the task's diff is taken."""
    config: dict[str, Any]
    """The configuration as loaded, without secrets."""
    sandbox: str = ""
    """`bubblewrap` if commands run in it, otherwise why they do not; empty where no command can run."""
    follows: str = ""
    """The ended task that it is a follow-up of."""
    worktree: str = ""
    """The commit that the task's own worktree was made from; empty where it works in the tree itself."""
    remarks: tuple[str, ...] = ()
    """What people should know about that worktree, a sentence each."""
    tells_edits: bool = False
    """Edits by others are recorded; logs of earlier versions do not tell whose changes are whose."""

    def apply(self, state: State, now: Moment) -> None:
        state.text, state.goal, state.constraints = self.text, self.goal, self.constraints
        state.flow, state.model, state.baseline, state.config = (
            self.flow,
            self.model,
            self.baseline,
            self.config,
        )
        state.status, state.clock.started_at = "RUNNING", now.at
        state.clock.lead = now.at - (self.began or now.at)
        place = state[Workplace]
        place.boundaries, place.sandbox = self.boundaries, self.sandbox
        place.unenforced, place.unmatched = self.unenforced, self.unmatched
        place.base, place.has_worktree = self.worktree, bool(self.worktree)
        state[Mishaps].note(*self.remarks)

    def line(self, state: State, now: Moment) -> Line | None:
        tests = self.config.get("protect_tests")
        closed = [*self.boundaries, *([f"{tests} tests"] if tests else [])]
        bounds = f"; boundaries: {', '.join(closed)}" if closed else ""
        loose = f"; not enforced: {'; '.join(self.unenforced)}" if self.unenforced else ""
        again = f"; retry of {state.tries_again}" if state.tries_again else ""
        again += f"; follow-up of {self.follows}" if self.follows else ""
        package = f", package {package_of(self.config)}" if package_of(self.config) else ""
        apart = f", worktree .headgate/worktrees/{now.task}" if self.worktree else ""
        how = f"{self.flow.name} flow, {self._say_models()}{package}{apart}"
        trust = f"; {describe_trust(self.sandbox)}" if self.sandbox else ""
        return Line(f"Task {now.task} started: {how}{again}{bounds}{loose}{trust}")

    def _say_models(self) -> str:
        """The default model, and every model that is on another machine, with its server's address."""
        places = {self.model: "", **dict(self.elsewhere)}
        return ", ".join(f"{model} at {address}" if address else model for model, address in places.items())


class TaskResumed(Body):
    """A process took the task up where another one had left it."""

    kind: ClassVar[str] = "task_resumed"
    traceback: str = ""
    """Where that one was when it died, if it could still say so."""
    restored: tuple[str, ...] = ()
    """What a command that it left running had done to protected files, and was undone: a sentence each."""

    goes_on: ClassVar[bool] = True

    def apply(self, state: State, now: Moment) -> None:
        mishaps = state[Mishaps]
        mishaps.resumes += 1
        mishaps.traceback = self.traceback or mishaps.traceback

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"Task {now.task} resumed where it was interrupted")


class Remark(Body):
    """What became of files is told to people in a sentence, also in the report."""

    sentence: str

    def apply(self, state: State, now: Moment) -> None:
        state[Mishaps].note(self.sentence)


class StoreRestored(Remark):
    """A command had deleted `.headgate`, and what was in the store was put back."""

    kind: ClassVar[str] = "store_restored"


class ProtectedCommits(Remark):
    """A command made commits that change protected files; they were undone, or it says why not."""

    kind: ClassVar[str] = "protected_commits"


class ConfigRestored(Remark):
    """A file that configures the task changed while a command ran, and was restored."""

    kind: ClassVar[str] = "config_restored"


class PrivilegesRemoved(Remark):
    """Files that commands left would have run with the user's rights for anybody who starts them."""

    kind: ClassVar[str] = "privileges_removed"


class TaskEnded(Body):
    """The task is over. The report is the last line of it all."""

    kind: ClassVar[str] = "task_ended"
    state: TaskState
    verified: bool
    reason: str
    summary: str
    files_changed: tuple[str, ...]
    tree: str = ""
    """The git tree at the end, without what others changed; with the baseline, it gives the task's diff."""
    whole: str = ""
    """The git tree at the end with what others changed, if that is another one."""
    shared: tuple[str, ...] = ()
    """Files whose diff holds what others changed as well, because that could not be told apart."""
    diffstat: tuple[str, ...] = ()
    """The lines added and removed, one file each."""
    traceback: str = ""
    """Where Headgate itself failed, if it did."""
    after_review: tuple[str, ...] = ()
    """Files that were changed after the proposal was reviewed and applied."""
    not_in_diff: tuple[str, ...] = ()
    """Files that were changed and that the task's diff cannot hold."""
    unread: tuple[str, ...] = ()
    """What a person said too late to be read."""

    def apply(self, state: State, now: Moment) -> None:
        state.status, state.verified, state.reason = self.state, self.verified, self.reason
        state.summary, state.files_changed = self.summary, dict.fromkeys(self.files_changed)
        state.ended = self
        state[Person].unread = self.unread
        mishaps = state[Mishaps]
        mishaps.traceback = self.traceback or mishaps.traceback

    def line(self, state: State, now: Moment) -> Line | None:
        why = "" if self.reason in ("done", "cancelled") else f": {say_end(self.reason, state.model)}"
        if self.state == "SUCCESS" and not self.verified:
            answered = not self.files_changed and state[Conclusion].answer
            return Line(f"SUCCESS ({'answered' if answered else 'not verified'})", "good")
        tones: dict[TaskState, Tone] = {"SUCCESS": "good", "CANCELLED": "note"}
        return Line(f"{self.state}{why}", tones.get(self.state, "bad"))


class TaskReport(Body):
    """The structured report, recorded together with the task's end: the fields that scripts rely on."""

    kind: ClassVar[str] = "task_report"
    report: dict[str, Any]


class TaskReportInvalid(Body):
    """The task's report is not as scripts expect it: its log or Headgate is at fault. `codes` say how."""

    kind: ClassVar[str] = "task_report_invalid"
    codes: tuple[str, ...]
