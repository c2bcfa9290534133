"""Models behind a chat-completions server: OpenAI and the many servers that speak its language."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from headgate.core import Message, ModelSettings, OnDelta, Reply, Request, ToolSpec, clean_text
from headgate.errors import ConfigError
from headgate.models.encoding import (
    UNPARSED,
    CallIds,
    EncodedTools,
    arguments_as_object,
    decode_json,
    encode_json,
)
from headgate.models.wire.exchange import exchange
from headgate.models.wire.failures import RequestRejected
from headgate.models.wire.http import HttpClient, is_private
from headgate.models.wire.openai_reply import REASONING_FIELDS, ChatAssembly

WIRE = "openai"
_ABOUT_FORM = re.compile(r"response_format|json_schema|grammar|structured", re.IGNORECASE)
PROGRESS = "return_progress"
"""Asks llama.cpp to tell how far it has read the prompt. Other local servers ignore it."""
_REFUSABLE = ("temperature", "top_p", "stop", PROGRESS)
"""Fields that some servers or models refuse, whatever their value."""
_BAD_NAME_CHARS = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server turned out not to understand. It is learned from refusals and kept."""

    counts_in_stream: bool = True
    limit_field: str = "max_tokens"
    takes_forms: bool = True
    refused: frozenset[str] = frozenset()
    """Which of the fields that may be refused are left out."""

    def adapt(self, complaint: str, sent: Container[str]) -> "Dialect | None":
        """The dialect to try after a complaint about a request with these fields.

        None where the complaint is about something else.
        """
        if self.counts_in_stream and ("stream_options" in complaint or "include_usage" in complaint):
            return replace(self, counts_in_stream=False)
        if self.limit_field == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit_field="max_completion_tokens")
        if "response_format" in sent and _ABOUT_FORM.search(complaint):
            return replace(self, takes_forms=False)
        for name in _REFUSABLE:
            if name in sent and re.search(rf"\b{name}\b", complaint, re.IGNORECASE):
                return replace(self, refused=self.refused | {name})
        return None


class OpenAIModel:
    """Asks `{base_url}/chat/completions`, streaming."""

    def __init__(self, settings: ModelSettings, client: HttpClient) -> None:
        self.name = settings.model
        self._settings = settings
        self._client = client
        self._dialect = Dialect()
        self._is_local = is_private(urlsplit(client.endpoint.root).hostname or "")
        self._tools = EncodedTools(encode_tools)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply. A server that objects to an optional field is asked again, once, without it."""
        dialect = self._dialect
        while True:
            assembly = ChatAssembly(on_delta, request.enough)
            options = self._options(request, dialect, watched=on_delta is not None)
            body = self._encode(request, options)
            try:
                await exchange(self._client, "/chat/completions", body, assembly)
                return assembly.reply(CallIds(request.messages))
            except RequestRejected as rejected:
                adapted = dialect.adapt(rejected.detail, options)
                if adapted is None:
                    raise
                self._dialect = dialect = adapted

    def _encode(self, request: Request, options: Mapping[str, Any]) -> bytes:
        """The body: settings, then the messages, then the tools, so that each turn only adds bytes."""
        head = {"stream": True, "model": self._client.endpoint.model, **options}
        parts = [encode_head(head, {**self._settings.extra_body, **request.extra_body})]
        separator = b""
        for message in request.messages:
            data = message.wire.get(WIRE)
            if data is None:
                data = message.wire[WIRE] = encode_message(message)
            parts += (separator, data)
            separator = b","
        parts += (b"]", self._tools.get(request.tools), b"}")
        return b"".join(parts)

    def _options(self, request: Request, dialect: Dialect, *, watched: bool) -> dict[str, Any]:
        """The fields that a server may not know, as far as there is something to say in them."""
        settings = self._settings
        limit = request.max_tokens or settings.max_tokens
        temperature = settings.temperature if request.temperature is None else request.temperature
        optional = {
            "stream_options": {"include_usage": True} if dialect.counts_in_stream else None,
            "temperature": temperature,
            "top_p": settings.top_p,
            dialect.limit_field: limit,
            "seed": settings.seed,
            "stop": list(request.stop) or None,
            PROGRESS: True if watched and self._is_local else None,
            "response_format": _form(request) if dialect.takes_forms else None,
        }
        left_out = dialect.refused
        return {name: value for name, value in optional.items() if value is not None and name not in left_out}


def _form(request: Request) -> dict[str, Any] | None:
    if request.form is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": request.form}}


def encode_head(fields: Mapping[str, Any], extra: Mapping[str, Any]) -> bytes:
    """The beginning of a request's body, up to the first message."""
    try:
        return encode_json({**fields, **extra})[:-1] + b',"messages":['
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"The setting extra_body cannot be sent as JSON: {error}.") from error


def encode_message(message: Message) -> bytes:
    """A message as this wire format has it."""
    fields: dict[str, Any] = {"role": message.role}
    if message.role == "tool":
        fields["tool_call_id"] = message.call_id
    # Never null: chat templates print it as the word None.
    fields["content"] = clean_text(message.content)
    if message.role == "assistant":
        if message.reasoning:
            fields[_reasoning_field(message)] = clean_text(message.reasoning)
        if message.calls:
            fields["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": safe_name(call.name), "arguments": _safe_arguments(call.arguments)},
                }
                for call in message.calls
            ]
    return encode_json(fields)


def safe_name(name: str) -> str:
    """A tool's name that providers accept in a past call, also where the model invented it."""
    return _BAD_NAME_CHARS.sub("_", name)[:64] or "unnamed"


def _safe_arguments(arguments: str) -> str:
    parsed = arguments_as_object(arguments)
    return encode_json(parsed).decode() if UNPARSED in parsed else arguments


def _reasoning_field(message: Message) -> str:
    """The field in which this server told the reasoning: it may not know the other."""
    if message.opaque:
        known = decode_json(message.opaque)
        if isinstance(known, dict) and known.get("reasoning_field") in REASONING_FIELDS:
            return str(known["reasoning_field"])
    return REASONING_FIELDS[0]


def encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    """The part of a request's body that offers these tools."""
    return b',"tools":' + encode_json([_describe_tool(tool) for tool in tools])


def _describe_tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
