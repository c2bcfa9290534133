"""What is true now: a fold over events. The loop applies each new event; only a resume folds them all.

`State` is what every part of Headgate needs. What one feature needs is a slice, `state[VerifyRuns]`; see
`event`.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.core.attempt import StageState
from headgate.core.event import FOLLOWERS, SLICES, Event, Slice
from headgate.core.flow import Flow
from headgate.core.notes import Note
from headgate.core.spending import Accounts
from headgate.core.task import Constraints, TaskState
from headgate.core.tree import TreeState
from headgate.first_use import dataclass

if TYPE_CHECKING:
    from headgate.core.task_events import TaskEnded

_S = TypeVar("_S", bound=Slice)


@dataclass
class Clock:
    """When a task was worked on."""

    started_at: float = 0.0
    lead: float = 0.0
    """How long it was worked on before it started."""
    last_at: float = 0.0
    """The latest event."""
    paused: float = 0.0
    """Seconds in which nobody worked on it: after a crash, or while a proposal waited."""

    @property
    def seconds(self) -> float:
        """How long it was worked on."""
        if not self.started_at:
            return 0.0
        return self.lead + max(self.last_at - self.started_at - self.paused, 0.0)


@dataclass
class State:
    """A task as its events tell it."""

    task: str = ""
    tries_again: str = ""
    """The ended task that it tries again. No event says it: whoever makes a state knows."""
    text: str = ""
    goal: str = ""
    constraints: Constraints = field(default_factory=Constraints)
    flow: Flow | None = None
    model: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    """The configuration that the task was started with, without secrets."""
    baseline: str = ""
    """The git tree against which the task's diff is taken."""
    status: TaskState = "QUEUED"
    verified: bool = False
    reason: str = ""
    summary: str = ""
    clock: Clock = field(default_factory=Clock)
    last_seq: int = 0
    tree: TreeState = field(default_factory=TreeState)
    """Every attempt at a stage, and how the stages of each group ended."""
    notes: dict[str, Note] = field(default_factory=dict)
    """The latest note of each stage, by stage id."""
    accounts: Accounts = field(default_factory=Accounts)
    """What it has used, by stage and model."""
    files_read: dict[str, None] = field(default_factory=dict)
    files_changed: dict[str, None] = field(default_factory=dict)
    """While the task runs, what its tools wrote; at its end, what really differs."""
    first_hashes: dict[str, str | None] = field(default_factory=dict)
    """What each file that tools wrote was before the first write; None for a file that was not there."""
    ended: "TaskEnded | None" = None
    slices: dict[type[Slice], Slice] = field(default_factory=lambda: {kind: kind() for _, _, kind in SLICES})
    """What each feature knows, by its class, in order."""

    def __getitem__(self, kind: type[_S]) -> _S:
        """What a feature knows."""
        return self.slices[kind]  # type: ignore[return-value]

    def apply(self, event: Event) -> None:
        """Takes the next event in."""
        if self.status == "PROPOSED" or self.ended or event.body.goes_on:
            self._pause(max(event.at - self.clock.last_at, 0.0))
        self.task, self.clock.last_at, self.last_seq = event.task, event.at, event.seq
        if attempt := self.nodes.get(event.path):
            attempt.counts.last_at = event.at
        event.body.apply(self, event)
        for follow in FOLLOWERS.get(type(event.body), ()):
            follow(self, event.body, event)

    def after(self, event: Event) -> "State":
        """The state after an event that only sets fields: what is in lists and dicts is shared with it."""
        other = copy(self)
        other.clock = copy(self.clock)
        other.slices = {kind: copy(found) for kind, found in self.slices.items()}
        other.apply(event)
        return other

    def _pause(self, idle: float) -> None:
        self.clock.paused += idle
        self.tree.pause(idle)

    @property
    def nodes(self) -> dict[str, StageState]:
        """Every attempt at a stage, by path, in the order in which they were entered."""
        return self.tree.nodes

    @property
    def seconds(self) -> float:
        """How long it was worked on."""
        return self.clock.seconds

    @property
    def end_tree(self) -> str:
        """The git tree at its end, without what others changed."""
        return self.ended.tree if self.ended else ""


def fold(events: Iterable[Event]) -> State:
    """The state after these events."""
    state = State()
    for event in events:
        state.apply(event)
    return state
