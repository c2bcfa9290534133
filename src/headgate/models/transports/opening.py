"""A model as a task uses it: with its profile, what its server tells, and the transport that fits."""

from pathlib import Path
from urllib.parse import urlsplit

from headgate.core.messages import Model, Reply
from headgate.core.settings import ModelSettings
from headgate.errors import ConfigError
from headgate.models.base import DEFAULT_NUM_CTX, find_endpoint, split_model
from headgate.models.failures import ToolsUnsupported
from headgate.models.profile import find_profile, profile_for, with_price, with_profile
from headgate.models.transports.auto import AutoModel
from headgate.models.transports.cutting import CutWatch
from headgate.models.transports.findings import Findings
from headgate.models.transports.inquiry import Inquiry
from headgate.models.transports.native import NativeModel
from headgate.models.transports.schema import SchemaModel
from headgate.models.transports.servers import ask_largest_window
from headgate.models.transports.text import TextModel

_NATIVE_HOSTS = ("api.openai.com",)


def is_asked(settings: ModelSettings) -> bool:
    """Whether there is anything to find out: a script and the large providers are known."""
    return split_model(settings.model)[0] in ("ollama", "openai") and (
        urlsplit(find_endpoint(settings).root).hostname not in _NATIVE_HOSTS
    )


def wrap(model: Model, settings: ModelSettings, inquiry: Inquiry) -> Model:
    """A model that calls tools as its settings say."""
    provider, name = split_model(settings.model)
    profile = find_profile(name)
    if is_asked(settings):
        model = CutWatch(model, settings)
    match settings.tool_transport:
        case "native" | "auto" | None if not is_asked(settings):
            return model
        case "native":
            return NativeModel(model, profile, rescue=False)
        case "text":
            return TextModel(model, profile)
        case "schema":
            if provider == "anthropic":
                raise ConfigError("The Messages API does not support schemas: remove tool_transport.")
            return SchemaModel(model, profile, inquiry.server)
    return AutoModel(model, profile, inquiry)


async def with_num_ctx(settings: ModelSettings) -> ModelSettings:
    """The settings of a model of Ollama's with the context window that is asked for, in both places.

    No model gets a larger one than it has: Ollama would silently give it less than was asked for.
    """
    asked = settings.num_ctx or settings.context_window or DEFAULT_NUM_CTX
    largest = await ask_largest_window(find_endpoint(settings), settings.timeouts)
    given = min(asked, largest or asked)
    window = min(settings.context_window or given, given)
    return settings.model_copy(update={"num_ctx": given, "context_window": window})


async def find_out(
    settings: ModelSettings,
    cache: Path | None = None,
    first: Reply | ToolsUnsupported | None = None,
    fresh: bool = False,
) -> Findings | None:
    """What is remembered about a model and its server; else they are asked, and the answers remembered.

    `first` is what the question with a tool brought, if it was asked already; `fresh` remembers nothing.
    """
    if not is_asked(settings):
        return None
    inquiry = Inquiry(settings, cache)
    return (None if fresh else inquiry.recall()) or await inquiry.probe(first)


async def fit(settings: ModelSettings, cache: Path | None = None) -> tuple[ModelSettings, Inquiry]:
    """The settings with what the user left open filled in, and what is known about the server.

    With `auto` the model is asked; where `text` or `schema` is named, the server is; otherwise nobody.
    """
    if split_model(settings.model)[0] == "ollama":
        settings = await with_num_ctx(settings)
    inquiry = Inquiry(settings, cache)
    if not is_asked(settings):
        return with_price(settings, profile_for(settings)), inquiry
    if inquiry.recall() is None:
        match settings.tool_transport:
            case "auto":
                await inquiry.probe()
            case "schema":
                await inquiry.ask_server()
            case "text":
                await inquiry.find_window()
    window = inquiry.findings.context_window if inquiry.findings else None
    return with_profile(settings, profile_for(settings), window), inquiry
