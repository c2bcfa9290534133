"""Models behind a chat-completions server: OpenAI and the many servers that speak its language."""

import re
from collections.abc import Container, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from headgate.core import (
    Delta,
    Finish,
    Message,
    ModelSettings,
    OnDelta,
    Reply,
    Request,
    Timing,
    ToolCall,
    ToolSpec,
    Usage,
    clean_text,
)
from headgate.errors import ConfigError, ModelUnavailable, ReplyInvalid
from headgate.first_use import dataclass, regex
from headgate.models.encoding import (
    UNPARSED,
    CallIds,
    SentTalk,
    arguments_as_object,
    decode_json,
    encode_json,
    mapping_in,
    mappings_in,
    repair_text,
    text_in,
)
from headgate.models.wire.exchange import (
    Assembly,
    exchange,
    most_characters,
    read_count,
    reply_limit,
)
from headgate.models.wire.failures import RequestRejected
from headgate.models.wire.http import HttpClient
from headgate.reading import is_private

REASONING_FIELDS = ("reasoning_content", "reasoning")
_FINISHES: Mapping[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "filtered",
}


@dataclass(slots=True)
class _PartialCall:
    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        if not self.arguments or not self.arguments[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(decode_json("".join(self.arguments)), dict)
        except ValueError:
            return False


class ChatAssembly(Assembly):
    """Takes the chunks of a stream, or one whole body, and makes the reply."""

    def begin(self) -> None:
        self._reasoning_field = ""
        self._calls: list[_PartialCall] = []
        self._finish = ""
        self._usage: Mapping[str, Any] = {}
        self._cached = 0
        self._timing: Timing | None = None

    def add(self, chunk: Mapping[str, Any]) -> None:
        self._take_usage(chunk)
        self._take_progress(chunk.get("prompt_progress"))
        for choice in mappings_in(chunk, "choices"):
            if not choice.get("index"):
                self._take_choice(choice, mapping_in(choice, "delta" if "delta" in choice else "message"))

    def load(self, body: Mapping[str, Any]) -> None:
        if not isinstance(body.get("choices"), list):
            raise ValueError("the answer has no choices")
        self.add(body)
        self.ended = True

    def reply(self, ids: CallIds, sent: int = 0) -> Reply:
        calls = tuple(
            ToolCall(ids.take(call.id), call.name, repair_text("".join(call.arguments)).strip() or "{}")
            for call in self._calls
            if call.name or call.arguments
        )
        finish = _FINISHES.get(self._finish, "calls" if calls else "stop")
        reasoning = self.reasoning
        opaque = ""
        if reasoning and self._reasoning_field not in ("", REASONING_FIELDS[0]):
            opaque = encode_json({"reasoning_field": self._reasoning_field}).decode()
        message = Message("assistant", self.text, calls, reasoning=reasoning, opaque=opaque)
        return Reply(message, self._count_usage(), finish, timing=self._timing, sent=sent)

    def _take_choice(self, choice: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        for name in REASONING_FIELDS:
            if name in delta and (text := text_in(delta, name)):
                self._reasoning_field = name
                self.take_piece(reasoning=text)
                break
        if content := delta.get("content"):
            self._take_content(content, delta)
        if "refusal" in delta:
            self.take_piece(text=text_in(delta, "refusal"))
        if delta.get("tool_calls"):
            for fragment in mappings_in(delta, "tool_calls"):
                self._take_fragment(fragment)
        if finish := text_in(choice, "finish_reason"):
            if finish == "error":
                raise ModelUnavailable("The model server reports that the reply was interrupted.")
            if finish.lower() == "malformed_function_call":
                raise ReplyInvalid("The server could not read the model's tool call.")
            self._finish = finish
            self.ended = True

    def _take_content(self, content: object, delta: Mapping[str, Any]) -> None:
        """A piece of text, or a list of parts."""
        if isinstance(content, str):
            self.take_piece(text=content)
        for part in mappings_in(delta, "content"):
            self.take_piece(text=text_in(part, "text"))
            self.take_piece(reasoning=text_in(part, "thinking"))
            for piece in mappings_in(part, "thinking"):
                self.take_piece(reasoning=text_in(piece, "text"))

    @property
    def calls_tools(self) -> bool:
        return bool(self._calls)

    def _take_fragment(self, fragment: Mapping[str, Any]) -> None:
        self.started = True
        function = mapping_in(fragment, "function")
        name = text_in(function, "name")
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = encode_json(arguments).decode()
        call = self._find_call(fragment, name, arguments)
        # Some servers repeat the name with every fragment, a few send it in pieces.
        if name != call.name and not call.arguments:
            call.name += name
            if self._on_delta:
                self._on_delta(Delta(tool=clean_text(call.name)))
        if arguments:
            call.arguments.append(arguments)
            self.take_piece(arguments=arguments)

    def _find_call(self, fragment: Mapping[str, Any], name: str, arguments: str) -> _PartialCall:
        """The call that a fragment belongs to: by index and id, as far as the server sends them."""
        index = fragment.get("index")
        index = index if isinstance(index, int) else None
        id = text_in(fragment, "id")
        for call in reversed(self._calls):
            if index is not None and call.index != index:
                continue
            if id and call.id:
                if id == call.id:
                    return call
                continue
            # No id to tell by: a name after a complete call begins the next one, unless it is only repeated.
            if name and call.is_whole and (arguments or name != call.name):
                break
            if index is None and name and not call.arguments and call.name not in ("", name):
                break
            call.id = call.id or id
            return call
        self._calls.append(_PartialCall(index, id))
        self._watch.see(name)
        return self._calls[-1]

    def _take_usage(self, chunk: Mapping[str, Any]) -> None:
        for source in (chunk.get("x_groq"), chunk):
            if source and (usage := mapping_in(source, "usage")):
                self._usage = usage
        if "timings" in chunk and (timings := mapping_in(chunk, "timings")):
            self._cached = read_count(timings.get("cache_n"))
            prompt, completion = timings.get("prompt_ms"), timings.get("predicted_ms")
            self._timing = Timing(0.0, _seconds(prompt), _seconds(completion))

    def _take_progress(self, progress: object) -> None:
        """How far llama.cpp has read the prompt; sent before the first token."""
        if isinstance(progress, dict) and self._on_delta and not self.started:
            self._on_delta(
                Delta(read=(read_count(progress.get("processed")), read_count(progress.get("total"))))
            )

    def _count_usage(self) -> Usage:
        usage = self._usage
        cached = mapping_in(usage, "prompt_tokens_details").get("cached_tokens")
        counts = (cached, usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"), self._cached)
        return Usage(
            read_count(usage.get("prompt_tokens")),
            read_count(usage.get("completion_tokens")),
            next((read_count(count) for count in counts if count is not None), 0),
        )


def _seconds(milliseconds: object) -> float:
    return max(0.0, milliseconds / 1000) if isinstance(milliseconds, int | float) else 0.0


WIRE = "openai"
_ABOUT_FORM = regex(r"response_format|json_schema|grammar|structured", re.IGNORECASE)
PROGRESS = "return_progress"
"""Asks llama.cpp to tell how far it has read the prompt. Other local servers ignore it."""
_REFUSABLE = ("temperature", "top_p", "stop", "tool_choice", PROGRESS)
"""Fields that some servers or models refuse, whatever their value."""
_BAD_NAME_CHARS = regex(r"[^a-zA-Z0-9_-]")


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
        self._talk = SentTalk(lambda message, tool: encode_message(message), WIRE)
        self._is_local = is_private(urlsplit(client.endpoint.root).hostname or "")

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply. A server that objects to an optional field is asked again, once, without it."""
        dialect = self._dialect
        while True:
            assembly = ChatAssembly(on_delta, request.enough, most_characters(request, self._settings))
            options = self._options(request, dialect, watched=on_delta is not None)
            body = self._encode(request, options)
            try:
                size, used = len(body) - self._talk.surplus, self._talk.tools
                return await exchange(self._client, "/chat/completions", body, assembly, size, used)
            except RequestRejected as rejected:
                adapted = dialect.adapt(rejected.detail, options)
                if adapted is None:
                    raise
                self._dialect = dialect = adapted

    def _encode(self, request: Request, options: Mapping[str, Any]) -> bytes:
        """The body: settings, then the messages, then the tools, so that each turn only adds bytes."""
        head = {"stream": True, "model": self._client.endpoint.model, **options}
        extra = {**self._settings.extra_body, **request.extra_body}
        return join_body(encode_head(head, extra), self._talk.take(request.messages), request.shown)

    def _options(self, request: Request, dialect: Dialect, *, watched: bool) -> dict[str, Any]:
        """The fields that a server may not know, as far as there is something to say in them."""
        settings = self._settings
        limit = reply_limit(request, settings)
        temperature = settings.temperature if request.temperature is None else request.temperature
        optional = {
            "stream_options": {"include_usage": True} if dialect.counts_in_stream else None,
            "temperature": temperature,
            "top_p": request.top_p or settings.top_p,
            dialect.limit_field: limit,
            "seed": settings.seed if request.seed is None else request.seed,
            "stop": list(request.stop) or None,
            "tool_choice": "none" if request.listed and not request.tools else None,
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


def join_body(head: bytes, messages: bytes, tools: tuple[ToolSpec, ...]) -> bytes:
    """The whole body: what grows from turn to turn comes before what stays."""
    return b"".join((head, messages, b"]", encode_tools(tools), b"}"))


def encode_message(message: Message) -> bytes:
    """A message as this wire format has it."""
    fields: dict[str, Any] = {"role": message.role}
    if message.role == "tool":
        fields["tool_call_id"] = message.call_id
    # Never null: chat templates print it as the word None.
    fields["content"] = _with_images(message) if message.images else clean_text(message.content)
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


def _with_images(message: Message) -> list[dict[str, Any]]:
    """The words first, as most chat templates expect it."""
    shown = [
        {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}
        for image in message.images
    ]
    return [{"type": "text", "text": clean_text(message.content)}, *shown]


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


@lru_cache(maxsize=64)
def encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    """The part of a request's body that offers these tools; each list of specs is encoded once."""
    if not tools:
        return b""
    return b',"tools":' + encode_json([_describe_tool(tool) for tool in tools])


def _describe_tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
