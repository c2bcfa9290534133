"""The tools by which a model talks to the runtime: a thought, the plan, its status, the end."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from headgate.core import Note, PlanItem, TaskStatusGiven, cut_text, share_out, times
from headgate.errors import ToolFailed
from headgate.tools.base import Args, Outcome, Tool, ToolContext, tool
from headgate.tools.schemas import slim_schema

Priority = Literal["low", "normal", "high", "critical"]


def _underscored(value: Any) -> Any:
    """`in-progress` and `In Progress` are what models write for `in_progress`."""
    return "_".join(value.lower().replace("-", " ").split()) if isinstance(value, str) else value


Status = Annotated[
    Literal["pending", "in_progress", "completed", "failed", "skipped"], BeforeValidator(_underscored)
]


LEAST_STEP = 80
"""Characters that a step of the plan is shown with at least; where more steps are left, they are counted."""


class WrongStage(ToolFailed):
    """The closing signal of another stage."""

    slug = "wrong_stage"


class PlanStep(BaseModel):
    """One step as the model writes it. To change one, its id and what is new are enough."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, defer_build=True)

    id: str = Field(min_length=1, max_length=40)
    description: str | None = Field(default=None, max_length=2_000)
    goal: str | None = Field(default=None, max_length=2_000)
    priority: Priority | None = None
    status: Status | None = None
    writes: bool | None = Field(default=None, description="false if the step changes no file")


class PlanTasks(Args):
    """Arguments of plan_tasks."""

    action: Literal["create", "update", "list"]
    tasks: tuple[PlanStep, ...] = Field(default=(), max_length=50)


@tool("control")
async def plan_tasks(ctx: ToolContext, args: PlanTasks) -> str:
    """Write the plan (create), change its steps by id (update), or show it (list)."""
    items = {item.id: item for item in ctx.stage.plan_items()}
    if args.action == "list":
        return render_plan(tuple(items.values())) or "There is no plan yet."
    if not args.tasks:
        raise ToolFailed(f"plan_tasks: {args.action} needs at least one entry in `tasks`")
    ids = [step.id for step in args.tasks]
    if len(set(ids)) < len(ids):
        raise ToolFailed("plan_tasks: each entry needs its own id")
    if args.action == "create":
        items = {}
        nameless = [step.id for step in args.tasks if not (step.description or "").strip()]
        if nameless:
            raise ToolFailed(f"plan_tasks: step {', '.join(nameless)} needs a description")
    unknown = [name for name in ids if args.action == "update" and name not in items]
    if unknown:
        raise ToolFailed(
            f"plan_tasks: there is no step {', '.join(unknown)}; existing steps: {', '.join(items) or 'none'}"
        )
    for step in args.tasks:
        old = items[step.id].model_dump() if step.id in items else {}
        items[step.id] = PlanItem(**{**old, **step.model_dump(exclude_none=True)})
    plan = tuple(items.values())
    await ctx.stage.write_plan(plan)
    return f"Plan written:\n{render_plan(plan)}"


def render_plan(items: tuple[PlanItem, ...], room: int | None = None) -> str:
    """The plan as a numbered list, in at most so many characters where a room is given."""
    marks = {"completed": "[x]", "in_progress": "[>]", "failed": "[!]", "skipped": "[-]", "pending": "[ ]"}
    lines = [f"{marks[item.status]} {item.id}. {item.description}{_why(item)}" for item in items]
    if room is None:
        return "\n".join(lines)
    most = max(room // LEAST_STEP, 1)
    if len(lines) > most:
        lines = [*lines[: most - 1], f"[... {len(lines) - most + 1} more steps cut here ...]"]
    limit = share_out([len(line) + 1 for line in lines], room + 1) - 1
    return "\n".join(cut_text(line, max(limit, 0), "the step") for line in lines)[:room]


def _why(item: PlanItem) -> str:
    return f" ({item.status}: {item.reason})" if item.reason else ""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Sentences = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""A list of sentences; models often give just one."""


MAX_DEPTH = 20


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    """Nothing that is nested so deep that nobody could mean it."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    if level:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    return value


class StageDone(Args):
    """Arguments of stage_done. One class serves all stages: a flow may have hundreds of them."""

    stage: str = ""
    summary: str = Field(description="What was found or done, in one to three sentences")
    decisions: Sentences = ()
    next_actions: Sentences = ()
    risks: Sentences = ()
    files_read: Sentences = ()
    files_changed: Sentences = ()
    metadata: Annotated[dict[str, Any], AfterValidator(_shallow)] = Field(default_factory=dict)


class StageDoneWithOutput(StageDone):
    """Arguments of stage_done in a stage that has a result."""

    output: Any


def _plain_name(name: str) -> str:
    """A stage's name without what models change in it: capitals, hyphens, underscores, spaces."""
    return " ".join(re.split(r"[\s_-]+", name.strip().casefold()))


def stage_done_tool(
    stage: str,
    also: Sequence[str] = (),
    *,
    stages: Sequence[str] = (),
    output: Mapping[str, Any] | None = None,
) -> Tool:
    """The closing signal of one stage. With `stages`, its schema is the same for all of them.

    `also`: other names that mean this stage, such as its label. `output`: the JSON Schema of its result.
    """
    names = {_plain_name(name) for name in (stage, *also)}

    async def stage_done(ctx: ToolContext, args: StageDone) -> str:
        """Say that this stage is done. The runtime then checks it."""
        if args.stage and _plain_name(args.stage) not in names:
            raise WrongStage(f'stage_done: this is stage "{stage}", not "{args.stage}"')
        await ctx.stage.leave(Note.model_validate(args.model_dump(exclude={"stage"})))
        return "ok"

    made = tool("control", StageDone)(stage_done)
    parameters = with_choices(made.spec.parameters, "stage", stages or (stage,))
    if output is None:
        return replace(made, spec=replace(made.spec, schema=parameters))
    parameters = _with_output(parameters, output)
    return replace(made, args=StageDoneWithOutput, spec=replace(made.spec, schema=parameters))


def with_choices(parameters: Mapping[str, Any], name: str, choices: Sequence[str]) -> dict[str, Any]:
    """The parameters of a tool, one of which must be one of these."""
    properties = parameters["properties"]
    return {**parameters, "properties": {**properties, name: {"enum": list(choices), **properties[name]}}}


def _with_output(parameters: Mapping[str, Any], output: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a tool with one more, `output`, after the summary: it matters more than the rest.

    Servers do not follow references in a schema.
    """
    schema = {"description": "The result of the stage", **slim_schema(output)}
    properties: dict[str, Any] = {}
    for name, given in parameters["properties"].items():
        properties[name] = given
        if name == "summary":
            properties["output"] = schema
    return {**parameters, "properties": properties, "required": [*parameters.get("required", ()), "output"]}


# How a model reports where it stands, without ending anything by itself.


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

    async def agent__task_status(ctx: ToolContext, args: TaskStatus) -> str:
        await ctx.stage.report_status(TaskStatusGiven.model_validate(args.model_dump()))
        return "ok"

    agent__task_status.__doc__ = (
        "Report your status with other calls, up to 15 words per field."
        f" The work ends if you call it alone {times(limit)}, or report completed, ready and no more tools."
    )
    return tool("control", TaskStatus)(agent__task_status)


task_status: Tool = status_tool()


# A tool for thinking, for models that have no channel of their own for it.


class Think(Args):
    """Arguments of think."""

    text: str = Field(description="The thought")


@tool("reasoning")
def think(ctx: ToolContext, args: Think) -> Outcome:
    """Think something through. Changes nothing."""
    return Outcome("ok")
