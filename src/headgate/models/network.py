"""Models over the network: the second face of this room, for what asks servers and takes long to import."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headgate.core import Model, ModelSettings
from headgate.models.servers import (
    USUAL_ADDRESSES,
    FoundModel,
    FoundServer,
    ask_loaded_window,
    explain_remedy,
    find_servers,
    identify_server,
    rank_models,
)
from headgate.models.transports.choice import (
    can_be_probed,
    complete_settings,
    find_server_facts,
    with_num_ctx,
    with_transport,
)
from headgate.models.transports.server_facts import ServerInquiry
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
    "USUAL_ADDRESSES",
    "FoundModel",
    "FoundServer",
    "KeyRefused",
    "ModelUnknown",
    "QuotaSpent",
    "ServerTrouble",
    "ToolsUnsupported",
    "ask_loaded_window",
    "can_be_probed",
    "complete_settings",
    "explain_remedy",
    "find_server_facts",
    "find_servers",
    "identify_server",
    "list_models",
    "open_model",
    "open_wire",
    "rank_models",
    "with_num_ctx",
]


@asynccontextmanager
async def open_model(settings: ModelSettings, inquiry: ServerInquiry | None = None) -> AsyncIterator[Model]:
    """A model, closed on leaving, with its tools called as the settings say.

    `inquiry` holds what is known about the server.
    """
    async with open_wire(settings) as model:
        yield with_transport(model, settings, inquiry or ServerInquiry(settings))
