"""What kinds of model servers there are, what they tell about themselves, and how they take a schema."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

from headgate.core import Timeouts
from headgate.errors import ModelError
from headgate.models.encoding import encode_json
from headgate.models.endpoint import Endpoint
from headgate.models.wire.http import HttpClient

Kind = Literal["llamacpp", "vllm", "sglang", "ollama", "ollama-api", "lmstudio", "unknown"]
"""`ollama` is its OpenAI-compatible API, `ollama-api` its own."""
WINDOWS = range(512, 20_000_001)
"""Context windows that a server can be believed to have."""
_ASK_SECONDS = 5.0
_OWNERS: Mapping[str, Kind] = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "library": "ollama",
    "organization_owner": "lmstudio",
}
Constrain = Callable[[Mapping[str, Any]], dict[str, Any]]


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = {"name": "call", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


_COMMON: tuple[Constrain, ...] = (_response_format,)
CONSTRAINTS: Mapping[Kind, tuple[Constrain, ...]] = {
    "llamacpp": (_response_format, lambda schema: {"json_schema": schema}),
    "vllm": (
        _response_format,
        lambda schema: {"structured_outputs": {"json": schema}},
        lambda schema: {"guided_json": schema},
    ),
    "sglang": _COMMON,
    "ollama": (_response_format, lambda schema: {"format": schema}),
    "ollama-api": (lambda schema: {"format": schema},),
    "lmstudio": _COMMON,
    "unknown": _COMMON,
}
"""The fields that hold a reply to a schema, by server, in the order in which they are tried."""
LONG_STRING, SAFE_STRING = 8_000, 2_000
"""The longest string in a call: at first, and where a server cannot make a grammar of that."""


async def identify(endpoint: Endpoint, timeouts: Timeouts) -> tuple[Kind, int | None]:
    """The kind of a server, and the model's context window where the list of models has it."""
    if endpoint.provider == "ollama":
        return "ollama-api", None
    async with HttpClient(endpoint, _quick(timeouts)) as client:
        listing = await _get(client, "/models")
    entries = [entry for entry in _list(listing, "data") if isinstance(entry, Mapping)]
    named = [entry for entry in entries if entry.get("id") in (endpoint.model, f"{endpoint.model}:latest")]
    entry = (named or (entries if len(entries) == 1 else [{}]))[0]
    owner = next((entry.get("owned_by") for entry in (entry, *entries) if entry.get("owned_by")), "")
    return _OWNERS.get(str(owner), "unknown"), _window(entry.get("max_model_len"))


async def ask_window(endpoint: Endpoint, timeouts: Timeouts, kind: Kind) -> int | None:
    """The context window that a server tells at an address of its own, beside the common API."""
    base = replace(endpoint, root=re.sub(r"/(?:api/)?v\d+$", "", endpoint.root))
    async with HttpClient(base, _quick(timeouts)) as client:
        match kind:
            case "llamacpp":
                return _window(_dig(await _get(client, "/props"), "default_generation_settings", "n_ctx"))
            case "ollama":
                return await _ask_ollama(client)
            case "lmstudio":
                told = await _get(client, f"/api/v0/models/{quote(endpoint.model, safe='/')}")
                return _window(_dig(told, "loaded_context_length"))
    return None


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
    base = replace(endpoint, root=re.sub(r"/(?:api/)?v\d+$", "", endpoint.root))
    async with HttpClient(base, _quick(timeouts)) as client:
        return await _ask_loaded(client)


async def ask_largest_window(endpoint: Endpoint, timeouts: Timeouts) -> int | None:
    """The largest context window that a model of Ollama's can have; None where Ollama does not tell."""
    async with HttpClient(endpoint, _quick(timeouts)) as client:
        return _largest(await _show(client))


async def _ask_loaded(client: HttpClient) -> int | None:
    name = client.endpoint.model
    for entry in _list(await _get(client, "/api/ps"), "models"):
        if _dig(entry, "name") in (name, f"{name}:latest") and (
            window := _window(_dig(entry, "context_length"))
        ):
            return window
    return None


async def _show(client: HttpClient) -> Any:
    try:
        async with client.post("/api/show", encode_json({"model": client.endpoint.model})) as answer:
            return answer.decode(await answer.body())
    except ModelError:
        return None  # it does not tell


def _largest(shown: Any) -> int | None:
    info = _dig(shown, "model_info")
    lengths = info.items() if isinstance(info, Mapping) else ()
    return next((_window(size) for key, size in lengths if str(key).endswith(".context_length")), None)


async def _get(client: HttpClient, path: str) -> Any:
    try:
        return await client.get_json(path)
    except ModelError:
        return None  # it does not tell


def _list(value: Any, key: str) -> list[Any]:
    found = _dig(value, key)
    return found if isinstance(found, list) else []


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _window(value: object) -> int | None:
    return value if isinstance(value, int) and value in WINDOWS else None
