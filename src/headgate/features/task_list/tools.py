"""The tools by which a model works through a list of tasks in its own order; see the kind `drive`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from headgate.core import COMPLETE_TOOL, Note
from headgate.features.task_list.tasks import tasks_of
from headgate.run import call_under_way, clean_value
from headgate.tools import Args, Sentences, Tool, ToolContext, slim_schema, tool, with_choices


class StartTask(Args):
    """Arguments of start_task."""

    id: str = Field(description="The task's id")


class CompleteTask(Args):
    """Arguments of complete_task. The names of the closing signal of other stages are accepted as well."""

    id: str = ""
    result: Any = Field(default=None, description="The task's result")
    summary: str = Field(default="", description="What was found or done, in one to three sentences")
    decisions: Sentences = ()
    next_actions: Sentences = ()
    risks: Sentences = ()


class FailTask(Args):
    """Arguments of fail_task."""

    id: str = ""
    reason: str = Field(default="", description="Why it cannot be done")


async def start_task(ctx: ToolContext, args: StartTask) -> str:
    """Start a task. Its assignment is returned, or, if another agent carries it out, its result."""
    with call_under_way(ctx).acting() as run:
        return await tasks_of(run).start(clean_value(run, args.id))


async def complete_task(ctx: ToolContext, args: CompleteTask) -> str:
    """Say that the task in progress is done. The runtime then checks it."""
    said = args.model_dump(exclude={"id", "result"})
    with call_under_way(ctx).acting() as run:
        return await tasks_of(run).complete(clean_value(run, args.id), Note(**said, output=args.result))


async def fail_task(ctx: ToolContext, args: FailTask) -> str:
    """Give the task in progress up."""
    with call_under_way(ctx).acting() as run:
        return await tasks_of(run).fail(clean_value(run, args.id), clean_value(run, args.reason))


def task_list_tools(ids: Sequence[str], output: Mapping[str, Any] | None = None) -> dict[str, Tool]:
    """The three tools for the tasks with these ids. `output`: the JSON Schema of the result that is due."""
    start = tool("control", StartTask)(start_task)
    choices = with_choices(start.spec.parameters, "id", ids)
    made = [
        replace(start, spec=replace(start.spec, schema=choices)),
        tool("control", CompleteTask)(complete_task),
        tool("control", FailTask)(fail_task),
    ]
    tools = {each.name: each for each in made}
    if output is not None:
        complete = tools[COMPLETE_TOOL]
        result = {"description": "The task's result", **slim_schema(output)}
        parameters = {
            **complete.spec.parameters,
            "properties": {**complete.spec.parameters["properties"], "result": result},
            "required": ["result"],
        }
        tools[COMPLETE_TOOL] = replace(complete, spec=replace(complete.spec, schema=parameters))
    return tools
