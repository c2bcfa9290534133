"""How a model reports where it stands, without ending anything by itself."""

from typing import Literal

from pydantic import Field

from headgate.tools.base import Args, Outcome, Signal, Tool, ToolContext, tool

STATUS_TOOL = "agent__task_status"


class TaskStatus(Args):
    """Arguments of agent__task_status."""

    status: Literal["starting", "in-progress", "completed"]
    done: str = Field(description="What is accomplished, up to 15 words")
    pending: str = Field(description="What remains, up to 15 words")
    now: str = Field(description="The immediate step, up to 15 words")
    ready_for_final_report: bool
    need_to_run_more_tools: bool


def agent__task_status(ctx: ToolContext, args: TaskStatus) -> Outcome:
    """Report where you stand, together with other calls. Alone it brings nothing."""
    return Outcome("ok", signal=Signal("task_status", args.model_dump()))


task_status: Tool = tool("control", TaskStatus)(agent__task_status)
