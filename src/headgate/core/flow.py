"""A flow: stages, and the five knobs of each. Everything here is data that a YAML file can hold."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from headgate.core.conditions import CODE, check_condition
from headgate.core.instructions import SystemPart, system_parts
from headgate.core.knobs import ID, Agent, Budget, Compaction, ToolScope, ViewPolicy, spread_agent
from headgate.core.names import (
    ERROR_NAMES,
    FLAT_NAMES,
    checks_from_list,
    nest_flat_names,
    spell_out_on_error,
)
from headgate.core.settings import Data

if TYPE_CHECKING:
    from headgate.core.recipes import Recipe

PLANNER = "planner"
"""The kind of a stage that has recipes carried out."""
DRIVE, DRIVEN = "drive", "driven"
"""A stage whose model works through the stages in it, and one that it carries out in its conversation."""
SCOUTS = {"code": "Scout A", "build": "Scout B"}
"""What may gather facts before a model is asked, and what people are told it is called."""
WITHOUT_BUDGET = ("verify", "review", "suspects", "scout")
"""Kinds of stages that the runtime itself carries out."""
TASKS_ENDED = "tasks_ended"
"""The check that every stage of the kind `drive` has."""
REST = "*"
"""In `needs`: every other stage of the group has ended, or cannot run."""
Priority = Literal["low", "normal", "high", "critical"]

_CONDITION = r"again|replan|suspects|no_suspects|(?:not )?[A-Za-z0-9][\w.-]{0,39}\.(?:passed|failed|skipped)"
_UNTIL = r"[A-Za-z0-9][\w.-]{0,39}\.passed"


class Candidates(Data):
    """Answers, each tried in a copy of the tree. A turn is one answer, and no answer sees another."""

    ask: Literal["line", "missing", "function", "file"] = "function"
    """What to ask for: a line that replaces another, a line that is missing in a function, a function, or a
    whole file. A line is tried in every place where it may belong."""
    as_json: bool = False
    """Require the answer as JSON, `{"code": ...}`, if the server can enforce it."""
    suspects: int = Field(1, ge=1)
    """How many places to ask about, one after the other, the most suspect first."""
    longest: int = Field(0, ge=0)
    """Of these, leave out functions with more lines; 0: none."""
    cut_off: int = Field(0, ge=0)
    """Leave the stage after so many answers that were cut off at `max_tokens`; 0: never."""
    stale: int = Field(0, ge=0)
    """Leave the stage after so many answers in a row that are unusable, unchanged or repeated; 0: never."""
    temperature: float | None = Field(None, ge=0)
    """Sampling temperature for the answers; absent: the model's own setting."""
    max_tokens: int = Field(1000, ge=16)
    """The longest answer, in tokens."""


class Repeat(Data):
    """A group that repeats: its stages run again, told what failed, until one of them passes."""

    until: str
    """The stage of the group that must pass, such as `verify.passed`."""
    max: int = Field(12, ge=1)
    """The rounds in which it may fail. After the last one, the task ends STUCK."""
    replan_every: int = Field(0, ge=0)
    """After so many failed rounds in a row, the stage with `when: replan` runs first; 0: never."""
    no_progress: int = Field(0, ge=0)
    """Failed rounds in a row that change nothing before the task ends STUCK; 0: never."""
    idle_attempts: int = Field(0, ge=0)
    """More attempts at stages in a row without a successful call end the task as STUCK; 0: never."""

    @field_validator("until")
    @classmethod
    def _check_until(cls, until: str) -> str:
        if not re.fullmatch(_UNTIL, until):
            raise ValueError("must name a stage of the group, such as `verify.passed`")
        return until


CONTEXT_DOCUMENT = "context.md"
"""The document about the task as it stands."""


class InputDoc(Data):
    """A document that a stage is given when it starts."""

    path: str = Field(min_length=1)
    """`context.md`, or a file of the repository."""
    optional: bool = False
    """The stage can do without it. Otherwise a file that is not there is an error."""
    max_tokens: int = Field(1500, gt=0)
    """What is longer is cut in the middle, with a mark that says how much."""
    path_type: Literal["turn", "repo"] = "turn"
    """`turn`: a document about the task as it stands, of which there is `context.md`. `repo`: a file of the
    repository."""

    @model_validator(mode="after")
    def _check_path(self) -> "InputDoc":
        if self.path_type == "turn" and self.path != CONTEXT_DOCUMENT:
            raise ValueError(
                f"must have the path `{CONTEXT_DOCUMENT}`, or `path_type: repo` for a file of the repository"
            )
        if self.path.startswith("/") or ".." in self.path.split("/"):
            raise ValueError(f"must name a file of the repository, not {self.path}")
        return self


class Stage(Data):
    """One prompt with five knobs: tools, view, checks, budget, model. A stage with `stages` is a group."""

    id: str = Field(pattern=ID)
    """The stage's name in the flow, in `needs`, in notes and in the log. Stages with the same id in different
    groups share their conversation."""
    kind: str = Field("talk", pattern=r"^[a-z][a-z_]{0,39}$")
    """What the stage does: `talk` is a conversation with tools, `verify` runs the verification steps,
    `review` looks at the diff, `scout` finds out about the task, `drive` lets the model start and complete
    the stages in it, `answer`, `mutate` and `suspects` belong to the flow `repair`."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The settings of its kind. In a flow file, they are written under the name of the kind."""
    label: str = ""
    """The name that people see; if empty, the id in capitals."""
    prompt: str = ""
    """The prompt that the model gets when the stage starts."""
    system: tuple[SystemPart, ...] = ()
    """Instructions for this stage: a text, a part with a `name` and a `value`, or a list of them. A stage
    with its own transcript has them in its system prompt, another one in the message that it starts with."""
    variables: dict[str, Any] = Field(default_factory=dict)
    """Values that the model is told in this stage only. They replace those of the flow with the same name."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Anything that belongs to the stage. Headgate does not look at it."""
    output_schema: dict[str, Any] | None = None
    """A JSON Schema for the `output` that the model gives with the closing signal."""
    output_type: str = ""
    """The Python type of the output, as `module:name`; only in a flow that a Python program runs."""
    accept: str = ""
    """A Python function that judges the output, as `module:name`; only in a flow that a program runs."""
    model: str | None = None
    """Knob 5: a name from `models` in agent.yaml, or a model such as `openai/qwen3-4b`."""
    agent: Agent | None = None
    """Another agent carries the stage out: its model, what it is told, what it inherits; see below."""
    tools: ToolScope = ToolScope()
    """The tools of the stage; see below."""
    view: ViewPolicy = ViewPolicy()
    """What the model sees of the conversation; see below."""
    checks: dict[str, Any] = Field(default_factory=dict, validate_default=True)
    """Knob 3: what must hold before the stage can end; see below."""
    budget: Budget = Budget()
    """How many turns and retries, how long, and what happens after that; see below."""
    advance: Literal["signal", "rules"] = "signal"
    """`signal`: the model says that it is done; `rules`: the stage ends as soon as its checks hold."""
    allow_missing_done: bool = False
    """No signal is needed if the checks hold: a reply without tool calls counts as the signal. In a stage
    that has checks, so does running out of turns or time."""
    required: bool = True
    """The flow fails if this stage fails; otherwise the flow continues."""
    needs: tuple[str, ...] = ()
    """Stages that must complete before this one starts; `"*"`: every other one has ended, or cannot run."""
    on_skip: Literal["skip", "run"] | None = None
    """What happens to this stage if a stage that it needs was skipped: `skip`, it is skipped as well; `run`,
    it runs. Absent: it runs if the other stage did not apply, and not if its budget gave it up."""
    priority: Priority = "normal"
    """Which of several ready stages runs first; equal ones run in file order."""
    retry_hints: bool = True
    """Tell the model what was missing when the stage is attempted again."""
    foreach: Literal["plan", "recipe"] | None = None
    """`plan`: run this stage once for each step of the plan; `{item.description}` and the like are filled
    in. `recipe`, in a stage of the kind `planner`: stands for the recipes that it has executed."""
    input_docs: tuple[InputDoc, ...] = ()
    """Documents that the stage is given when it starts, such as `{path: context.md}`."""
    execution: int = 0
    """The part of the work, by its number, that the stage belongs to; not for files."""
    item: str = ""
    """The step that a stage made by `foreach` carries out; not for files."""
    candidates: Candidates | None = None
    """Ask for whole answers instead of tool calls, and keep the first one that passes; see below. Short
    for `kind: answer` with these settings."""
    when: str | None = None
    """Run the stage only if this holds: `STAGE.passed`, `STAGE.failed` or `STAGE.skipped`, also with `not`
    before it, for an earlier stage of the same group; an expression over `results.STAGE.FIELD` and
    `variables.NAME`, such as `results.look.count > 2`; `code:NAME`, a function of the program; `again`, in
    every round of a group but the first; `replan`, in a round in which the plan is due to be rewritten. In
    a flow with `begin: verify`, `suspects` means that the first check fails and shows where to look, and
    `no_suspects` the opposite."""
    stages: tuple["Stage", ...] = Field((), validate_default=True)
    """The stages of a group. A group has no prompt, tools or conversation of its own. In a stage of the kind
    `drive`: the tasks that its model works through."""
    repeat: Repeat | None = None
    """Run the group's stages again until one of them passes; see below."""
    join: Literal["all", "any"] = "all"
    """`all`: the group ends when its stages have ended; `any`: when one has completed. The others are then
    skipped."""
    max_parallel: int = Field(1, ge=1)
    """How many stages of a group may run at once. Only stages without inner stages, with a conversation of
    their own and without tools that write or run take part, and the kinds `answer` and `mutate`."""
    delivers: bool = False
    """The work of this stage is the task's result. If the stage ends without the closing signal, files must
    have changed and verification must pass. By default, this is the stage that fixes failed checks."""

    @model_validator(mode="before")
    @classmethod
    def _nest_flat_names(cls, value: Any) -> Any:
        return settings_of_kind(spread_agent(nest_flat_names(value)))

    @field_validator("checks", mode="before")
    @classmethod
    def _checks_from_list(cls, value: Any, info: ValidationInfo) -> Any:
        checks = checks_from_list(value)
        if info.data.get("kind") == DRIVE and isinstance(checks, Mapping):
            return {TASKS_ENDED: True, **checks}
        return checks

    @field_validator("system", mode="before")
    @classmethod
    def _system_parts(cls, value: Any) -> Any:
        return system_parts(value)

    @field_validator("stages")
    @classmethod
    def _put_in_drive(cls, stages: tuple["Stage", ...], info: ValidationInfo) -> tuple["Stage", ...]:
        if info.data.get("kind") == PLANNER and not stages:
            return (cls(id="steps", foreach="recipe"),)
        if info.data.get("kind") != DRIVE or "id" not in info.data:
            return stages
        return tuple(stage.driven_by(info.data["id"]) for stage in stages)

    @field_validator("when")
    @classmethod
    def _check_condition(cls, when: str | None) -> str | None:
        if when is not None and not re.fullmatch(_CONDITION, when):
            check_condition(when)
        return when

    @property
    def references(self) -> tuple[str, ...]:
        """The functions and types of a program that the stage names."""
        condition = self.when.removeprefix(CODE) if self.when and self.when.startswith(CODE) else ""
        return tuple(filter(None, (self.accept, self.output_type, condition)))

    @property
    def is_group(self) -> bool:
        """Whether the runtime runs the stages in it. A model may do that instead; see `DRIVE`."""
        return bool(self.stages) and self.kind not in (DRIVE, PLANNER)

    def driven_by(self, driver: str) -> "Stage":
        """The stage as one that the model of another stage starts.

        A plain conversation continues that of the driver. Whatever else it is runs apart from it.
        """
        apart = self.stages or self.agent or self.model or self.candidates or self.kind != "talk"
        if apart or self.view.transcript not in ("own", "parent"):
            return self
        view = self.view.model_copy(update={"transcript": driver})
        return self.model_copy(update={"kind": DRIVEN, "view": view})

    @property
    def title(self) -> str:
        return self.label or self.id.upper()

    def leaves(self) -> Iterator["Stage"]:
        """The stage itself, or the stages in a group, also in its inner groups."""
        for stage in self.stages:
            yield from stage.leaves()
        if not self.is_group and self.foreach != "recipe":
            yield self


def all_stages(stages: Iterable[Stage]) -> Iterator[Stage]:
    """These stages, and those in their groups."""
    for stage in stages:
        yield stage
        yield from all_stages(stage.stages)


def settings_of_kind(value: Any) -> Any:
    """A stage as written, with what stands under the name of its kind as its settings."""
    if not isinstance(value, Mapping):
        return value
    kind = value.get("kind", "talk")
    if not isinstance(kind, str) or kind in Stage.model_fields or kind not in value:
        return value
    if "settings" in value:
        raise ValueError(f"`{kind}` and `settings` are the same: keep one of them")
    return {**{key: item for key, item in value.items() if key != kind}, "settings": value[kind]}


REPLAN = Stage(
    id="replan",
    label="REPLAN",
    tools=ToolScope(allow=("read", "ask_scout", "reasoning", "plan_tasks")),
    advance="rules",
    checks={"plan_written": True},
    budget=Budget(turns=10, retries=0, exhausted="advance"),
)


def _error_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """What a flow as written says about errors, as fields of a stage's budget."""
    spelt = spell_out_on_error({name: value[name] for name in ERROR_NAMES if name in value})
    fields = {FLAT_NAMES[name][1]: item for name, item in spelt.items()}
    try:
        read = Budget.model_validate(fields)
    except ValidationError as error:
        said = error.errors()[0]
        name = next(name for name in spelt if FLAT_NAMES[name][1] == said["loc"][0])
        raise ValueError(f"`{name}`: {said['msg'].lower()}") from None
    return {name: getattr(read, name) for name in fields}


def _with_budget(stage: Stage, fields: Mapping[str, Any]) -> Stage:
    """A stage, or the stages of a group, with fields of the budget where they do not say otherwise."""
    if stage.kind in WITHOUT_BUDGET:
        return stage
    if stage.stages and stage.kind != PLANNER:
        inside = tuple(_with_budget(child, fields) for child in stage.stages)
        return stage.model_copy(update={"stages": inside})
    said = stage.budget.model_fields_set
    lacking = {name: item for name, item in fields.items() if name not in said}
    return stage.model_copy(update={"budget": stage.budget.model_copy(update=lacking)})


class Flow(Data):
    """How a task is carried out."""

    name: str
    description: str = ""
    stages: tuple[Stage, ...] = Field(min_length=1)
    scouts: tuple[Literal["code", "build"], ...] = ()
    """`code`, `build`: what finds out about the task first. Short for stages of the kind `scout`."""
    begin: Literal["verify"] | None = None
    """`verify`: run the verification steps before the first stage. The stages get the failures."""
    checks: dict[str, Any] = Field(default_factory=dict)
    """Run after the last stage."""
    fix: str | None = None
    """The stage that fixes a failed check; by default the last one that may write."""
    replan: Stage = REPLAN
    """What happens when fixing has failed several times. It is not part of the sequence."""
    replan_max: int = Field(2, ge=0)
    """How often the plan is rewritten because one of its steps failed."""
    skip_readonly: bool = False
    """Skip steps of the plan that say `writes: false`."""
    max_parallel: int = Field(1, ge=1)
    """How many of the flow's own stages may run at once, as for a group."""
    variables: dict[str, Any] = Field(default_factory=dict)
    """Values that the model is told in every stage."""
    system: tuple[SystemPart, ...] = ()
    """Instructions for every stage: a text, a part with a `name` and a `value`, or a list of them."""
    compaction: Compaction | None = None
    """Replace the messages of ended stages by summaries, in conversations that stages share."""
    tools: tuple[str, ...] = ()
    """Tools of every stage, by import path; only in a flow that a Python program runs."""
    recipes: "dict[str, Recipe]" = Field(default_factory=dict)
    """The recipes that a planner may choose; not for flow files."""

    @field_validator("system", mode="before")
    @classmethod
    def _system_parts(cls, value: Any) -> Any:
        return system_parts(value)

    @model_validator(mode="wrap")
    @classmethod
    def _spread_error_names(cls, value: Any, read: ModelWrapValidatorHandler["Flow"]) -> "Flow":
        """What it says about errors goes into each stage that does not say it itself."""
        if not isinstance(value, Mapping) or not set(ERROR_NAMES) & set(value):
            return read(value)
        fields = _error_fields(value)
        flow = read({key: item for key, item in value.items() if key not in ERROR_NAMES})
        return flow.model_copy(update={"stages": tuple(_with_budget(stage, fields) for stage in flow.stages)})

    @field_validator("checks", mode="before")
    @classmethod
    def _checks_from_list(cls, value: Any) -> Any:
        return checks_from_list(value)

    def leaves(self) -> Iterator[Stage]:
        """Every stage that is not a group."""
        for stage in self.stages:
            yield from stage.leaves()

    def possible_leaves(self) -> "Iterator[Stage]":
        """Its leaves, and those of all recipes that may be carried out."""
        yield from self.leaves()
        for recipe in self.recipes.values():
            for stage in recipe.stages:
                yield from stage.leaves()

    @property
    def models(self) -> tuple[str | None, ...]:
        """The names of the models that are asked; None is the task's own."""
        stages = (*self.possible_leaves(), self.replan)
        agent = self.compaction.agent if self.compaction else None
        of_recipes = [recipe.model for recipe in self.recipes.values()]
        named = (*(stage.model for stage in stages), *of_recipes, agent.model if agent else None)
        return tuple(dict.fromkeys((None, *named)))

    @property
    def verifies(self) -> bool:
        """Whether the verification steps are part of the flow, in the short form or as a stage."""
        return bool(self.checks.get("verify")) or any(leaf.kind == "verify" for leaf in self.leaves())


Ending = Literal["completed", "exhausted", "skipped", "failed"]
