"""Knobs of a stage: the tools that are visible, the history that the model sees, the budget, the agent."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from headgate.core.messages import Category, ToolSpec
from headgate.core.settings import Data

CATEGORIES: frozenset[Category] = frozenset({"read", "write", "run", "reasoning", "control"})
DONE_TOOL = "stage_done"
MEMORY_TOOL = "memory_save"
START_TOOL, COMPLETE_TOOL, FAIL_TOOL = "start_task", "complete_task", "fail_task"
"""Tools by which a model works through a list of tasks."""
EXECUTE_TOOL, ESCALATE_TOOL = "execute", "escalate"
"""Tools by which a planner has a recipe carried out, and a step hands its work back to the planner."""
TOOL_ALIASES = {
    "memory.save": MEMORY_TOOL,
    "memory.search": "memory_search",
    "skill.generator": "make_skill",
    "file.list": "ls",
    "file.read": "read_file",
    "file.write": "write_file",
    "file.edit": "edit_file",
    "file.search": "search",
    "file.find": "find_files",
    "test.run": "run_tests",
    "internet.research": "research",
    "flow_stage_done": DONE_TOOL,
}
"""Dotted and longer names that flow files may use for tools."""


def full_tool_name(stage: str, tool: str) -> str:
    """The full name of a tool that only one stage has, as a model may call it."""
    return f"task__{re.sub(r'[^A-Za-z0-9_-]', '_', stage)}__{tool}"


ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$"
"""The id of a stage."""


class ToolScope(Data):
    """Knob 1: what is visible. Entries are tool names or categories; `stage_done` is always there."""

    allow: tuple[str, ...] | None = None
    """Only these tools; absent: every tool."""
    block: tuple[str, ...] = ()
    """Never these tools, whatever `allow` says."""
    add: tuple[str, ...] = ()
    """Tools that only this stage has. They come with the program that runs the flow. One with the name of
    another tool replaces it in this stage."""
    exclusive: bool = False
    """Only the tools in `add`."""

    @field_validator("allow", "block", mode="before")
    @classmethod
    def _resolve_aliases(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return tuple(TOOL_ALIASES.get(name, name) if isinstance(name, str) else name for name in value)

    def admits(self, spec: ToolSpec) -> bool:
        if spec.name == DONE_TOOL:
            return True
        if self.exclusive:
            return False
        if spec.by_name and spec.name not in (self.allow or ()):
            return False
        names = {spec.name, spec.category}
        return (self.allow is None or bool(names & set(self.allow))) and not names & set(self.block)


class ViewPolicy(Data):
    """Knob 2: what history the model sees. The transcript itself is never changed."""

    transcript: str = Field("own", pattern=ID)
    """`own`: the stage has its own conversation; `parent`: it continues the flow's conversation. The id of
    another stage: it continues that stage's conversation."""
    history: Literal["full", "tail"] = "full"
    """`tail` drops the oldest exchanges at compaction points."""
    notes_window: int = Field(3, ge=0)
    """How many notes from earlier stages a stage with its own transcript receives."""
    max_messages: int = Field(40, ge=2)
    """With `tail`: the most messages to keep."""
    keep_first: bool = True
    """With `tail`: keep the stage's prompt."""
    strip_thinking: bool = True
    """At compaction points, drop the reasoning from all but the latest exchange."""
    truncate_chars: int = Field(0, ge=0)
    """At compaction points, shorten older tool results to this many characters; 0: do not shorten them."""
    truncate_keep_last: int = Field(3, ge=0)
    """How many of the latest tool results are never shortened."""
    max_tokens: int | None = Field(None, ge=256)
    """The most tokens of a request, where that is less than the context window: the conversation is cut
    before it has so many, and a tool result takes at most half of them."""


class Budget(Data):
    """Knob 4: how often and how long, and what happens then."""

    turns: int = Field(25, ge=1)
    """The most replies in one attempt at the stage."""
    retries: int = Field(1, ge=0)
    """How often to attempt the stage again if it does not complete."""
    retry_backoff: Literal["none", "linear", "exponential"] = "none"
    """How long to wait before each of these attempts: `linear` is 1, 2, 3 s and so on, `exponential` is 1, 2,
    4 s and so on, at most a minute; `none` is not at all."""
    bad_replies: int = Field(3, ge=1)
    """Unusable replies in a row before the final turn is forced."""
    failed_calls: int = Field(6, ge=0)
    """Turns in a row without a successful call, counted from the first failure, before the final turn is
    forced. Thoughts, plans and status reports are not successful calls. 0: never."""
    idle_attempts: int = Field(2, ge=0)
    """Attempts in a row without a successful call, across all stages, before no stage is attempted again.
    One more ends the task as STUCK. 0: never."""
    calls: int = Field(0, ge=0)
    """The most calls of one tool in an attempt. More are refused, and a call that was made already returns
    the earlier result unless something else has changed since; 0: no limit."""
    waits: int = Field(4, ge=0)
    """How often in a row to wait for an unavailable model. One that has answered in the task, or is being
    loaded, is waited for longer: see `model_wait` in [limits](#limits)."""
    backoff: float = Field(1.0, ge=0)
    """The first such wait, in seconds; each later wait doubles, up to a minute."""
    verify_loops: int = Field(12, ge=1)
    """Failed verifications before the task ends STUCK."""
    idle_rounds: int = Field(2, ge=0)
    """Rounds of the debug loop in a row that change nothing before the task ends STUCK; 0: never."""
    replan_every: int = Field(3, ge=0)
    """Failed verifications in a row before the plan is rewritten; 0: never."""
    standalone_status: int = Field(2, ge=1)
    """Replies that only report a status before the final turn is forced."""
    identical_calls: int = Field(3, ge=0)
    """Identical calls with identical results before the model gets a warning and further ones are refused;
    0: never."""
    idle_reads: int = Field(8, ge=0)
    """Turns in a row that read nothing new, in a stage that may write, before the model gets a warning;
    0: never."""
    idle_thoughts: int = Field(4, ge=0)
    """Turns that only think before the model gets a warning; 0: never."""
    loop_patience: int = Field(2, ge=1)
    """How much longer a loop may continue after the warning before the final turn is forced."""
    seconds: float | None = Field(None, gt=0)
    """Seconds after which an attempt at the stage takes no further turn; absent: no limit."""
    total_seconds: float | None = Field(None, gt=0)
    """Seconds after which the stage ends, however often it was attempted: what it waits for then, a reply or
    a tool that reads, is cut off, and there is no final turn; absent: no limit."""
    exhausted: Literal["final_turn", "advance", "skip", "fail", "stuck"] = "final_turn"
    """What happens when turns and retries are used up; `final_turn` and `advance` let the model conclude
    first."""


class AgentOptions(Data):
    """How the model of a stage answers, where that differs from its own settings."""

    temperature: float | None = Field(None, ge=0)
    """Sampling temperature."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Nucleus sampling."""
    max_tokens: int | None = Field(None, gt=0)
    """The longest reply, in tokens."""
    seed: int | None = None
    """For servers that can sample repeatably; others ignore it."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Extra fields in the request's body, for options that only some servers know."""


class Agent(Data):
    """A stage that another agent carries out: a run inside the flow, with its own model and conversation.

    What it says stays in that conversation. Its result enters the conversation around it as one message.
    """

    model: str | None = None
    """A name from `models` in agent.yaml, or a model such as `openai/qwen3-4b`; absent: the flow's model."""
    options: AgentOptions = AgentOptions()
    """Options for its requests: `temperature`, `top_p`, `max_tokens`, `seed`, `extra_body`."""
    context_transfer: Literal["full", "summary", "minimal"] = "summary"
    """What it is told about earlier stages: `full`, all that was said in them, as far as it fits its context
    window; `summary`, their notes; `minimal`, nothing but the task and its constraints."""
    inherit_tools: bool | tuple[str, ...] = True
    """Which of the flow's tools it has besides the stage's own: all, none, or these names and categories."""
    inherit_variables: bool | tuple[str, ...] = True
    """Which of the flow's variables it is told: all, none, or these."""

    def variables(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Of the flow's variables, those that the agent is told."""
        wanted = self.inherit_variables
        if isinstance(wanted, bool):
            return dict(known) if wanted else {}
        return {name: value for name, value in known.items() if name in wanted}


def spread_agent(value: Any) -> Any:
    """A stage as written, with what its agent says about the model and the tools put where that belongs.

    ValueError if the stage says something else there.
    """
    agent = value.get("agent") if isinstance(value, Mapping) else None
    if isinstance(agent, Agent):
        agent = agent.model_dump()
    if not isinstance(agent, Mapping):
        return value
    spread = dict(value)
    if agent.get("model") is not None:
        if spread.get("model") not in (None, agent["model"]):
            raise ValueError("`model` and `agent: {model}` are the same: keep one of them")
        spread["model"] = agent["model"]
    wanted = agent.get("inherit_tools", True)
    scope = spread.get("tools", {})
    scope = scope.model_dump(exclude_unset=True) if isinstance(scope, ToolScope) else scope
    if wanted is True or not isinstance(scope, Mapping):
        return spread
    field, item = ("exclusive", True) if wanted is False else ("allow", wanted)
    said = scope.get(field)
    if said not in (None, False) and said is not True and list(said) != list(wanted):
        raise ValueError("`tools: {allow}` and `agent: {inherit_tools}` are the same: keep one of them")
    spread["tools"] = {**scope, field: item}
    return spread


# What becomes of the messages of a stage that has ended.

Trigger = Literal["on_complete", "on_threshold", "batch", "manual"]
Strategy = Literal["aggressive", "moderate", "comprehensive"]
Preserved = Literal["outputs", "decisions", "errors"]


class CompactionAgent(Data):
    """A model that writes the summaries, in requests of its own."""

    model: str | None = None
    """A name from `models` in agent.yaml, or a model such as `openai/qwen3-4b`; absent: the task's model."""
    system_prompt: str | None = None
    """Its system prompt; absent: a built-in one."""
    output_schema: dict[str, Any] | None = None
    """The JSON schema of its answer, an object; absent: `summary`, `key_outputs`, `decisions`, `errors`."""

    @field_validator("output_schema")
    @classmethod
    def _check_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is None:
            return None
        names, required = schema.get("properties"), schema.get("required", [])
        if schema.get("type") != "object" or not isinstance(names, dict) or not names:
            raise ValueError("must be the JSON schema of an object: `type: object` with `properties`")
        if not isinstance(required, list) or any(name not in names for name in required):
            raise ValueError("`required` must be a list of names from `properties`")
        return schema


class Compaction(Data):
    """The messages of an ended stage are replaced by a summary, in conversations that stages share.

    Only what the model sees changes. The log keeps the conversation for as long as it keeps conversations.
    """

    enabled: bool = True
    """false: nothing is replaced, unless a program asks for it."""
    trigger: Trigger = "on_complete"
    """`on_complete`: when a stage ends. `on_threshold`: when a stage ends and the conversation is longer than
    `threshold`. `batch`: when `batch_size` stages have ended. `manual`: only when a program asks for it."""
    threshold: int = Field(50_000, ge=0)
    """With `on_threshold`: the characters that the conversation may have."""
    batch_size: int = Field(3, ge=1)
    """With `batch`: how many ended stages are replaced at once."""
    strategy: Strategy = "moderate"
    """`aggressive`: only whether the stage succeeded. `moderate`: what `preserve` names. `comprehensive`: the
    same, and every thought, call and result in a few words."""
    preserve: tuple[Preserved, ...] = ("outputs", "decisions", "errors")
    """What `moderate` and `comprehensive` keep: outputs (the stage's summary and the files it changed),
    decisions (also what comes next), errors (calls that failed, and risks)."""
    agent: CompactionAgent | None = None
    """Let a model write the summaries. If it fails, `strategy` is used."""
