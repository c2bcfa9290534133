"""The tools of a planner and its executor: have a recipe carried out, or hand the work back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from headgate.core import GENERIC, Recipe
from headgate.tools.base import Args, Tool, ToolContext, tool
from headgate.tools.control import Sentences, with_choices


def _or_generic(value: Any) -> Any:
    return GENERIC if value is None else value


class Execute(Args):
    """Arguments of execute."""

    task_type: Annotated[str, BeforeValidator(_or_generic)] = Field(GENERIC, description="The type of task")
    goals: Sentences = Field(
        description="What this task is to achieve, a sentence each", min_length=1, max_length=10
    )


class Escalate(Args):
    """Arguments of escalate."""

    reason: str = Field(min_length=1, max_length=2_000, description="What is in the way")


def execute_tool(recipes: Mapping[str, Recipe]) -> Tool:
    """The tool that has a recipe carried out. What there is to choose from is in its description."""
    offered = {name: recipe for name, recipe in recipes.items() if not recipe.unavailable}
    # Sentences, and not a list: in a prompt that describes tools, a list of types looks like more tools.
    types = " ".join(
        f'task_type="{name}" means: {recipe.description.rstrip(".")}.' for name, recipe in offered.items()
    )

    async def execute(ctx: ToolContext, args: Execute) -> str:
        return await ctx.recipes.execute(args.task_type, args.goals)

    execute.__doc__ = f"Have a task carried out. Its results are returned. {types}".rstrip()
    made = tool("control", Execute, by_name=True)(execute)
    choices = with_choices(made.spec.parameters, "task_type", list(offered))
    return replace(made, spec=replace(made.spec, parameters=choices, variants=tuple(recipes)))


@tool("control", by_name=True)
async def escalate(ctx: ToolContext, args: Escalate) -> str:
    """Hand the work back, because it cannot be done like this."""
    await ctx.recipes.escalate(" ".join(args.reason.split()))
    return "ok"
