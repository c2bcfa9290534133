"""The tools of a planner and its executor: have a recipe carried out, or hand the work back."""

from collections.abc import Mapping

from pydantic import Field, create_model

from headgate.core import Recipe
from headgate.tools.base import Args, Tool, ToolContext, tool
from headgate.tools.control import Sentences


class Execute(Args):
    """Arguments of execute."""

    task_type: str
    goals: Sentences = Field(min_length=1, max_length=10)


class Escalate(Args):
    """Arguments of escalate."""

    reason: str = Field(min_length=1, max_length=2_000, description="What is in the way")


def execute_tool(recipes: Mapping[str, Recipe]) -> Tool:
    """The tool that has a recipe carried out. What there is to choose from is in its description."""
    types = "\n".join(f"- {recipe.name}: {recipe.description}" for recipe in recipes.values())
    task_type = Field(description="The type of task", json_schema_extra={"enum": list(recipes)})
    goals = Field(description="What this task is to achieve, a sentence each", min_length=1, max_length=10)
    args = create_model("Execute", __base__=Execute, task_type=(str, task_type), goals=(Sentences, goals))

    async def execute(ctx: ToolContext, args: Execute) -> str:
        return await ctx.recipes.execute(args.task_type, args.goals)

    execute.__doc__ = f"Have a task carried out. Its results are returned. Types of tasks:\n{types}"
    return tool("control", args, by_name=True)(execute)


@tool("control", by_name=True)
async def escalate(ctx: ToolContext, args: Escalate) -> str:
    """Hand the work back, because it cannot be done like this."""
    await ctx.recipes.escalate(args.reason)
    return "ok"
