"""Models over the network: the second face of this room, for what asks servers and takes long to import."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headgate.core import Model, ModelSettings
from headgate.models.discovery import PLACES, FoundModel, FoundServer, best_first, find_servers
from headgate.models.transports.choice import find_out, fit, is_asked, with_num_ctx, wrap
from headgate.models.transports.cutting import explain_remedy
from headgate.models.transports.server_facts import Findings, Inquiry
from headgate.models.transports.servers import ask_loaded_window, identify
from headgate.models.wire import open_wire
from headgate.models.wire.failures import (
    KeyRefused,
    ModelUnknown,
    QuotaSpent,
    ServerTrouble,
    ToolsUnsupported,
)
from headgate.models.wire.http import list_models

__all__ = [
    "PLACES",
    "FoundModel",
    "FoundServer",
    "KeyRefused",
    "ModelUnknown",
    "QuotaSpent",
    "ServerTrouble",
    "ToolsUnsupported",
    "ask_loaded_window",
    "best_first",
    "explain_remedy",
    "find_out",
    "find_servers",
    "fit",
    "identify",
    "is_asked",
    "list_models",
    "open_model",
    "open_wire",
    "open_wrapped",
    "with_num_ctx",
]


@asynccontextmanager
async def open_model(settings: ModelSettings, findings: Findings | None = None) -> AsyncIterator[Model]:
    """A model, closed on leaving, with its tools called as the settings say.

    `findings` are what is known about the server.
    """
    async with open_wrapped(settings, Inquiry(settings, findings=findings)) as model:
        yield model


@asynccontextmanager
async def open_wrapped(settings: ModelSettings, inquiry: Inquiry) -> AsyncIterator[Model]:
    """The same, with what was asked of the server."""
    async with open_wire(settings) as model:
        yield wrap(model, settings, inquiry)
