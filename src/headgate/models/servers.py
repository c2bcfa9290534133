"""Model servers: which ones run, their models, their kind and context window, and prompts that they cut.

Looking for running servers sends neither a key nor any text.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from headgate.core import (
    CHARS_PER_TOKEN,
    Cut,
    Model,
    ModelSettings,
    OnDelta,
    Reply,
    Request,
    Timeouts,
    image_chars,
    request_size,
)
from headgate.errors import ConfigError, ModelError
from headgate.first_use import dataclass, regex
from headgate.models.encoding import encode_json, mapping_in, mappings_in, text_in
from headgate.models.endpoint import DEFAULT_NUM_CTX, DEFAULT_URLS, Endpoint, find_endpoint
from headgate.models.wire.http import HttpClient
from headgate.models.wire.openai import encode_tools
from headgate.reading import reaches_this_machine

USUAL_ADDRESSES = (
    ("Ollama", "http://localhost:11434"),
    ("llama.cpp", "http://localhost:8080"),
    ("vLLM", "http://localhost:8000"),
    ("LM Studio", "http://localhost:1234"),
)
"""Where servers usually are, by their names."""
_SECONDS = 3.0
_NAMES = {"llamacpp": "llama.cpp", "vllm": "vLLM", "sglang": "SGLang", "organization_owner": "LM Studio"}
_NO_CHAT = regex(r"embed|rerank|minilm|^bge|whisper|(^|[-_])tts", re.IGNORECASE)
_CODE = regex(r"code|devstral|gpt-oss", re.IGNORECASE)


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


async def find_servers(addresses: Sequence[tuple[str, str]] = USUAL_ADDRESSES) -> list[FoundServer]:
    """The servers that answer at these addresses, each with its usual name. All are asked at once."""
    found = await asyncio.gather(*(_look(name, address) for name, address in addresses))
    return [server for server in found if server is not None]


def rank_models(servers: Sequence[FoundServer]) -> list[FoundModel]:
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
            if text_in(await _get(client, "/api/version"), "version"):
                return _read_ollama(root, await _get(client, "/api/tags"))
            return _read_listing(name, root, await _get(client, "/v1/models"))
    except (TimeoutError, ConfigError):
        return None  # what does not answer at once is nothing to offer


def _read_ollama(root: str, listing: Any) -> FoundServer:
    parts = urlsplit(root)
    usual = urlsplit(DEFAULT_URLS["ollama"])
    is_default = reaches_this_machine(parts.hostname or "") and parts.port == usual.port and not parts.path
    models = [
        FoundModel(f"ollama/{name}", None if is_default else root, _is_cloud(name, entry))
        for entry in mappings_in(listing, "models")
        if (name := text_in(entry, "name"))
    ]
    return FoundServer("Ollama", root, tuple(models))


def _is_cloud(name: str, entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("remote_host")) or name.endswith(("-cloud", ":cloud"))


def _read_listing(name: str, root: str, listing: Any) -> FoundServer | None:
    entries = mappings_in(listing, "data")
    if not isinstance(_dig(listing, "data"), list):
        return None
    owner = next((str(entry.get("owned_by")) for entry in entries if entry.get("owned_by")), "")
    models = [FoundModel(f"openai/{id}", f"{root}/v1") for entry in entries if (id := text_in(entry, "id"))]
    return FoundServer(_NAMES.get(owner, name), root, tuple(models))


async def _get(client: HttpClient, path: str) -> Any:
    try:
        return await client.get_json(path)
    except ModelError:
        return None  # the server does not tell


ServerKind = Literal["llamacpp", "vllm", "sglang", "ollama", "ollama-api", "lmstudio", "unknown"]
"""`ollama` is its OpenAI-compatible API, `ollama-api` its own."""
WINDOWS = range(512, 20_000_001)
"""Context windows that a server can be believed to have."""
_ASK_SECONDS = 5.0
_KINDS: Mapping[str, ServerKind] = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "library": "ollama",
    "organization_owner": "lmstudio",
}


async def identify_server(endpoint: Endpoint, timeouts: Timeouts) -> tuple[ServerKind, int | None]:
    """The kind of a server, and the model's context window where the list of models has it."""
    if endpoint.provider == "ollama":
        return "ollama-api", None
    async with HttpClient(endpoint, _quick(timeouts)) as client:
        listing = await _get(client, "/models")
    entries = mappings_in(listing, "data")
    named = [entry for entry in entries if entry.get("id") in (endpoint.model, f"{endpoint.model}:latest")]
    entry = (named or (entries if len(entries) == 1 else [{}]))[0]
    owner = next((entry.get("owned_by") for entry in (entry, *entries) if entry.get("owned_by")), "")
    return _KINDS.get(str(owner), "unknown"), _window(entry.get("max_model_len"))


async def ask_window(endpoint: Endpoint, timeouts: Timeouts, kind: ServerKind) -> int | None:
    """The context window that a server tells at an address of its own, beside the common API."""
    async with _beside_api(endpoint, timeouts) as client:
        match kind:
            case "llamacpp":
                return _window(_dig(await _get(client, "/props"), "default_generation_settings", "n_ctx"))
            case "ollama":
                return await _ask_ollama(client)
            case "lmstudio":
                told = await _get(client, f"/api/v0/models/{quote(endpoint.model, safe='/')}")
                return _window(_dig(told, "loaded_context_length"))
    return None


def _beside_api(endpoint: Endpoint, timeouts: Timeouts) -> HttpClient:
    """A client for the addresses beside the common API, which has its version in its own."""
    base = replace(endpoint, root=re.sub(r"/(?:api/)?v\d+$", "", endpoint.root))
    return HttpClient(base, _quick(timeouts))


def _quick(timeouts: Timeouts) -> Timeouts:
    return timeouts.model_copy(update={"first_token": min(_ASK_SECONDS, timeouts.first_token)})


async def _ask_ollama(client: HttpClient) -> int | None:
    """How the model is loaded, else how it will be, else how large it could be."""
    if loaded := await _ask_loaded(client):
        return loaded
    shown = await _show(client)
    set_to = re.search(r"^\s*num_ctx\s+(\d{1,9})\s*$", str(_dig(shown, "parameters") or ""), re.MULTILINE)
    return _window(int(set_to[1])) if set_to else _largest(shown)


async def ask_loaded_window(endpoint: Endpoint, timeouts: Timeouts) -> int | None:
    """The context window that Ollama has loaded the model with; None where it does not tell."""
    async with _beside_api(endpoint, timeouts) as client:
        return await _ask_loaded(client)


async def ask_largest_window(endpoint: Endpoint, timeouts: Timeouts) -> int | None:
    """The largest context window that a model of Ollama's can have; None where Ollama does not tell."""
    async with HttpClient(endpoint, _quick(timeouts)) as client:
        return _largest(await _show(client))


async def _ask_loaded(client: HttpClient) -> int | None:
    name = client.endpoint.model
    for entry in mappings_in(await _get(client, "/api/ps"), "models"):
        window = _window(entry.get("context_length"))
        if window and entry.get("name") in (name, f"{name}:latest"):
            return window
    return None


async def _show(client: HttpClient) -> Any:
    try:
        async with client.post("/api/show", encode_json({"model": client.endpoint.model})) as answer:
            return answer.decode(await answer.body())
    except ModelError:
        return None  # it does not tell


def _largest(shown: Any) -> int | None:
    lengths = mapping_in(shown, "model_info").items()
    return next((_window(size) for key, size in lengths if str(key).endswith(".context_length")), None)


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _window(value: object) -> int | None:
    return value if isinstance(value, int) and value in WINDOWS else None


# A prompt that a server cuts off without a word, noticed by the tokens that the server says it read.
#
# Ollama does so when a prompt is longer than its context window. A count that is low proves nothing by
# itself: some servers leave out what they had in their cache. So a low count is a reason to ask the server
# for its window, and only a prompt that cannot fit that window counts as cut. Where the server does not
# tell, only the first request of a conversation counts, and only a count that is large enough to be a whole
# window.


LOW = 0.7
"""A count below this share of the estimate is a reason to ask."""
ABOVE = 1.2
"""The estimate has to be so many times the window: it is no more than an estimate."""
LEAST_WINDOW = 1024
"""No server is started with less."""


class CutPromptDetector:
    """Passes requests on, and marks replies to prompts that were cut."""

    def __init__(self, inner: Model, settings: ModelSettings) -> None:
        self.name = inner.name
        self._inner = inner
        self._settings = settings
        self._endpoint = find_endpoint(settings)
        self._asked: tuple[ServerKind, int | None] | None = None

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        reply = await self._inner.reply(request, on_delta)
        read = reply.usage.prompt
        if not read or read >= request_size(request) / CHARS_PER_TOKEN:
            return reply
        # What was sent has just been encoded; only its size is looked at.
        talk = sum(len(message.wire.get(self._endpoint.provider, b"")) for message in request.messages)
        talk = (talk - image_chars(request.messages)) // CHARS_PER_TOKEN
        sent = talk + len(encode_tools(request.shown)) // CHARS_PER_TOKEN
        if sent < LEAST_WINDOW or read >= LOW * sent:
            return reply
        kind, window = await self._ask()
        if window is not None:
            is_cut = sent > ABOVE * window and read <= window
        else:
            opening = all(message.role != "assistant" for message in request.messages)
            # Some servers do not show a model its tools; that is not what is looked for here.
            is_cut = opening and LEAST_WINDOW <= read < talk / 2
        if not is_cut:
            return reply
        return replace(reply, cut=Cut(sent, read, window, explain_remedy(kind, self._endpoint.model)))

    async def _ask(self) -> tuple[ServerKind, int | None]:
        """The kind of the server and its window, asked for once."""
        if self._asked is None:
            endpoint, timeouts = self._endpoint, self._settings.timeouts
            kind, window = await identify_server(endpoint, timeouts)
            ask = ask_loaded_window if kind.startswith("ollama") else partial(ask_window, kind=kind)
            window = await ask(endpoint, timeouts) or window
            if kind == "ollama-api" and window is None:
                window = self._settings.num_ctx or DEFAULT_NUM_CTX
            self._asked = kind, window
        return self._asked


def explain_remedy(kind: ServerKind, model: str) -> str:
    """What a person can do about a context window that is too small."""
    match kind:
        case "ollama":
            return (
                f"Write model: ollama/{model}, for which Headgate sets the window, "
                "or start Ollama with OLLAMA_CONTEXT_LENGTH=32768 ollama serve"
            )
        case "ollama-api":
            return "Set a larger num_ctx for this model in `models`"
        case "lmstudio":
            return "Load the model with a larger context length in LM Studio"
    return "Start the model server with a larger context window"
