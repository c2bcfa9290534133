"""Whose changes are whose: what the log says about what others changed while the task ran."""

from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar

from headgate.core.event import Body, Line, Moment, Slice, follows
from headgate.core.rewrites import RewriteStarted
from headgate.core.state import State
from headgate.core.task_events import TaskStarted
from headgate.core.turn_events import FileHashes, ToolFinished, ToolStarted
from headgate.core.verification import VerifyFinished
from headgate.first_use import dataclass


@dataclass
class OthersEdits(Slice):
    """What somebody else changed while the task ran, as far as the log tells."""

    is_told: bool = False
    """False for a task that an earlier version started, and where the tree could not be looked at."""
    left: str = ""
    """The git tree as the task was last known to have left it."""
    written: dict[str, set[str | None]] = field(default_factory=dict)
    """What tools wrote since then, by path: every hash that the file had before and after."""
    noticed: list["EditsNoticed"] = field(default_factory=list)

    def leave(self, tree: str) -> None:
        """The task leaves this tree."""
        self.left = tree
        self.written.clear()

    def write(self, changes: Iterable[FileHashes]) -> None:
        """The task writes these."""
        for change in changes:
            self.written.setdefault(change.path, set()).update((change.before, change.after))


class EditsNoticed(Body):
    """Files have changed since the task last wrote or ran something: somebody else changed them.

    With the baseline and the tree of the end, these trees tell which changes are the task's own.
    """

    kind: ClassVar[str] = "edits_noticed"
    before: str
    """The git tree as the task had left it; empty if the tree could not be looked at."""
    after: str
    """The git tree as it was found."""
    files: tuple[str, ...] = ()
    verifying: bool = False
    """They changed while the project's own checks ran, and the checks did not do it again in a copy of the
    tree: a person may have done it."""
    uncertain: tuple[str, ...] = ()
    """Files that the task wrote before a crash, and that were changed before it went on."""
    while_away: bool = False
    """Nobody was working on the task: a command that was interrupted may have made the changes."""

    def apply(self, state: State, now: Moment) -> None:
        others = state[OthersEdits]
        if not self.before:
            others.is_told = False
            return
        others.noticed.append(self)
        others.leave(self.after)

    def line(self, state: State, now: Moment) -> Line | None:
        if self.verifying or not self.files:
            return None
        more = f" and {len(self.files) - 3} more" if len(self.files) > 3 else ""
        return Line(f"Changed meanwhile, not by this task: {', '.join(self.files[:3])}{more}", "note")


@follows(TaskStarted)
def _take_start(state: State, body: TaskStarted, now: Moment) -> None:
    state[OthersEdits].is_told = body.tells_edits
    state[OthersEdits].leave(body.baseline)


@follows(RewriteStarted)
def _take_proposal(state: State, body: RewriteStarted, now: Moment) -> None:
    if body.purpose != "apply":
        return
    others = state[OthersEdits]
    others.noticed.clear()
    others.leave(body.baseline)
    others.write(body.changes)


@follows(ToolStarted)
def _begin_call(state: State, body: ToolStarted, now: Moment) -> None:
    state[OthersEdits].write(body.changes)


@follows(ToolFinished)
def _end_call(state: State, body: ToolFinished, now: Moment) -> None:
    if body.tree:
        state[OthersEdits].leave(body.tree)


@follows(VerifyFinished)
def _take_run(state: State, body: VerifyFinished, now: Moment) -> None:
    if body.known:
        state[OthersEdits].leave(body.known)
