"""The models that the stages of a flow ask: which there are, where they are, and how they are opened."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

from headgate.config import (
    Config,
    Loaded,
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
    Price,
    Spending,
    stage_ids,
)
from headgate.errors import ConfigError
from headgate.features.compaction import StageCompacted
from headgate.first_use import dataclass
from headgate.models import (
    ScriptedModel,
    find_endpoint,
    given_settings,
    is_own_server,
    open_configured_model,
    profile_for,
    with_price,
)


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
        task_type, _, step = name.partition("-")
        if recipe := flow.recipes.get(task_type):
            return models.get(name, recipe.model_of(step.partition(".")[2]))
        return models.get(name, of_step)

    agent = flow.compaction.agent if flow.compaction else None
    past = list(past)
    spending = [event for event in past if isinstance(event.body, Spending)]
    requests = [event for event in spending if not isinstance(event.body, StageCompacted)]
    summaries = [event.body.requests for event in past if isinstance(event.body, StageCompacted)]
    of_summaries = sum(summaries) if agent and agent.model == model else 0
    return sum(asked(event.path) == model for event in requests) + of_summaries


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
    for name in flow.models:
        model = given.get(name)
        if model is not None:
            found.append(FlowModel(name, given_settings(model), "", model))
        else:
            try:
                settings = config.model_settings(name)
                is_script = provider_of(settings.model) == "script"
                found.append(FlowModel(name, settings, "" if is_script else find_endpoint(settings).root))
            except ConfigError as error:
                raise ConfigError(f"{_who_names(flow, name)}{error}") from error
    return tuple(found)


def _who_names(flow: Flow, model: str | None) -> str:
    """The recipe that names a model, for a message about it; nothing if the flow does itself."""
    named = [one for one in flow.recipes.values() if model in one.models]
    return f"{named[0].source or f'The recipe {named[0].name}'}: " if named else ""


def models_that_keep_lists(
    models: Iterable[FlowModel], visibility: Literal["auto", "hidden", "stable"]
) -> frozenset[str | None]:
    """Those that are sent the same list of tools in every stage: with `auto`, on the user's own servers."""
    return frozenset(
        model.name
        for model in models
        if visibility == "stable" or (visibility == "auto" and model.address and is_own_server(model.address))
    )


def describe_servers(
    models: Iterable[FlowModel], loaded: Loaded, options: Options, repo: Path, flow: Flow
) -> tuple[str, ...]:
    """A line for each server on another machine that only a file of the repository sends code to."""
    recipes = {name: one.source for one in flow.recipes.values() if one.source for name in one.models}
    lines: list[str] = []
    for model in models:
        root = model.address
        if not root or is_on_this_machine(root) or same_server(root) in loaded.chosen:
            continue
        # Only a configuration file can name an address; a flow file can name a model of a hosted service.
        named = None if model.settings.base_url else model.name
        is_own = named is None or named in loaded.config.models
        of_recipe = "" if is_own else recipes.get(named, "")
        if said_by := of_recipe or repository_source(repo, loaded, options.flow, named):
            lines.append(f"{said_by} in this repository sends the code that tasks read to {root}.")
    return tuple(dict.fromkeys(lines))


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
