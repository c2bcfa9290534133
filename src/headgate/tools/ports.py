"""What tools may do besides reading and writing files: ports, which the run room fills for each call."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn, Protocol

from headgate.core import Note, PlanItem, TaskStatusGiven
from headgate.errors import ToolFailed

NOT_IN_A_STAGE = "This can only be done in a stage of a flow."


class StagePort(Protocol):
    """The stage that a tool is called in. ToolError says why something cannot be done now."""

    def plan_items(self) -> tuple[PlanItem, ...]:
        """The plan of the task as it stands."""
        ...

    async def write_plan(self, items: Sequence[PlanItem]) -> None:
        """Replaces the plan."""
        ...

    async def report_status(self, status: TaskStatusGiven) -> None:
        """Records where the model says that it stands. A status alone does not end the stage."""
        ...

    async def leave(self, note: Note) -> None:
        """Asks to leave the stage with this note."""
        ...

    async def run_tests(self) -> str:
        """Runs the project's verification steps; returns what the model is told about the result."""
        ...


class _NoStage:
    """The ports of a context that belongs to no stage: there is no plan, and every act is refused."""

    def plan_items(self) -> tuple[PlanItem, ...]:
        return ()

    def __getattr__(self, act: str) -> Callable[..., Awaitable[NoReturn]]:
        async def refuse(*given: object) -> NoReturn:
            raise ToolFailed(NOT_IN_A_STAGE)

        return refuse


NO_STAGE: Any = _NoStage()
