"""Talking to models: one protocol, one module per wire format. What asks servers is in `network`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headgate.core import Model, ModelSettings, Price
from headgate.models.encoding import UNPARSED, arguments_as_object
from headgate.models.endpoint import (
    DEFAULT_URLS,
    check_key,
    explain_local_name,
    find_endpoint,
    is_hosted,
    is_own_server,
    split_model,
)
from headgate.models.profile import find_profile, profile_for, sees_images, with_price
from headgate.models.scripted import ScriptedModel


def check_model(settings: ModelSettings, script_root: Path | None = None) -> None:
    """ConfigError if the model cannot even be tried: an unknown form, a bad address, no key, no script."""
    if split_model(settings.model)[0] == "script":
        _load_script(settings, script_root)
    else:
        check_key(find_endpoint(settings))


@asynccontextmanager
async def open_configured_model(
    settings: ModelSettings, script_root: Path | None = None, cache: Path | None = None
) -> AsyncIterator[tuple[Model, ModelSettings]]:
    """A model, closed on leaving, and its settings with what the user left open filled in.

    A script's path is relative to `script_root`. What is asked of a server depends on `tool_transport`. The
    answers are kept in the folder `cache`, by default the user's own for this.
    """
    if split_model(settings.model)[0] == "script":
        yield _load_script(settings, script_root), settings
        return
    # The one lazy import of a room: the HTTP client and all that needs it take as long to load as the rest of
    # Headgate, and most commands ask no server.
    from headgate.models.network import complete_settings, open_model

    completed, inquiry = await complete_settings(settings, cache)
    async with open_model(completed, inquiry) as model:
        yield model, completed


def given_settings(model: Model) -> ModelSettings:
    """The settings of a model that a program hands in. Only a script says what it costs."""
    if isinstance(model, ScriptedModel) and model.price != Price():
        return ModelSettings(model=model.name, price=model.price)
    return ModelSettings(model=model.name)


def find_window(model: Model, settings: ModelSettings) -> int | None:
    """A model's context window in tokens: what its server said since it was opened, else the settings."""
    told = getattr(model, "context_window", None)
    return told if isinstance(told, int) else settings.context_window


def _load_script(settings: ModelSettings, script_root: Path | None) -> ScriptedModel:
    return ScriptedModel.load((script_root or Path()) / split_model(settings.model)[1])
