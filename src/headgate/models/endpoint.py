"""Where a model is: the address, the headers and the key; nothing here touches the network."""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from headgate.core import ModelSettings, is_openai_name
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.reading import is_nearby

Provider = Literal["ollama", "openai", "anthropic", "script"]

FORMS = "ollama/NAME, openai/NAME (any compatible server), anthropic/NAME or script:FILE"
DEFAULT_URLS: Mapping[Provider, str] = {
    "ollama": "http://localhost:11434",
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
HOSTED: tuple[Provider, ...] = ("openai", "anthropic")
"""Providers whose default address is not on this machine."""
DEFAULT_NUM_CTX = 16_384
"""The context window that is asked of Ollama where nobody says another: its own is 4,096 on most machines."""
_OLLAMA_ONLY = ("num_ctx", "keep_alive", "think")
ANTHROPIC_VERSION = "2023-06-01"
_OWN_FIELDS = {"messages", "model", "stream", "system", "tools"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go and what they carry."""

    provider: Provider
    model: str
    """The model's name as the server knows it."""
    root: str
    """The address that paths such as `/models` are appended to."""
    headers: Mapping[str, str]
    secrets: tuple[str, ...]
    """What no error text may show."""


def split_model(model: str) -> tuple[Provider, str]:
    """`openai/qwen/qwen3:30b` -> ("openai", "qwen/qwen3:30b"); ConfigError where the form is unknown."""
    prefixes: tuple[tuple[str, Provider], ...] = (
        ("ollama/", "ollama"),
        ("openai/", "openai"),
        ("anthropic/", "anthropic"),
        ("script:", "script"),
    )
    for prefix, provider in prefixes:
        name = model.removeprefix(prefix).strip()
        if model.startswith(prefix) and name:
            return provider, name
    raise ConfigError(f'Unknown model "{model}": write {FORMS}.')


def find_endpoint(settings: ModelSettings) -> Endpoint:
    """The address and the headers for a model over the network; ConfigError where they cannot be right."""
    provider, name = split_model(settings.model)
    if provider == "script":
        raise ConfigError(f'The model "{settings.model}" is a script and has no address.')
    base_url = (settings.base_url or "").strip().rstrip("/")
    if provider == "openai" and not base_url and not is_openai_name(name):
        raise ConfigError(explain_local_name(name))
    if provider != "ollama" and (
        only := [field for field in _OLLAMA_ONLY if field in settings.model_fields_set]
    ):
        raise ConfigError(f"Only models named ollama/NAME have the setting {only[0]}, not {settings.model}.")
    root = _check_url(base_url or DEFAULT_URLS[provider])
    key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if not key.isprintable():
        raise ConfigError("The API key contains a line break or another invalid character.")
    if owned := sorted(_OWN_FIELDS & set(settings.extra_body)):
        raise ConfigError(f"The setting extra_body must not set {', '.join(owned)}.")
    headers: dict[str, str] = {}
    if provider == "ollama":
        # The address of its OpenAI-compatible API names the same server.
        root = re.sub(r"/(v1|api)$", "", root)
    if provider == "anthropic":
        # The Messages API has one version; a base_url with it and one without mean the same.
        root = root if root.endswith("/v1") else f"{root}/v1"
        headers["anthropic-version"] = ANTHROPIC_VERSION
        headers |= {"x-api-key": key} if key else {}
    elif key:
        headers["Authorization"] = f"Bearer {key}"
    headers |= _check_headers(settings.headers)
    secrets = (key, *settings.headers.values())
    return Endpoint(provider, name, root, headers, tuple(secret for secret in secrets if len(secret) >= 6))


def is_hosted(endpoint: Endpoint) -> bool:
    """Whether requests go to a provider's own service, which no setting had to name."""
    own = DEFAULT_URLS[endpoint.provider] if endpoint.provider in HOSTED else ""
    return bool(own) and (endpoint.root == own or endpoint.root.startswith(f"{own}/"))


def is_own_server(address: str) -> bool:
    """Whether a server is on this machine or in a private network: it reads prompts at its user's cost."""
    return is_nearby(urlsplit(address).hostname or "")


def check_key(endpoint: Endpoint) -> None:
    """ConfigError where a hosted service would be asked without a key; other servers may need none."""
    sent = {name.lower() for name in endpoint.headers}
    if is_hosted(endpoint) and not sent & {"authorization", "x-api-key"}:
        variable = f"{endpoint.provider.upper()}_API_KEY"
        raise ConfigError(
            f"{endpoint.provider}/{endpoint.model} needs a key, and there is none: "
            f"set {variable} or HEADGATE_API_KEY."
        )


def explain_local_name(name: str) -> str:
    """What to write for a model that OpenAI does not have, where no server is named."""
    return (
        f'OpenAI has no model "{name}", and no other server is named. '
        f"For Ollama, write model: ollama/{name}. For another server, set base_url to its address: "
        "llama.cpp http://localhost:8080/v1, vLLM http://localhost:8000/v1, "
        "LM Studio http://localhost:1234/v1. "
        f"To use OpenAI anyway, set base_url to {DEFAULT_URLS['openai']}."
    )


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    # What is wrong with it may be a secret, so none of these repeats the address.
    if not sound:
        raise ConfigError("The setting base_url must look like http://localhost:8080/v1.")
    if parts.username or parts.password:
        raise ConfigError(
            "The setting base_url must not contain a user name or password; use api_key or headers."
        )
    if parts.query or parts.fragment:
        raise ConfigError("The setting base_url must end with its path, without ? or #.")
    return url


def _check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(f'The setting headers has "{name}", which is not the name of a header.')
        if not value.replace("\t", " ").isprintable():
            raise ConfigError(f"The header {name} contains a line break or a control character.")
    return headers
