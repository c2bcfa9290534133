"""Which server the default model is on, and which key may go there."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from headgate.config.schema import provider_of
from headgate.config.yaml_files import Document
from headgate.core import is_openai_name
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.reading import is_loopback

PROVIDER_KEYS = {
    "ollama": "OLLAMA_API_KEY",
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
KEY_VARIABLES = frozenset({"HEADGATE_API_KEY", *PROVIDER_KEYS.values()})
_VARIABLES = KEY_VARIABLES | {"HEADGATE_BASE_URL", "OPENAI_BASE_URL", "OLLAMA_HOST"}
_OFFICIAL_HOSTS = {"ollama": "ollama.com", "openai": "api.openai.com", "anthropic": "api.anthropic.com"}
_SERVICES = {
    "OPENAI_API_KEY": ("OpenAI", "openai/NAME"),
    "ANTHROPIC_API_KEY": ("Anthropic", "anthropic/NAME"),
}
_OLLAMA_PORT = 11434


@dataclass(frozen=True)
class Layer:
    """One configuration file."""

    document: Document
    by_repository: bool
    """It came with the repository; nobody chose it."""
    path: Path
    """Where the file is."""


@dataclass(frozen=True)
class DefaultEndpoint:
    """Where the default model is, and what else came out of finding that."""

    base_url: str | None = None
    api_key: str | None = None
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Value:
    """A setting, what it was read from, and whether that was the repository."""

    text: str
    source: str
    by_repository: bool = False


def env_value(environ: Mapping[str, str], name: str) -> str | None:
    """A variable's value; empty counts as unset."""
    return environ.get(name, "").strip() or None


def describe_keys(environ: Mapping[str, str]) -> tuple[str, str]:
    """What keys for hosted services mean while no model is named, and what to do; empty if there are none."""
    found = [variable for variable in _SERVICES if env_value(environ, variable)]
    if not found:
        return "", ""
    services = " or ".join(_SERVICES[variable][0] for variable in found)
    commands = ", or ".join(f"headgate init --model {_SERVICES[variable][1]}" for variable in found)
    one = len(found) == 1
    fact = f"{' and '.join(found)} {'is' if one else 'are'} set, but a key alone sends no code anywhere."
    todo = (
        f"To let tasks send code to {services}, name one of {'its' if one else 'their'} models: {commands}. "
        "To keep the code here, start a model server and run headgate init."
    )
    return fact, todo


def address_problem(text: str) -> str | None:
    """Why a text cannot be the address of a server, to follow the setting's name; None if it can."""
    parts = _split(text)
    if (
        parts
        and parts.scheme in ("http", "https")
        and parts.hostname
        and text.isprintable()
        and " " not in text
    ):
        return None
    return f'must be an address such as "http://localhost:11434/v1", not "{show_address(text)}"'


def show_address(text: str) -> str:
    """An address without the name and password that it may hold."""
    return re.sub(r"//[^/]*@", "//...@", text)


def has_login(text: str) -> bool:
    """Whether an address holds a user name or a password."""
    return re.match(r"([^/]*//)?[^/?#]*@", text) is not None


def login_problem(text: str) -> str | None:
    """Why an address may not be written down, to follow the setting's name; None if it may."""
    return "must hold no user name or password" if has_login(text) else None


def _split(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises if it is no number
    except ValueError:
        return None
    return parts


def choose_endpoint(
    merged: Mapping[str, Any], layers: Sequence[Layer], environ: Mapping[str, str], flag: str | None
) -> DefaultEndpoint:
    """The address by flag, environment or file, in that order, and the strongest key that may go there."""
    model = merged.get("model")
    entry = merged.get("models", {}).get(model, {})
    provider = provider_of(entry.get("model", model or ""))
    if provider not in PROVIDER_KEYS:
        return DefaultEndpoint()
    address = _address(model, provider, layers, environ, flag)
    base_url = address.text if address else None
    sources = [address.source] if address and address.source in _VARIABLES else []
    notes: list[str] = []
    for key in _keys(model, provider, layers, environ, base_url):
        if address is None or _may_go(key, provider, address):
            sources += [key.source] if key.source in _VARIABLES else []
            return DefaultEndpoint(base_url, key.text, tuple(sources), tuple(notes))
        name = key.source if key.source in _VARIABLES else f"the api_key in {key.source}"
        notes.append(
            f"{name} is not sent to {show_address(address.text)}, which only the repository's "
            f"{address.source} names: to confirm it, set HEADGATE_BASE_URL or --base-url to its address."
        )
    return DefaultEndpoint(base_url, None, tuple(sources), tuple(notes))


def _address(
    model: str | None, provider: str, layers: Sequence[Layer], environ: Mapping[str, str], flag: str | None
) -> _Value | None:
    own = _own_setting("base_url", model, layers)
    general = env_value(environ, "OPENAI_BASE_URL") if provider == "openai" and not own else None
    for source, text in (
        ("--base-url", flag),
        ("HEADGATE_BASE_URL", env_value(environ, "HEADGATE_BASE_URL")),
        ("OPENAI_BASE_URL", general),
    ):
        if text:
            if problem := address_problem(text):
                named = f"The option {source}" if source.startswith("-") else source
                raise ConfigError(f"{named} {problem}.")
            return _Value(text, source)
    written = own or _shared_setting("base_url", provider, layers)
    # Weaker than a file: it is a setting of Ollama's server, which may be there for other reasons.
    if written is None and provider == "ollama" and (host := ollama_address(environ)):
        return _Value(host, "OLLAMA_HOST")
    return written


def ollama_address(environ: Mapping[str, str]) -> str | None:
    """The address that OLLAMA_HOST means, in any of the forms that Ollama takes; None where it is unset."""
    text = env_value(environ, "OLLAMA_HOST")
    if text is None:
        return None
    plain = "://" not in text
    parts = _split(f"http://{text}" if plain else text)
    if parts is None or not (parts.hostname or parts.port):
        raise ConfigError(
            f'OLLAMA_HOST must be a host such as "127.0.0.1:11434", not "{show_address(text)}".'
        )
    host = parts.hostname or "127.0.0.1"
    scheme = "https" if plain and host == _OFFICIAL_HOSTS["ollama"] else parts.scheme
    # A server that listens everywhere is asked on this machine.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    host = f"[{host}]" if ":" in host else host
    port = parts.port or (_OLLAMA_PORT if plain and scheme == "http" else None)
    return f"{scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _keys(
    model: str | None,
    provider: str,
    layers: Sequence[Layer],
    environ: Mapping[str, str],
    base_url: str | None,
) -> Iterator[_Value]:
    """Every key that could be meant, strongest first."""
    for name in ("HEADGATE_API_KEY", PROVIDER_KEYS[provider]):
        if text := env_value(environ, name):
            yield _Value(text, name)
    if own := _own_setting("api_key", model, layers):
        yield own
    own_address = _own_setting("base_url", model, layers)
    shared_address = _shared_setting("base_url", provider, layers)
    if own_address and shared_address and own_address.text == base_url != shared_address.text:
        return  # the key at the top is for the server at the top
    if shared := _shared_setting("api_key", provider, layers):
        yield shared


def _may_go(key: _Value, provider: str, address: _Value) -> bool:
    """Keys go to servers that the user chose; one meant for Headgate also to this machine."""
    if not address.by_repository or key.by_repository:
        return True
    parts = _split(address.text)
    host = (parts.hostname or "") if parts else ""
    if parts and parts.scheme == "https" and host == _OFFICIAL_HOSTS[provider]:
        return True
    return key.source != PROVIDER_KEYS[provider] and is_loopback(host)


def is_on_this_machine(address: str) -> bool:
    """Whether what is sent to an address stays on this machine. A private network is other machines."""
    parts = _split(address)
    return parts is not None and is_loopback(parts.hostname or "")


def same_server(address: str) -> str:
    """An address in the form in which two that mean the same server are equal."""
    return re.sub(r"/(v1|api)$", "", address.strip().rstrip("/"))


def chosen_servers(
    layers: Sequence[Layer], environ: Mapping[str, str], flags: Mapping[str, Any]
) -> frozenset[str]:
    """The servers that the user names: by a flag, the environment or a file that is not the repository's.

    A model of a hosted service names that service, unless the user's models are on a server of their own.
    """
    own = [layer.document.data for layer in layers if not layer.by_repository]
    entries: dict[str, Mapping[str, Any]] = {}
    for data in own:
        entries |= data.get("models", {})
    shared = [flags.get("base_url"), env_value(environ, "HEADGATE_BASE_URL")]
    shared += [data.get("base_url") for data in own]
    of_openai = env_value(environ, "OPENAI_BASE_URL")
    named = [*shared, of_openai, *(entry.get("base_url") for entry in entries.values())]
    with suppress(ConfigError):  # what is wrong with it matters only to those who use it
        named.append(ollama_address(environ))
    models = [flags.get("model"), env_value(environ, "HEADGATE_MODEL")]
    models += [data.get("model") for data in own]
    models += [stage.get("model") for data in own for stage in _inline_stages(data)]
    models += [entry.get("model") for entry in entries.values() if not entry.get("base_url")]
    for model in models:
        entry = entries.get(model or "", {})
        spec = str(entry.get("model", model or ""))
        provider, name = provider_of(spec), spec.partition("/")[2]
        elsewhere = any(shared) or entry.get("base_url") or (provider == "openai" and of_openai)
        if not elsewhere and (provider == "anthropic" or (provider == "openai" and is_openai_name(name))):
            named.append(f"https://{_OFFICIAL_HOSTS[provider]}")
    return frozenset(same_server(str(address)) for address in named if address)


def _inline_stages(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    flow = data.get("flow")
    return [stage for stage in flow if isinstance(stage, Mapping)] if isinstance(flow, list) else []


def _own_setting(name: str, model: str | None, layers: Sequence[Layer]) -> _Value | None:
    """What the model's entry in `models` says; the strongest file that has the entry counts."""
    for layer in reversed(layers):
        entry = layer.document.data.get("models", {}).get(model)
        if entry is not None:
            text = entry.get(name)
            return _Value(text, layer.document.name, layer.by_repository) if text else None
    return None


def _shared_setting(name: str, provider: str, layers: Sequence[Layer]) -> _Value | None:
    """What the files say at the top, unless it was said for a model of another provider."""
    found: _Value | None = None
    model, models = "", dict[str, Any]()
    for layer in layers:
        data = layer.document.data
        model, models = data.get("model", model), models | data.get("models", {})
        meant = provider_of(models.get(model, {}).get("model", model))
        if data.get(name):
            right = meant in ("", provider)
            found = _Value(data[name], layer.document.name, layer.by_repository) if right else None
    return found
