"""What the log says of phases. Commands that only look back import nothing else of them."""

from dataclasses import field, replace
from typing import ClassVar, Literal

from headgate.core import (
    Body,
    Moment,
    PlanWritten,
    Slice,
    Spending,
    StageStarted,
    State,
    ToolFinished,
    follows,
)
from headgate.first_use import dataclass

Mover = Literal["rules", "llm"]


@dataclass(frozen=True, slots=True)
class PhaseState:
    """Where a task is, and what was counted there: over all its stages, since a later one goes on with it."""

    phase: str = ""
    """Empty until it changes for the first time: the default."""
    files_read: frozenset[str] = frozenset()
    wrote: bool = False
    """Whether a tool wrote a file; what a shell command writes is not seen."""
    plan_written: bool = False
    silences: int = 0
    """Probes in a row that returned no usable answer."""

    def move(self, phase: str, by: Mover) -> "PhaseState":
        """In another phase. Rules only go forward, so what they have counted still holds.

        After the classifier they start from zero, so that they do not at once undo what it said.
        """
        return PhaseState(phase) if by == "llm" else replace(self, phase=phase, silences=0)


@dataclass
class Phases(Slice):
    """How far the work has come, as phase control sees it."""

    now: PhaseState = field(default_factory=PhaseState)


class PhaseProbed(Spending):
    """A classifier was asked which phase the work is in. Its tokens count, also when its answer does not."""

    kind: ClassVar[str] = "phase_probed"
    answer: str = ""
    fault: str = ""
    """Why there is no answer: `unavailable`, `refused`, `invalid`, `overflow`, `timeout`, `unreadable`."""
    detail: str = ""

    def apply(self, state: State, now: Moment) -> None:
        state.accounts.take(now.path, self)
        phases = state[Phases]
        phases.now = replace(phases.now, silences=phases.now.silences + 1 if self.fault else 0)


class PhaseChanged(Body):
    """Another hint goes to the model from here on. Nothing else depends on it."""

    kind: ClassVar[str] = "phase_changed"
    before: str
    phase: str
    by: Mover
    reason: str

    def __str__(self) -> str:
        """As people who tune phase control read it."""
        return f"phase: {self.before} -> {self.phase} ({self.by}: {self.reason})"

    def apply(self, state: State, now: Moment) -> None:
        state[Phases].now = state[Phases].now.move(self.phase, self.by)


@follows(ToolFinished)
def _count_call(state: State, body: ToolFinished, now: Moment) -> None:
    if body.ok:
        before = state[Phases].now
        read, wrote = before.files_read | set(body.read), before.wrote or bool(body.changed)
        state[Phases].now = replace(before, files_read=read, wrote=wrote)


@follows(PlanWritten)
def _count_plan(state: State, body: PlanWritten, now: Moment) -> None:
    state[Phases].now = replace(state[Phases].now, plan_written=True)


@follows(StageStarted)
def _begin_stage(state: State, body: StageStarted, now: Moment) -> None:
    """A model that fell silent is asked again in the next stage."""
    if body.announced:
        state[Phases].now = replace(state[Phases].now, silences=0)
