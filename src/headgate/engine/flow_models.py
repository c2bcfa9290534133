"""The flow that a task is carried out with, and the models that it asks."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headgate import repair, run
from headgate.checks import CHECKS, Check
from headgate.config import (
    Config,
    Loaded,
    flow_from_config,
    is_on_this_machine,
    provider_of,
    repository_source,
    require_checks,
    same_server,
)
from headgate.core import (
    CheckSpec,
    Data,
    Event,
    Flow,
    Model,
    ModelSettings,
    Options,
    PhaseProbed,
    Price,
    ReplyFailed,
    ReplyReceived,
    ToolSpec,
    expand_flow,
    stage_ids,
)
from headgate.engine.assembly import TOOLS
from headgate.errors import ConfigError
from headgate.models import (
    ScriptedModel,
    check_model,
    find_endpoint,
    open_configured_model,
    profile_for,
    with_price,
)
from headgate.store import Folder

SPECS = tuple(tool.spec for tool in TOOLS)


@dataclass(frozen=True)
class FlowParts:
    """What a flow may name besides tools."""

    checks: Mapping[str, Check] = field(default_factory=lambda: CHECKS)
    """The checks, by name; they run in this order."""
    kinds: Mapping[str, run.Kind] = field(default_factory=lambda: {**run.KINDS, **repair.KINDS})
    """What a stage can be, by name."""

    @property
    def check_specs(self) -> list[CheckSpec]:
        return [check.spec for check in self.checks.values()]

    @property
    def kind_settings(self) -> dict[str, type[Data]]:
        return {name: kind.settings for name, kind in self.kinds.items()}

    def expand(self, flow: Flow, tools: Iterable[ToolSpec]) -> Flow:
        """The tree that runs. ConfigError if it names something that this process does not have.

        The process that submitted the task may have had more checks and kinds.
        """
        require_checks(flow, self.check_specs)
        tree = expand_flow(flow, tools, self.check_specs)
        for leaf in tree.leaves():
            missing = [name for name in leaf.settings.get("checks", ()) if name not in self.checks]
            if leaf.kind not in self.kinds or missing:
                what = f"the check {missing[0]}" if missing else f"the kind {leaf.kind}"
                raise ConfigError(f'Stage "{leaf.id}" needs {what}, which this process does not have.')
        return tree


PARTS = FlowParts()
"""What ships with Headgate."""
KIND_SETTINGS = PARTS.kind_settings
CHECK_SPECS = tuple(PARTS.check_specs)


def choose_flow(
    loaded: Loaded, options: Options, folder: Folder, goal: str = "", parts: FlowParts = PARTS
) -> Flow:
    """The flow that a task is carried out with; ConfigError where there is none such."""
    if options.dry_run:
        goal = ""  # a flow that suits the goal may run the check first, which a dry run does not
    flow = flow_from_config(
        loaded.config,
        options.flow,
        folder.repo,
        SPECS,
        loaded.documents,
        goal,
        parts.check_specs,
        parts.kind_settings,
    )
    if options.dry_run and not any(leaf.kind == "talk" and not leaf.candidates for leaf in flow.leaves()):
        raise ConfigError(
            f"The flow {flow.name} runs commands, and a dry run runs none: choose another flow."
        )
    begins = flow.begin == "verify" or any(leaf.kind == "suspects" for leaf in flow.leaves())
    if begins and not loaded.config.verification.steps:
        raise ConfigError(
            f"The flow {flow.name} starts with the verification steps, and none are configured: "
            "set verification.steps in agent.yaml, or choose another flow."
        )
    return flow


def check_price(loaded: Loaded, settings: ModelSettings) -> None:
    """ConfigError where money is limited and nobody knows what a model costs."""
    priced = with_price(settings, profile_for(settings))
    if loaded.config.limits.cost is not None and priced.price == Price():
        raise ConfigError(f"`limits: cost` needs a `price` for {settings.model} in `models`.")


def requests_made(past: Iterable[Event], flow: Flow, model: str | None) -> int:
    """How often a task has asked one of its models so far."""
    leaves = [*flow.leaves(), flow.replan]
    models = {stage.id: stage.model for stage in leaves}
    steps = [stage for stage in leaves if stage.foreach]

    def asked(path: str) -> str | None:
        name = stage_ids(path)[-1]
        of_step = next((stage.model for stage in steps if name.startswith(f"{stage.id}-")), None)
        return models.get(name, of_step)

    requests = [event for event in past if isinstance(event.body, ReplyReceived | ReplyFailed | PhaseProbed)]
    return sum(asked(event.path) == model for event in requests)


def model_names(flow: Flow) -> tuple[str | None, ...]:
    """The models that a flow's stages name; None is the default."""
    return tuple(dict.fromkeys((None, *(stage.model for stage in (*flow.leaves(), flow.replan)))))


@dataclass(frozen=True, slots=True)
class FlowModel:
    """A model that a flow's stages ask."""

    name: str | None
    """What the stages call it; None is the default."""
    settings: ModelSettings
    address: str
    """The address of its server; empty for a script and for a model that was handed in."""
    handed_in: Model | None = None
    """The model itself, where it need not be opened."""


def find_models(config: Config, flow: Flow, given: Mapping[str | None, Model]) -> tuple[FlowModel, ...]:
    """The models that a flow's stages name: those that were handed in, else those of the configuration."""
    found: list[FlowModel] = []
    for name in model_names(flow):
        model = given.get(name)
        if model is not None:
            price = model.price if isinstance(model, ScriptedModel) else Price()
            found.append(FlowModel(name, ModelSettings(model=model.name, price=price), "", model))
        else:
            settings = config.model_settings(name)
            is_script = provider_of(settings.model) == "script"
            found.append(FlowModel(name, settings, "" if is_script else find_endpoint(settings).root))
    return tuple(found)


def check_models(models: Iterable[FlowModel], loaded: Loaded, repo: Path) -> None:
    """ConfigError if one of the configuration's models cannot be used."""
    for model in models:
        if model.handed_in is None:
            check_model(model.settings, repo)
            check_price(loaded, model.settings)


def describe_servers(
    models: Iterable[FlowModel], loaded: Loaded, options: Options, repo: Path
) -> tuple[str, ...]:
    """A line for each server on another machine that only a file of the repository sends code to."""
    lines: list[str] = []
    for model in models:
        root = model.address
        if not root or is_on_this_machine(root) or same_server(root) in loaded.chosen:
            continue
        # Only a configuration file can name an address; a flow file can name a model of a hosted service.
        named = None if model.settings.base_url else model.name
        if said_by := repository_source(repo, loaded, options.flow, named):
            lines.append(f"{said_by} in this repository sends the code that tasks read to {root}.")
    return tuple(dict.fromkeys(lines))


def steps_run(loaded: Loaded, flow: Flow) -> tuple[str, ...]:
    """The commands that verify a task with this flow."""
    verifies = flow.verifies or flow.begin == "verify"
    return tuple(step.command for step in loaded.config.verification.steps) if verifies else ()


async def open_models(
    stack: AsyncExitStack, found: Iterable[FlowModel], flow: Flow, repo: Path, past: Sequence[Event]
) -> tuple[dict[str | None, Model], dict[str | None, ModelSettings]]:
    """The models that a flow's stages name, open while the stack is, and their settings.

    A script goes on where an earlier process was in it.
    """
    models: dict[str | None, Model] = {}
    settings: dict[str | None, ModelSettings] = {}
    for model in found:
        if model.handed_in is not None:
            models[model.name], settings[model.name] = model.handed_in, model.settings
            continue
        opened, complete = await stack.enter_async_context(open_configured_model(model.settings, repo))
        if isinstance(opened, ScriptedModel):
            opened.skip(requests_made(past, flow, model.name))
        models[model.name], settings[model.name] = opened, complete
    return models, settings
