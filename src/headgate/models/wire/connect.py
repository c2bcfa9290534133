"""A model as its server speaks, or as a script says."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from headgate.core import Model, ModelSettings
from headgate.models.endpoint import find_endpoint, split_model
from headgate.models.scripted import ScriptedModel
from headgate.models.wire.anthropic import AnthropicModel
from headgate.models.wire.http import HttpClient
from headgate.models.wire.ollama import OllamaModel
from headgate.models.wire.openai import OpenAIModel

_WIRES: Mapping[str, Callable[[ModelSettings, HttpClient], Model]] = {
    "ollama": OllamaModel,
    "openai": OpenAIModel,
    "anthropic": AnthropicModel,
}


def check_model(settings: ModelSettings, script_root: Path | None = None) -> None:
    """ConfigError if the model cannot even be tried: an unknown form, a bad address, a missing script."""
    provider, name = split_model(settings.model)
    if provider == "script":
        ScriptedModel.load((script_root or Path()) / name)
    else:
        find_endpoint(settings)


@asynccontextmanager
async def open_wire(settings: ModelSettings, script_root: Path | None = None) -> AsyncIterator[Model]:
    """A model with its tools and calls as the wire format has them."""
    provider, name = split_model(settings.model)
    if provider == "script":
        yield ScriptedModel.load((script_root or Path()) / name)
        return
    async with HttpClient(find_endpoint(settings), settings.timeouts) as client:
        yield _WIRES[provider](settings, client)
