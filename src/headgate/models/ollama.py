"""Models behind Ollama's own API, which lets a request set its context window."""

import re
from collections.abc import Mapping
from typing import Any

from headgate.core.messages import Message, OnDelta, Reply, Request, clean_text
from headgate.errors import ConfigError
from headgate.models.base import DEFAULT_NUM_CTX, ModelSettings
from headgate.models.callids import CallIds
from headgate.models.encoded_tools import EncodedTools
from headgate.models.exchange import exchange
from headgate.models.failures import RequestRejected
from headgate.models.http import HttpClient
from headgate.models.jsontext import encode_json, parse_arguments
from headgate.models.ollama_reply import OllamaAssembly
from headgate.models.openai import encode_head, encode_tools, safe_name

WIRE = "ollama"
DEFAULT_KEEP_ALIVE = "15m"
"""Longer than Ollama's own five minutes: a model that is unloaded while tests run has to read all again."""
_ABOUT_THINKING = re.compile(r"\bthink", re.IGNORECASE)


class OllamaModel:
    """Asks `{base_url}/api/chat`, streaming."""

    def __init__(self, settings: ModelSettings, client: HttpClient) -> None:
        self.name = settings.model
        self._settings = settings
        self._client = client
        self._think = settings.think
        self._tools = EncodedTools(encode_tools)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply. A model that cannot think is asked again, once, without that."""
        while True:
            assembly = OllamaAssembly(on_delta, request.enough)
            try:
                await exchange(self._client, "/api/chat", self._encode(request), assembly)
                return assembly.reply(CallIds(request.messages))
            except RequestRejected as rejected:
                if self._think is None or not _ABOUT_THINKING.search(rejected.detail):
                    raise
                self._think = None

    def _encode(self, request: Request) -> bytes:
        """The body: settings, then the messages, then the tools, so that each turn only adds bytes."""
        parts = [self._encode_head(request)]
        names: dict[str, str] = {}
        separator = b""
        for message in request.messages:
            names.update((call.id, call.name) for call in message.calls)
            data = message.wire.get(WIRE)
            if data is None:
                data = message.wire[WIRE] = _encode_message(message, names.get(message.call_id, ""))
            parts += (separator, data)
            separator = b","
        parts += (b"]", self._tools.get(request.tools), b"}")
        return b"".join(parts)

    def _encode_head(self, request: Request) -> bytes:
        settings = self._settings
        extra = {**settings.extra_body, **request.extra_body}
        more = extra.pop("options", {})
        if not isinstance(more, Mapping):
            raise ConfigError("The setting extra_body must have a mapping under options.")
        keep_alive = settings.keep_alive
        optional: dict[str, Any] = {"think": self._think, "format": request.form}
        head = {
            "model": self._client.endpoint.model,
            "stream": True,
            "keep_alive": DEFAULT_KEEP_ALIVE if keep_alive is None else keep_alive,
            # What does not fit is to be an error, which we can do something about, not to be dropped.
            "truncate": False,
            "shift": False,
            **{name: value for name, value in optional.items() if value is not None},
            "options": {**self._options(request), **more},
        }
        return encode_head(head, extra)

    def _options(self, request: Request) -> dict[str, Any]:
        settings = self._settings
        optional = {
            "temperature": settings.temperature if request.temperature is None else request.temperature,
            "top_p": settings.top_p,
            "num_predict": request.max_tokens or settings.max_tokens,
            "seed": settings.seed,
            "stop": list(request.stop) or None,
        }
        window = settings.num_ctx or settings.context_window or DEFAULT_NUM_CTX
        given = {name: value for name, value in optional.items() if value is not None}
        return {"num_ctx": window, **given}


def _encode_message(message: Message, tool: str) -> bytes:
    """A message as this wire format has it; `tool` is the name of the tool whose result it is."""
    fields: dict[str, Any] = {"role": message.role, "content": clean_text(message.content)}
    if message.role == "tool":
        fields |= {"tool_name": safe_name(tool), "tool_call_id": message.call_id}
    if message.role == "assistant" and message.reasoning:
        fields["thinking"] = clean_text(message.reasoning)
    if message.calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "function": {"name": safe_name(call.name), "arguments": parse_arguments(call.arguments)},
            }
            for call in message.calls
        ]
    return encode_json(fields)
