"""How a model reports where it stands, without ending anything by itself."""

from typing import Literal

from headgate.tools.base import Args, Outcome, Signal, Tool, ToolContext, tool

STATUS_TOOL = "agent__task_status"


class TaskStatus(Args):
    """Arguments of agent__task_status."""

    status: Literal["starting", "in-progress", "completed"]
    done: str
    pending: str
    now: str
    ready_for_final_report: bool
    need_to_run_more_tools: bool


def agent__task_status(ctx: ToolContext, args: TaskStatus) -> Outcome:
    """Report your status beside other calls, up to 15 words a field."""
    return Outcome("ok", signal=Signal("task_status", args.model_dump()))


task_status: Tool = tool("control", TaskStatus)(agent__task_status)
