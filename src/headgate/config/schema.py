"""`agent.yaml`: every key it may have, and which model a stage gets."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    SecretStr,
    Tag,
    model_validator,
)

from headgate.config.feature_settings import ResearchSettings, SkillSettings, WorktreeSettings
from headgate.config.phase_settings import PhaseControl, PhaseLog, PromptPlace
from headgate.config.scout_settings import ScoutSettings
from headgate.config.stage_forms import read_stages
from headgate.core import (
    Data,
    Limits,
    ModelSettings,
    Settings,
    Stage,
    ToolTransport,
    VerifyStep,
    is_openai_name,
    nearest,
)
from headgate.errors import ConfigError
from headgate.guard import ApprovalMode

NO_MODEL = (
    "No model is configured: set `model:` in {file}, HEADGATE_MODEL or --model, for example "
    "--model ollama/qwen3-coder."
)
MODEL_FORMS = "A model is ollama/NAME, openai/NAME, anthropic/NAME, script:FILE or a name in `models`."
_LOCAL_SERVERS = {"lmstudio": 1234, "vllm": 8000, "llamacpp": 8080, "local": 8080}


def provider_of(spec: str) -> str:
    """`openai` of `openai/qwen3-coder`, `script` of `script:FILE`; empty if the text names no provider."""
    found = re.match(r"(ollama|openai|anthropic)/.|(script):.", spec, re.DOTALL)
    return (found[1] or found[2]) if found else ""


def unknown_model(spec: str, names: Iterable[str] = ()) -> ConfigError:
    """The error for a text that names no model, with what was probably meant."""
    prefix, slash, name = spec.partition("/")
    server = re.sub(r"(_chat|[^a-z])", "", prefix.lower().removeprefix("hosted_"))
    if slash and name and server in _LOCAL_SERVERS:
        address = f"http://localhost:{_LOCAL_SERVERS[server]}/v1"
        return ConfigError(f'There is no provider "{prefix}": write openai/{name} and base_url {address}.')
    if slash and name and server == "ollama":
        return ConfigError(f'There is no provider "{prefix}": write ollama/{name}.')
    is_claude = spec.lower().startswith("claude")
    likely = f"{'anthropic' if is_claude else 'openai' if is_openai_name(spec) else 'ollama'}/{spec}"
    close = nearest(spec, names) or (None if slash else likely)
    hint = f': did you mean "{close}"?' if close else "."
    return ConfigError(f'There is no model "{spec}"{hint} {MODEL_FORMS}')


class Access(NamedTuple):
    """How a provider is reached when nothing else says so."""

    base_url: str | None
    api_key: SecretStr | None


# The list of stages in `flow`: stages, plain prompts, and files whose stages are put in their place.


class FlowFile(Data):
    """A file whose stages are meant."""

    file: str


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
    BeforeValidator(read_stages),
]


class FlowKnobs(Settings):
    """How a task is carried out, as far as the flow does not say so itself."""

    task_flow_mode: Literal["auto", "staged", "staged3", "branched", "flat", "repair", "planned"] = "auto"
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
    tools_visibility: Literal["auto", "hidden", "stable"] = "auto"
    """`hidden` sends only the stage's own tools; `stable` sends the same list in every stage and refuses
    the other tools when they are called. `auto`: `stable` for servers of your own, `hidden` for others."""
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
    name. With `!` in front: no tests, although they have such a name or a step runs them."""

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


class Verification(Settings):
    """How finished work is verified."""

    steps: tuple[VerifyStep, ...] = ()
    """The commands, run in this order; all must succeed."""
    accept_red_before: bool = False
    """Accept a step that fails exactly as it did before the task, with a warning."""
    red_before: bool = True
    """Run a step that fails once more on the tree as it was when the task started, and say what failed there
    as well."""
    network: bool = True
    """Let the steps use the network."""


class CommandSettings(Settings):
    """What commands get in the sandbox. A repository's file may only take away."""

    network: bool = False
    """Let the model's commands use the network. Verification steps have a setting of their own."""
    read: tuple[str, ...] = ()
    """Paths that commands may read, where the sandbox would hide them: `~/src/shared`."""
    write: tuple[str, ...] = ()
    """Paths outside the repository that commands may change, such as `/run/docker.sock`."""
    memory_mb: int | None = Field(None, ge=64)
    """Megabytes of memory for one command; absent: three quarters of this machine's."""
    processes: int = Field(4096, ge=16)
    """Processes and threads that one command may have."""
    file_mb: int = Field(8192, ge=1)
    """Megabytes that a file may grow to."""


class Monorepo(Settings):
    """One package of a repository that has several."""

    package: str = Field(min_length=1)
    """The package's directory. Commands and verification run there, and tasks write files only there."""


class Config(FlowKnobs):
    """What `agent.yaml`, the user's own file, the environment and the flags say together."""

    model_config = ConfigDict(hide_input_in_errors=True)

    model: str | None = None
    """The model to use: `ollama/NAME`, `openai/NAME`, `anthropic/NAME`, `script:FILE`, or a name from
    `models`."""
    base_url: str | None = None
    """The address of that model's server, such as `http://localhost:11434/v1`."""
    api_key: SecretStr | None = None
    """The key for that server; HEADGATE_API_KEY is a better place than a file."""
    tool_transport: ToolTransport | None = None
    """How models call tools, unless their own entry says otherwise: `auto`, `native`, `text` or `schema`."""
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    """Models under names that you choose, for use in `model` and in the stages of a flow."""
    verification: Verification = Verification()
    """The commands that decide whether work is done."""
    worktree: WorktreeSettings = WorktreeSettings()
    """What `--worktree` puts into a task's own tree."""
    monorepo: Monorepo | None = None
    """The package that tasks work on; the rest of the repository can only be read."""
    recipes: tuple[str, ...] = ()
    """Folders of the repository with recipes for the flow `planned`, besides those that Headgate has."""
    boundaries: tuple[str, ...] = ()
    """Paths (globs) that no task may write; [Boundaries](boundaries.md) describes the syntax."""
    allow_config_edits: bool = False
    """Let tasks change agent.yaml and the flow files that it names. Changes affect tasks submitted later."""
    secret_files: tuple[str, ...] = ()
    """Paths (globs) that the model may not read, in addition to those that are always hidden."""
    tool_result_chars: int = Field(16_000, ge=500)
    """The longest tool result that the model gets, in characters; the rest is saved to a file."""
    shell_timeout: float = Field(120, gt=0, allow_inf_nan=False)
    """Seconds that a command may take if the model sets no time."""
    shell_env: tuple[str, ...] = ()
    """Environment variables that commands may see even though their names look secret."""
    sandbox: Literal["auto", "bwrap", "off"] = "auto"
    """What commands run in: bubblewrap if it works here (`auto`), bubblewrap or nothing at all (`bwrap`), or
    no sandbox (`off`); see [Security](security.md)."""
    approvals: ApprovalMode | None = None
    """Before what a person is asked: `never`, `commands`, `writes` or `all`. Absent: before commands, if they
    run without a sandbox and there is a terminal."""
    allow_commands: tuple[str, ...] = ()
    """Commands (globs) that run without a question, such as `pytest *`."""
    allow_writes: tuple[str, ...] = ()
    """Paths (globs) that are written without a question."""
    commands: CommandSettings = CommandSettings()
    """What commands get in the sandbox."""
    skills: SkillSettings = SkillSettings()
    """Where skills are found and written; see [Memory and skills](memory-and-skills.md)."""
    scouts: ScoutSettings = ScoutSettings()
    """What is found out before the model is asked; see [Scouts](scouts.md). `off` switches it off."""
    research: ResearchSettings = ResearchSettings()
    """How the tool `research` searches the web; see [Research](research.md)."""
    keep_conversations: bool = False
    """Keep the conversation with the model after a task has ended. Without this, only those of the last ten
    tasks that ended STUCK are kept."""
    hypotheses: bool = True
    """Ask a model that is stuck, in one last request, what the cause may be."""
    agents_md: bool = True
    """Put the repository's AGENTS.md into the prompt."""

    _access: dict[str, Access] = PrivateAttr(default_factory=dict)
    _no_model: str = PrivateAttr(default=NO_MODEL.format(file="agent.yaml"))

    def with_access(self, access: Mapping[str, Access], no_model: str) -> Self:
        """A copy that knows how each provider is reached when nothing else says so.

        `no_model` is what to say where no model is configured.
        """
        copy = self.model_copy()
        copy._access = dict(access)
        copy._no_model = no_model
        return copy

    @property
    def package(self) -> str | None:
        """The monorepo's package that tasks work on; None where the repository is one project."""
        return self.monorepo.package if self.monorepo else None

    def with_package(self, package: str) -> Self:
        """A copy in which tasks work on this package."""
        return self.model_copy(update={"monorepo": Monorepo(package=package)})

    def model_settings(self, name: str | None = None) -> ModelSettings:
        """The default model (None), one from `models`, or one named by its spec.

        A model of the default's provider that names no address of its own is on the default's server; a key
        goes only to the server it was given for.
        """
        default = self._default_model()
        if name is None or name == self.model:
            return default
        chosen = self._find_model(name)
        provider = provider_of(chosen.model)
        access = self._access.get(provider, Access(None, None))
        if provider == provider_of(default.model) != "script":
            access = Access(default.base_url, default.api_key)
        base_url = chosen.base_url or access.base_url
        return _complete(chosen, base_url, access.api_key if base_url == access.base_url else None)

    def _default_model(self) -> ModelSettings:
        if not self.model:
            raise ConfigError(self._no_model)
        chosen = self._find_model(self.model)
        if provider_of(chosen.model) == "script":
            return chosen
        base_url = chosen.base_url or self.base_url
        return _complete(chosen, base_url, self.api_key if self.base_url in (None, base_url) else None)

    def _find_model(self, name: str) -> ModelSettings:
        chosen = self.models.get(name) or ModelSettings(model=name)
        if self.tool_transport and "tool_transport" not in chosen.model_fields_set:
            chosen = chosen.model_copy(update={"tool_transport": self.tool_transport})
        if provider_of(chosen.model):
            return chosen
        raise unknown_model(chosen.model, self.models)


def _complete(settings: ModelSettings, base_url: str | None, api_key: SecretStr | None) -> ModelSettings:
    update = {"base_url": base_url, "api_key": settings.api_key or api_key}
    return settings.model_copy(update=update)
