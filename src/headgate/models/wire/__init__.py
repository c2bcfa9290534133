"""Wire formats: one module for each. `open_wire` opens a model with the format of its server.

This needs the HTTP client, which takes long to import.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from headgate.core import Model, ModelSettings
from headgate.models.endpoint import find_endpoint, split_model
from headgate.models.wire.anthropic import AnthropicModel
from headgate.models.wire.http import HttpClient
from headgate.models.wire.ollama import OllamaModel
from headgate.models.wire.openai import OpenAIModel

_WIRES: Mapping[str, Callable[[ModelSettings, HttpClient], Model]] = {
    "ollama": OllamaModel,
    "openai": OpenAIModel,
    "anthropic": AnthropicModel,
}


@asynccontextmanager
async def open_wire(settings: ModelSettings) -> AsyncIterator[Model]:
    """A model with its tools and calls as the wire format has them."""
    provider, _ = split_model(settings.model)
    async with HttpClient(find_endpoint(settings), settings.timeouts) as client:
        yield _WIRES[provider](settings, client)
