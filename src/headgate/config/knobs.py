"""The knobs of agent.yaml that shape a flow, and what they make of one."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from headgate.core import (
    PLAN_TOOL,
    Data,
    Flow,
    Limits,
    PhaseControl,
    PhaseLog,
    PromptPlace,
    Settings,
    Stage,
    ToolScope,
    all_needs,
    free_id,
)

# The list of stages in `flow`: stages, plain prompts, and files whose stages are put in their place.


FLOW_SUFFIXES = (".yaml", ".yml", ".json")
_SLUG_CHARS = 30


class FlowFile(Data):
    """A file whose stages are meant."""

    file: str


def expand_stages(value: Any) -> Any:
    """A list of stages in which a plain string is a flow file, or a stage with that prompt."""
    if not isinstance(value, list | tuple):
        return value
    taken = {item["id"] for item in value if isinstance(item, Mapping) and isinstance(item.get("id"), str)}
    stages: list[Any] = []
    for item in value:
        if not isinstance(item, str):
            stages.append(item)
        elif item.endswith(FLOW_SUFFIXES) and " " not in item:
            stages.append({"file": item})
        else:
            stage_id = free_id(_slug(item), taken, "-")
            stages.append({"id": stage_id, "prompt": item})
    return stages


def _slug(prompt: str) -> str:
    words = re.findall(r"[a-z0-9]+", prompt.lower())
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word
        if len(longer) > _SLUG_CHARS:
            break
        slug = longer
    slug = slug or "stage"
    return slug if slug[0].isalpha() else f"stage-{slug}"


Policy = TypeVar("Policy", bound=Data)


def _flow_form(value: Any) -> str:
    return "stages" if isinstance(value, list | tuple) else "name"


def _stage_form(value: Any) -> str:
    return (
        "file" if isinstance(value, FlowFile) or (isinstance(value, Mapping) and "file" in value) else "stage"
    )


FlowEntry = Annotated[
    Annotated[FlowFile, Tag("file")] | Annotated[Stage, Tag("stage")], Discriminator(_stage_form)
]
FlowChoice = Annotated[
    Annotated[str, Tag("name")] | Annotated[tuple[FlowEntry, ...], Field(min_length=1), Tag("stages")],
    Discriminator(_flow_form),
    BeforeValidator(expand_stages),
]


class FlowKnobs(Settings):
    """How a task is carried out, as far as the flow does not say so itself."""

    task_flow_mode: Literal["auto", "staged", "staged3", "branched", "flat", "repair"] = "auto"
    """The built-in flow to use; `headgate flows` lists them. `auto` means `repair` if the model is small,
    verification steps exist and the task does not ask for something new, and `staged` otherwise."""
    task_plan_mode: Literal["first", "explore", "none"] = "explore"
    """In built-in flows: `explore` reads before it plans, `first` plans at once, `none` has no plan."""
    task_branching: bool = False
    """The same as `task_flow_mode: branched`: each step of the plan gets its own run."""
    task_skip_readonly: bool = False
    """Skip steps of the plan that change no file: those with `writes: false` in `plan_tasks`."""
    task_replan_max: int = Field(2, ge=0)
    """How often the plan may be rewritten because one of its steps failed."""
    task_output_mode: Literal["runtime", "human"] = "human"
    """What is printed at the end: `runtime` prints what was measured, `human` also what the model says."""
    benchmark_output_mode: Literal["runtime", "model"] = "runtime"
    """The line that `run --benchmark` prints: the runtime's result, or the model's last text."""
    flow: FlowChoice | None = None
    """A flow's name or file, or its stages; takes precedence over `task_flow_mode`."""
    flow_stage_retries: int | None = Field(None, ge=0)
    """How often to attempt a stage again, for stages that do not set it."""
    flow_stage_required: bool | None = None
    """Whether the flow fails if a stage fails, for stages that do not set it."""
    flow_retry_hints: bool = True
    """Tell the model what was missing when a stage is attempted again."""
    flow_history_mode: Literal["full", "tail"] | None = None
    """How much of its conversation a stage shows, all or only the end, for stages that do not set it."""
    flow_history_max_messages: int | None = Field(None, ge=2)
    """With `tail`: how many messages are kept."""
    flow_history_keep_first: bool | None = None
    """With `tail`: keep the first message, which contains the task."""
    flow_history_strip_thinking: bool | None = None
    """At compaction points, drop the reasoning from all but the latest exchange."""
    flow_history_tool_truncate_chars: int | None = Field(None, ge=0)
    """At compaction points, shorten older tool results to this many characters; 0: do not shorten them."""
    flow_history_tool_truncate_keep_last: int | None = Field(None, ge=0)
    """How many of the latest tool results are never shortened."""
    flow_context_window: int | None = Field(None, ge=0)
    """How many notes from earlier stages a stage receives; 0: none."""
    history_strip_thinking: bool | None = None
    """The same as `flow_history_strip_thinking`, which takes precedence."""
    history_tool_truncate_chars: int | None = Field(None, ge=0)
    """The same as `flow_history_tool_truncate_chars`, which takes precedence."""
    history_tool_truncate_keep_last: int | None = Field(None, ge=0)
    """The same as `flow_history_tool_truncate_keep_last`, which takes precedence."""
    tools_allow: tuple[str, ...] | None = None
    """The tools, by name or category, of stages that do not set them; absent: every tool."""
    tools_block: tuple[str, ...] | None = None
    """Tools, by name or category, that stages do not get, unless they set their own."""
    tools_visibility: Literal["hidden", "stable"] = "hidden"
    """`hidden` sends only the stage's own tools; `stable` sends the same list in every stage and refuses
    the other tools when they are called."""
    task_status: Literal["auto", "always", "never"] = "auto"
    """When the model gets a tool to report its status: together with tools that do work, always, or never."""
    task_status_standalone: int | None = Field(None, ge=1)
    """Replies that only report a status before the final turn is forced, for stages that do not set it."""
    loop_detection: bool = True
    """Warn a model that is in a loop, then refuse its repeated calls, then make it conclude."""
    loop_identical_calls: int | None = Field(None, ge=2)
    """How many identical calls with identical results count as a loop."""
    loop_reads: int | None = Field(None, ge=2)
    """How many turns in a row that read nothing new count as a loop, in a stage that may write."""
    loop_thoughts: int | None = Field(None, ge=2)
    """How many turns that only think count as a loop."""
    loop_patience: int | None = Field(None, ge=1)
    """How much longer a loop may continue before the final turn is forced."""
    limits: Limits = Limits()
    """Hard caps on a whole task: turns, tokens, seconds, cost."""
    phase_control: PhaseControl = PhaseControl()
    """Hints for each phase, outside the conversation."""
    phase_prompt_place: PromptPlace = "tail"
    """Where a phase's hint goes: after the last message, or into the system prompt."""
    phase_log: PhaseLog = "off"
    """Where phase changes are logged: standard output, `.headgate/logs/TASK.log`, or both."""
    protect_tests: Literal["off", "existing", "all"] = "off"
    """Protect tests: `existing` blocks changes to existing tests, `all` also blocks new ones."""
    test_paths: tuple[str, ...] = ()
    """Paths (globs) of tests, in addition to files with the usual names and files that verification steps
    name."""

    @model_validator(mode="after")
    def _one_mode(self) -> "FlowKnobs":
        chosen = self.task_flow_mode if "task_flow_mode" in self.model_fields_set else "branched"
        if self.task_branching and chosen != "branched":
            raise ValueError(f"task_branching: true means task_flow_mode: branched, not {chosen}: keep one")
        if self.mode == "branched" and self.task_plan_mode == "none" and self.flow is None:
            raise ValueError("the branched flow needs a plan, which task_plan_mode: none leaves out")
        return self

    @property
    def mode(self) -> str:
        """The built-in flow to use."""
        return "branched" if self.task_branching else self.task_flow_mode


_VIEW = ("strip_thinking", "truncate_chars", "truncate_keep_last")


def tune(flow: Flow, knobs: FlowKnobs, *, builtin: bool = False) -> Flow:
    """A flow with what the knobs say wherever it does not say so itself; a built-in one always gives way."""
    given = {"replan_max": knobs.task_replan_max, "skip_readonly": knobs.task_skip_readonly}
    chosen = {name: value for name, value in given.items() if name not in flow.model_fields_set}
    stages = tuple(_tune_stage(stage, knobs, builtin) for stage in flow.stages)
    replan = _tune_stage(flow.replan, knobs, builtin)
    return flow.model_copy(update={**chosen, "stages": stages, "replan": replan})


def _tune_stage(stage: Stage, knobs: FlowKnobs, builtin: bool) -> Stage:
    if stage.stages:
        inner = tuple(_tune_stage(child, knobs, builtin) for child in stage.stages)
        return stage.model_copy(update={"stages": inner})
    view: dict[str, Any] = {
        "history": knobs.flow_history_mode,
        "max_messages": knobs.flow_history_max_messages,
        "keep_first": knobs.flow_history_keep_first,
        "notes_window": knobs.flow_context_window,
    }
    for name in _VIEW:
        written = {"strip_thinking": "strip_thinking"}.get(name, f"tool_{name}")
        own = getattr(knobs, f"flow_history_{written}")
        view[name] = getattr(knobs, f"history_{written}") if own is None else own
    scope = ToolScope(allow=knobs.tools_allow, block=knobs.tools_block or ())
    update: dict[str, Any] = {
        "view": _fill_in(stage.view, view, builtin),
        "budget": _fill_in(stage.budget, _budget(knobs), builtin),
        "tools": _fill_in(stage.tools, {"allow": scope.allow, "block": scope.block or None}, False),
    }
    own = {"required": knobs.flow_stage_required, "retry_hints": knobs.flow_retry_hints}
    update |= _left_open(stage, own, False)
    if stage.candidates or stage.kind != "talk":  # it calls no tools, and has no conversation
        update = {name: update[name] for name in ("budget", "required") if name in update}
    return stage.model_copy(update=update)


def _budget(knobs: FlowKnobs) -> dict[str, Any]:
    loops = {
        "identical_calls": knobs.loop_identical_calls,
        "idle_reads": knobs.loop_reads,
        "idle_thoughts": knobs.loop_thoughts,
    }
    if not knobs.loop_detection:
        loops = dict.fromkeys(loops, 0)
    own = {"retries": knobs.flow_stage_retries, "standalone_status": knobs.task_status_standalone}
    return {**own, **loops, "loop_patience": knobs.loop_patience}


def _fill_in(policy: Policy, values: Mapping[str, Any], wins: bool) -> Policy:
    return policy.model_copy(update=_left_open(policy, values, wins))


def _left_open(policy: Data, values: Mapping[str, Any], wins: bool) -> dict[str, Any]:
    """The values that were given and that the policy, as written, leaves open, or that win over it."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and (wins or name not in policy.model_fields_set)
    }


def with_plan_mode(flow: Flow, mode: str) -> Flow:
    """A flow without the stage that writes the plan (`none`), or without those that it needs (`first`).

    Of a built-in flow, that is the stage whose tools name the one that writes plans.
    """
    plans = [stage.id for stage in flow.stages if PLAN_TOOL in (stage.tools.allow or ())]
    if not plans or mode == "explore":
        return flow
    needs = {stage.id: stage.needs for stage in flow.stages}
    dropped = set(plans) if mode == "none" else all_needs(needs[plans[0]], needs)
    kept = [
        stage.model_copy(update={"needs": tuple(_without(stage.needs, dropped, needs))})
        for stage in flow.stages
        if stage.id not in dropped
    ]
    return flow.model_copy(update={"stages": tuple(kept)})


def _without(wanted: tuple[str, ...], dropped: set[str], needs: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Needs, with each dropped stage replaced by what it needed itself."""
    found: list[str] = []
    for need in wanted:
        found += _without(needs[need], dropped, needs) if need in dropped else [need]
    return list(dict.fromkeys(found))
