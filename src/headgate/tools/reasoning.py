"""A tool for thinking, for models that have no channel of their own for it."""

from pydantic import Field

from headgate.tools.base import Args, Outcome, ToolContext, tool


class Think(Args):
    """Arguments of think."""

    text: str = Field(description="The thought")


@tool("reasoning")
def think(ctx: ToolContext, args: Think) -> Outcome:
    """Think something through. Changes nothing."""
    return Outcome("ok")
