"""The flow that a task is carried out with, and the models that it asks."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from headgate import repair, run
from headgate.config import (
    Loaded,
    flow_from_config,
    is_on_this_machine,
    provider_of,
    repository_source,
    same_server,
)
from headgate.core import (
    Event,
    Flow,
    Model,
    ModelSettings,
    Options,
    PhaseProbed,
    Price,
    ReplyFailed,
    ReplyReceived,
    stage_ids,
)
from headgate.engine.assembly import TOOLS
from headgate.errors import ConfigError
from headgate.models import ScriptedModel, check_model, find_endpoint, open_fitted, profile_for, with_price
from headgate.store import Folder

SPECS = tuple(tool.spec for tool in TOOLS)
KINDS = {**run.KINDS, **repair.KINDS}
"""What a stage of a flow can be."""


def choose_flow(loaded: Loaded, options: Options, folder: Folder, goal: str = "") -> Flow:
    """The flow that a task is carried out with; ConfigError where there is none such."""
    if options.dry_run:
        goal = ""  # a flow that suits the goal may run the check first, which a dry run does not
    flow = flow_from_config(loaded.config, options.flow, folder.repo, SPECS, loaded.documents, goal)
    if options.dry_run and all(
        leaf.candidates or leaf.kind in ("answer", "suspects") for leaf in flow.leaves()
    ):
        raise ConfigError(
            f"The flow {flow.name} runs commands, and a dry run runs none: choose another flow."
        )
    if flow.begin == "verify" and not loaded.config.verification.steps:
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


def check_models(
    loaded: Loaded, flow: Flow, given: Mapping[str | None, Model], repo: Path
) -> tuple[tuple[str, str], ...]:
    """The models that a flow's stages ask, each with its server's address; a script has none.

    ConfigError if one cannot be used.
    """
    places: list[tuple[str, str]] = []
    for name in model_names(flow):
        handed_in = given.get(name)
        if handed_in is not None:
            places.append((handed_in.name, ""))
            continue
        settings = loaded.config.model_settings(name)
        check_model(settings, repo)
        check_price(loaded, settings)
        is_script = provider_of(settings.model) == "script"
        places.append((settings.model, "" if is_script else find_endpoint(settings).root))
    return tuple(dict.fromkeys(places))


def describe_servers(loaded: Loaded, flow: Flow, options: Options, repo: Path) -> tuple[str, ...]:
    """A line for each server on another machine that only a file of the repository sends code to."""
    lines: list[str] = []
    for name in model_names(flow):
        settings = loaded.config.model_settings(name)
        if provider_of(settings.model) == "script":
            continue
        root = find_endpoint(settings).root
        if is_on_this_machine(root) or same_server(root) in loaded.chosen:
            continue
        # Only a configuration file can name an address; a flow file can name a model of a hosted service.
        said_by = repository_source(repo, loaded, options.flow, None if settings.base_url else name)
        if said_by:
            lines.append(f"{said_by} in this repository sends the code that tasks read to {root}.")
    return tuple(dict.fromkeys(lines))


def steps_run(loaded: Loaded, flow: Flow) -> tuple[str, ...]:
    """The commands that verify a task with this flow."""
    verifies = flow.verifies or flow.begin == "verify"
    return tuple(step.command for step in loaded.config.verification.steps) if verifies else ()


async def open_models(
    stack: AsyncExitStack,
    loaded: Loaded,
    flow: Flow,
    given: Mapping[str | None, Model],
    repo: Path,
    past: Sequence[Event],
) -> tuple[dict[str | None, Model], dict[str | None, ModelSettings]]:
    """The models that a flow's stages name, open while the stack is, and their settings.

    Those that were handed in come first. A script goes on where an earlier process was in it.
    """
    models: dict[str | None, Model] = {}
    settings: dict[str | None, ModelSettings] = {}
    for name in model_names(flow):
        handed_in = given.get(name)
        if handed_in is not None:
            price = handed_in.price if isinstance(handed_in, ScriptedModel) else Price()
            models[name], settings[name] = handed_in, ModelSettings(model=handed_in.name, price=price)
        else:
            wanted = loaded.config.model_settings(name)
            opened, settings[name] = await stack.enter_async_context(open_fitted(wanted, repo))
            if isinstance(opened, ScriptedModel):
                opened.skip(requests_made(past, flow, name))
            models[name] = opened
    return models, settings
