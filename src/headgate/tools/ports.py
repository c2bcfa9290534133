"""What a tool may do beyond the workspace, as ports. The run room implements them for each call.

Acts are coroutines, because they are recorded in the log: only a tool that is a coroutine function can act.
"""

from collections.abc import Sequence
from typing import Protocol

from headgate.core import Note, PlanItem, TaskStatusGiven
from headgate.errors import ToolFailed


class PlanPort(Protocol):
    """The plan of the task."""

    def items(self) -> tuple[PlanItem, ...]:
        """The plan as it stands."""
        ...

    async def write(self, items: Sequence[PlanItem]) -> None:
        """Replaces the plan."""
        ...


class StatusPort(Protocol):
    """Where the model says that it stands."""

    async def report(self, status: TaskStatusGiven) -> None:
        """Records a status. A status alone does not end the stage."""
        ...


class ExitPort(Protocol):
    """The way out of the stage."""

    async def leave(self, note: Note) -> None:
        """Asks to leave the stage with this note. ToolError says what is missing."""
        ...


class ProjectTestsPort(Protocol):
    """The project's own verification steps."""

    async def run(self) -> str:
        """Runs the steps; returns what the model is told about the result."""
        ...


class NoStage:
    """All four ports of a context that belongs to no stage: there is no plan, and every act is refused."""

    def items(self) -> tuple[PlanItem, ...]:
        return ()

    async def write(self, items: Sequence[PlanItem]) -> None:
        raise _refusal()

    async def report(self, status: TaskStatusGiven) -> None:
        raise _refusal()

    async def leave(self, note: Note) -> None:
        raise _refusal()

    async def run(self) -> str:
        raise _refusal()


NO_STAGE = NoStage()


def _refusal() -> ToolFailed:
    return ToolFailed("This can only be done in a stage of a flow.")
