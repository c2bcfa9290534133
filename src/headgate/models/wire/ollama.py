"""Models behind Ollama's own API, which lets a request set its context window."""

import re
from collections.abc import Mapping
from typing import Any

from headgate.core import (
    Message,
    ModelSettings,
    OnDelta,
    Reply,
    Request,
    Timing,
    ToolCall,
    Usage,
    clean_text,
)
from headgate.errors import ConfigError
from headgate.first_use import regex
from headgate.models.encoding import (
    CallIds,
    SentTalk,
    arguments_as_object,
    encode_json,
    mapping_in,
    mappings_in,
    repair_text,
    text_in,
)
from headgate.models.endpoint import DEFAULT_NUM_CTX
from headgate.models.wire.exchange import (
    Assembly,
    exchange,
    most_characters,
    read_count,
    reply_limit,
)
from headgate.models.wire.failures import RequestRejected
from headgate.models.wire.http import HttpClient
from headgate.models.wire.openai import encode_head, join_body, safe_name

# The reply of Ollama's own API, put together from its lines.


_NANOSECONDS = 1e9


class OllamaAssembly(Assembly):
    """Takes the lines of a stream, or one whole body, and makes the reply."""

    def begin(self) -> None:
        self._calls: list[tuple[str, str, str]] = []
        self._last: Mapping[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        self._take_message(mapping_in(chunk, "message"))
        if chunk.get("done") is True:
            self._last = chunk
            self.ended = self.done = True

    def load(self, body: Mapping[str, Any]) -> None:
        if not isinstance(body.get("message"), Mapping):
            raise ValueError("the answer has no message")
        self.add(body)
        self.ended = self.done = True

    def reply(self, ids: CallIds, sent: int = 0) -> Reply:
        calls = tuple(ToolCall(ids.take(id), name, arguments) for id, name, arguments in self._calls)
        message = Message("assistant", self.text, calls, reasoning=self.reasoning)
        last = self._last
        usage = Usage(
            read_count(last.get("prompt_eval_count")),
            read_count(last.get("eval_count")),
            read_count(last.get("prompt_eval_cached_count")),
        )
        timing = Timing(
            _seconds(last.get("load_duration")),
            _seconds(last.get("prompt_eval_duration")),
            _seconds(last.get("eval_duration")),
        )
        if last.get("done_reason") == "length":
            return Reply(message, usage, "length", timing=timing, sent=sent)
        return Reply(message, usage, "calls" if calls else "stop", timing=timing, sent=sent)

    def _take_message(self, message: Mapping[str, Any]) -> None:
        self.take_piece(reasoning=text_in(message, "thinking"))
        self.take_piece(text_in(message, "content"))
        for call in mappings_in(message, "tool_calls"):
            self._take_call(call)

    def _take_call(self, call: Mapping[str, Any]) -> None:
        """A call comes whole: its arguments are an object, and often it has no id."""
        function = call.get("function")
        if not isinstance(function, Mapping):
            return
        name, arguments = function.get("name"), function.get("arguments")
        if not isinstance(arguments, str):
            arguments = encode_json({} if arguments is None else arguments).decode()
        arguments = repair_text(arguments).strip() or "{}"
        self._calls.append((text_in(call, "id"), str(name or ""), arguments))
        self.take_piece(arguments=arguments)

    @property
    def calls_tools(self) -> bool:
        return bool(self._calls)


def _seconds(value: object) -> float:
    return (max(value, 0) if isinstance(value, int) else 0) / _NANOSECONDS


WIRE = "ollama"
DEFAULT_KEEP_ALIVE = "15m"
"""Longer than Ollama's own five minutes: a model that is unloaded while tests run has to read all again."""
_ABOUT_THINKING = regex(r"\bthink", re.IGNORECASE)


class OllamaModel:
    """Asks `{base_url}/api/chat`, streaming."""

    def __init__(self, settings: ModelSettings, client: HttpClient) -> None:
        self.name = settings.model
        self._settings = settings
        self._client = client
        self._think = settings.think
        self._talk = SentTalk(_encode_message, WIRE)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply. A model that cannot think is asked again, once, without that."""
        while True:
            assembly = OllamaAssembly(on_delta, request.enough, most_characters(request, self._settings))
            try:
                body = self._encode(request)
                size, used = len(body) - self._talk.surplus, self._talk.tools
                return await exchange(self._client, "/api/chat", body, assembly, size, used)
            except RequestRejected as rejected:
                if self._think is None or not _ABOUT_THINKING.search(rejected.detail):
                    raise
                self._think = None

    def _encode(self, request: Request) -> bytes:
        """The body: settings, then the messages, then the tools, so that each turn only adds bytes."""
        return join_body(self._encode_head(request), self._talk.take(request.messages), request.shown)

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
            "top_p": request.top_p or settings.top_p,
            "num_predict": reply_limit(request, settings),
            "seed": settings.seed if request.seed is None else request.seed,
            "stop": list(request.stop) or None,
        }
        window = settings.num_ctx or settings.context_window or DEFAULT_NUM_CTX
        given = {name: value for name, value in optional.items() if value is not None}
        return {"num_ctx": window, **given}


def _encode_message(message: Message, tool: str) -> bytes:
    """A message as this wire format has it; `tool` is the name of the tool whose result it is."""
    fields: dict[str, Any] = {"role": message.role, "content": clean_text(message.content)}
    if message.images:
        fields["images"] = [image.data for image in message.images]
    if message.role == "tool":
        fields |= {"tool_name": safe_name(tool), "tool_call_id": message.call_id}
    if message.role == "assistant" and message.reasoning:
        fields["thinking"] = clean_text(message.reasoning)
    if message.calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "function": {"name": safe_name(call.name), "arguments": arguments_as_object(call.arguments)},
            }
            for call in message.calls
        ]
    return encode_json(fields)
