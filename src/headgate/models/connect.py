"""A model that is ready to be asked: with its profile, and tools called as its settings or server want."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headgate.core import Model, ModelSettings
from headgate.models.endpoint import split_model
from headgate.models.transports.choice import fit, wrap
from headgate.models.transports.server_facts import Findings, Inquiry
from headgate.models.wire.connect import open_wire


@asynccontextmanager
async def open_model(
    settings: ModelSettings, script_root: Path | None = None, findings: Findings | None = None
) -> AsyncIterator[Model]:
    """A model that is ready to be asked, closed on leaving, with its tools called as the settings say.

    A script's path is relative to `script_root`. `findings` are what is known about the server.
    """
    if split_model(settings.model)[0] == "script":
        async with open_wire(settings, script_root) as model:
            yield model
        return
    async with _open_wrapped(settings, Inquiry(settings, findings=findings)) as model:
        yield model


@asynccontextmanager
async def open_fitted(
    settings: ModelSettings, script_root: Path | None = None, cache: Path | None = None
) -> AsyncIterator[tuple[Model, ModelSettings]]:
    """As `open_model`, and the settings with what the user left open filled in.

    What is asked for that depends on `tool_transport`. The answers are kept in the folder `cache`, by default
    the user's own for this.
    """
    if split_model(settings.model)[0] == "script":
        async with open_wire(settings, script_root) as model:
            yield model, settings
        return
    fitted, inquiry = await fit(settings, cache)
    async with _open_wrapped(fitted, inquiry) as model:
        yield model, fitted


def find_window(model: Model, settings: ModelSettings) -> int | None:
    """A model's context window in tokens: what its server said since it was opened, else the settings."""
    told = getattr(model, "context_window", None)
    return told if isinstance(told, int) else settings.context_window


@asynccontextmanager
async def _open_wrapped(settings: ModelSettings, inquiry: Inquiry) -> AsyncIterator[Model]:
    async with open_wire(settings) as model:
        yield wrap(model, settings, inquiry)
