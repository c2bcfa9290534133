"""How a model reports where it stands, without ending anything by itself."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from headgate.core.words import times
from headgate.tools.base import Args, Outcome, Signal, Tool, ToolContext, tool

STATUS_TOOL = "agent__task_status"
USUAL_LIMIT = 2
"""How many replies may only report a status, where the stage does not say otherwise."""


def _hyphenated(value: Any) -> Any:
    """`in_progress` and `In Progress` are what models write for `in-progress`."""
    return "-".join(value.lower().replace("_", " ").split()) if isinstance(value, str) else value


class TaskStatus(Args):
    """Arguments of agent__task_status."""

    status: Annotated[Literal["starting", "in-progress", "completed"], BeforeValidator(_hyphenated)] = Field(
        description="completed: everything is done"
    )
    done: str = Field(description="What is done")
    pending: str = Field(description="What remains")
    now: str = Field(description="Your next step")
    ready_for_final_report: bool = Field(description="You can report now")
    need_to_run_more_tools: bool = Field(description="You will call more tools")


def status_tool(limit: int = USUAL_LIMIT) -> Tool:
    """The status report of a stage in which `limit` replies that report nothing else end the work."""

    def agent__task_status(ctx: ToolContext, args: TaskStatus) -> Outcome:
        return Outcome("ok", signal=Signal("task_status", args.model_dump()))

    agent__task_status.__doc__ = (
        "Report your status with other calls, up to 15 words per field."
        f" The work ends if you call it alone {times(limit)}, or report completed, ready and no more tools."
    )
    return tool("control", TaskStatus)(agent__task_status)


task_status: Tool = status_tool()
