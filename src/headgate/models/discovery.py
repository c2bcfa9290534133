"""Model servers that are running, and their models. Looking for them sends neither a key nor any text."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from headgate.core import Timeouts
from headgate.errors import ConfigError, ModelError
from headgate.models.endpoint import DEFAULT_URLS, Endpoint
from headgate.models.wire.http import HttpClient, is_loopback

PLACES = (
    ("Ollama", "http://localhost:11434"),
    ("llama.cpp", "http://localhost:8080"),
    ("vLLM", "http://localhost:8000"),
    ("LM Studio", "http://localhost:1234"),
)
"""Where servers usually are, by their names."""
_SECONDS = 3.0
_OWNERS = {"llamacpp": "llama.cpp", "vllm": "vLLM", "sglang": "SGLang", "organization_owner": "LM Studio"}
_NO_CHAT = re.compile(r"embed|rerank|minilm|^bge|whisper|(^|[-_])tts", re.IGNORECASE)
_CODE = re.compile(r"code|devstral|gpt-oss", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that a server offers."""

    spec: str
    """As `model:` has it."""
    base_url: str | None
    """As `base_url:` has it; None where the provider's default is right."""
    is_remote: bool = False
    """The server passes requests on to a hosted service."""

    @property
    def name(self) -> str:
        """As the server knows it."""
        return self.spec.partition("/")[2]


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server that answered."""

    name: str
    address: str
    models: tuple[FoundModel, ...]


async def find_servers(places: Sequence[tuple[str, str]] = PLACES) -> list[FoundServer]:
    """The servers that answer at these addresses, each with its usual name. All are asked at once."""
    found = await asyncio.gather(*(_look(name, address) for name, address in places))
    return [server for server in found if server is not None]


def best_first(servers: Sequence[FoundServer]) -> list[FoundModel]:
    """The models that can do the work on this machine, those that are made for code first.

    Left out is what cannot chat, and what a server would pass on to a hosted service.
    """
    models = [model for server in servers for model in server.models]
    local = [model for model in models if not model.is_remote and not _NO_CHAT.search(model.name)]
    return sorted(local, key=lambda model: not _CODE.search(model.name))


async def _look(name: str, address: str) -> FoundServer | None:
    root = re.sub(r"/(v1|api)$", "", address.rstrip("/"))
    endpoint = Endpoint("openai", "", root, {}, ())
    timeouts = Timeouts(connect=_SECONDS, first_token=_SECONDS, idle=_SECONDS)
    try:
        async with asyncio.timeout(_SECONDS), HttpClient(endpoint, timeouts) as client:
            if isinstance(_dig(await _get(client, "/api/version"), "version"), str):
                return _read_ollama(root, await _get(client, "/api/tags"))
            return _read_listing(name, root, await _get(client, "/v1/models"))
    except (TimeoutError, ConfigError):
        return None  # what does not answer at once is nothing to offer


def _read_ollama(root: str, listing: Any) -> FoundServer:
    parts = urlsplit(root)
    usual = urlsplit(DEFAULT_URLS["ollama"])
    is_default = is_loopback(parts.hostname or "") and parts.port == usual.port and not parts.path
    models = [
        FoundModel(f"ollama/{name}", None if is_default else root, _is_cloud(name, entry))
        for entry in _entries(listing, "models")
        if isinstance(name := entry.get("name"), str)
    ]
    return FoundServer("Ollama", root, tuple(models))


def _is_cloud(name: str, entry: dict[str, Any]) -> bool:
    return bool(entry.get("remote_host")) or name.endswith(("-cloud", ":cloud"))


def _read_listing(name: str, root: str, listing: Any) -> FoundServer | None:
    entries = _entries(listing, "data")
    if not isinstance(_dig(listing, "data"), list):
        return None
    owner = next((str(entry.get("owned_by")) for entry in entries if entry.get("owned_by")), "")
    models = [
        FoundModel(f"openai/{id}", f"{root}/v1")
        for entry in entries
        if isinstance(id := entry.get("id"), str)
    ]
    return FoundServer(_OWNERS.get(owner, name), root, tuple(models))


async def _get(client: HttpClient, path: str) -> Any:
    try:
        return await client.get_json(path)
    except ModelError:
        return None


def _entries(listing: Any, key: str) -> list[dict[str, Any]]:
    found = _dig(listing, key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _dig(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
