"""The tools of a planner and its executor: have a recipe carried out, or hand the work back."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from headgate.core import Calls, Recipe, cut_text
from headgate.errors import ToolFailed
from headgate.features.recipes.events import EscalationRaised
from headgate.features.recipes.execution import GENERIC
from headgate.features.recipes.planner import planning_of
from headgate.run import call_under_way, clean_value
from headgate.tools import Args, Sentences, Tool, ToolContext, tool, with_choices

ESCALATION_CHARS = 2_000


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


def _goals_of(variant: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are meant where a model called a type of task as if that were a tool."""
    known = {name: value for name, value in given.items() if name in ("goals", "goal")}
    return {
        "task_type": variant,
        **(known or {"goals": [text for text in _texts(list(given.values())) if text.strip()]}),
    }


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield from (key, *_texts(item))
        case list():
            for item in value:
                yield from _texts(item)


def execute_tool(recipes: Mapping[str, Recipe]) -> Tool:
    """The tool that has a recipe carried out. What there is to choose from is in its description."""
    offered = {name: recipe for name, recipe in recipes.items() if not recipe.unavailable}
    # Sentences, and not a list: in a prompt that describes tools, a list of types looks like more tools.
    types = " ".join(
        f'task_type="{name}" means: {recipe.description.rstrip(".")}.' for name, recipe in offered.items()
    )

    async def execute(ctx: ToolContext, args: Execute) -> str:
        ports = call_under_way(ctx)
        run, call = ports.run, ports.started.call
        is_planner = run.stage.kind == "planner"
        if is_planner:
            # The start is stored together with what it begins: after a crash, such a call was not refused.
            await run.job.log.commit()
        cut_short = (run.path, call) in run.job.state[Calls].open
        with ports.acting():
            if not is_planner:
                raise ToolFailed("execute: only a planner can have something executed")
            return await planning_of(run).execute(args.task_type, args.goals, cut_short)

    execute.__doc__ = f"Have a task carried out. Its results are returned. {types}".rstrip()
    made = tool("control", Execute, by_name=True, about=("task_type", "goals"))(execute)
    choices = with_choices(made.spec.parameters, "task_type", list(offered))
    return replace(
        made, spec=replace(made.spec, schema=choices, variants=tuple(recipes)), from_variant=_goals_of
    )


@tool("control", by_name=True, about=("reason",))
async def escalate(ctx: ToolContext, args: Escalate) -> str:
    """Hand the work back, because it cannot be done like this."""
    with call_under_way(ctx).acting() as run:
        if not (run.stage.execution or run.stage.kind == "planner"):
            raise ToolFailed("escalate: there is no planner here to hand the work back to")
        reason = clean_value(run, " ".join(args.reason.split()))
        run.record(EscalationRaised(reason=cut_text(reason, ESCALATION_CHARS)))
    return "ok"
