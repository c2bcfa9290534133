"""A model as a task uses it: with its profile, what its server tells, and the transport that fits."""

from pathlib import Path
from urllib.parse import urlsplit

from headgate.core.messages import Model, Reply
from headgate.core.settings import ModelSettings
from headgate.errors import ConfigError
from headgate.models.base import find_endpoint, open_wire, split_model
from headgate.models.failures import ToolsUnsupported
from headgate.models.profile import find_profile, with_profile
from headgate.models.transports.auto import AutoModel
from headgate.models.transports.findings import Findings, FindingsFile
from headgate.models.transports.native import NativeModel
from headgate.models.transports.probe import examine
from headgate.models.transports.schema import SchemaModel
from headgate.models.transports.servers import ask_window, identify
from headgate.models.transports.text import TextModel

_NATIVE_HOSTS = ("api.openai.com",)


def is_asked(settings: ModelSettings) -> bool:
    """Whether there is anything to find out: a script and the large providers are known."""
    return split_model(settings.model)[0] == "openai" and (
        urlsplit(find_endpoint(settings).root).hostname not in _NATIVE_HOSTS
    )


def wrap(model: Model, settings: ModelSettings, findings: Findings | None = None) -> Model:
    """A model that calls tools as its settings say."""
    provider, name = split_model(settings.model)
    profile = find_profile(name)
    findings = findings or Findings()
    match settings.tool_transport:
        case "native" | "auto" if not is_asked(settings):
            return model
        case "native":
            return NativeModel(model, profile, rescue=False)
        case "text":
            return TextModel(model, profile)
        case "schema":
            if provider == "anthropic":
                raise ConfigError("The Messages API takes no schema: set tool_transport to auto.")
            return SchemaModel(model, profile, findings.server)
    return AutoModel(model, profile, findings)


async def find_out(
    settings: ModelSettings,
    cache: Path | None = None,
    first: Reply | ToolsUnsupported | None = None,
    fresh: bool = False,
) -> Findings | None:
    """What is remembered about a model and its server; else they are asked, and the answers remembered.

    With `native` nothing is asked; where another transport is named, the server is, not the model.
    `first` is what the question with a tool brought, if it was asked already; `fresh` remembers nothing.
    """
    if not is_asked(settings):
        return None
    endpoint = find_endpoint(settings)
    file = FindingsFile(endpoint, cache)
    if not fresh and (known := file.read()) is not None:
        return known
    if settings.tool_transport != "auto":
        named = settings.tool_transport
        if named == "native" or (settings.context_window and named != "schema"):
            return None
        kind, window = await identify(endpoint, settings.timeouts)
        window = await ask_window(endpoint, settings.timeouts, kind) or window
        return Findings(server=kind, context_window=window)
    async with open_wire(settings) as model:
        found = await examine(settings, endpoint, model, find_profile(endpoint.model), first)
    if found is not None:
        file.write(found)
    return found


async def fit(settings: ModelSettings, cache: Path | None = None) -> tuple[ModelSettings, Findings | None]:
    """The settings with what the user left open filled in, and what is known about the server."""
    if not is_asked(settings):
        return settings, None
    findings = await find_out(settings, cache)
    profile = find_profile(split_model(settings.model)[1])
    return with_profile(settings, profile, findings.context_window if findings else None), findings
