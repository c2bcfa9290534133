"""Models behind the Messages API."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal

from headgate.core import (
    Delta,
    Finish,
    Image,
    Message,
    ModelSettings,
    OnDelta,
    Reply,
    Request,
    ToolCall,
    ToolSpec,
    Usage,
    clean_text,
    image_surplus,
)
from headgate.errors import ConfigError
from headgate.first_use import dataclass, regex
from headgate.models.encoding import (
    CallIds,
    arguments_as_object,
    call_ids,
    decode_json,
    encode_json,
    mapping_in,
    repair_text,
)
from headgate.models.wire.exchange import (
    Assembly,
    exchange,
    most_characters,
    read_count,
    reply_limit,
)
from headgate.models.wire.http import HttpClient
from headgate.models.wire.openai import encode_head, safe_name

# The reply of the Messages API, put together from its events.


_FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}
_PLAIN_BLOCKS = {"text", "tool_use"}


class MessagesAssembly(Assembly):
    """Takes the events of a stream, or one whole body, and makes the reply."""

    def begin(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._stop = ""
        self._usage: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        kind = chunk.get("type")
        if kind == "message_start":
            self._take_usage(mapping_in(chunk, "message"))
        elif kind == "content_block_start":
            self._open_block(_index(chunk), mapping_in(chunk, "content_block"))
        elif kind == "content_block_delta":
            self._take_delta(_index(chunk), mapping_in(chunk, "delta"))
        elif kind == "message_delta":
            self._take_usage(chunk)
            self._take_stop(mapping_in(chunk, "delta"))
        elif kind == "message_stop":
            self.ended = self.done = True

    def load(self, body: Mapping[str, Any]) -> None:
        content = body.get("content")
        if body.get("type") != "message" or not isinstance(content, list):
            raise ValueError("the answer is not a message")
        for index, block in enumerate(content):
            if isinstance(block, Mapping):
                self._open_block(index, block)
        self._take_usage(body)
        self._take_stop(body)
        self.ended = self.done = True

    def reply(self, ids: CallIds, sent: int = 0) -> Reply:
        text, reasoning = [], []
        calls: list[ToolCall] = []
        blocks = [self._close_block(index, block) for index, block in sorted(self._blocks.items())]
        for block in blocks:
            if block.get("type") == "text":
                text.append(str(block.get("text", "")))
            elif block.get("type") == "thinking":
                reasoning.append(str(block.get("thinking", "")))
            elif block.get("type") == "tool_use":
                id, name = str(block.get("id", "")), str(block.get("name", ""))
                call = ToolCall(ids.take(id), name, block["input"])
                calls.append(call)
                block |= {"id": call.id, "input": arguments_as_object(call.arguments)}
        # Signed thinking is accepted only unchanged and in its place, so the blocks are kept as they came.
        signed = any(block.get("type") not in _PLAIN_BLOCKS for block in blocks)
        message = Message(
            "assistant",
            "".join(text),
            tuple(calls),
            reasoning="\n".join(part for part in reasoning if part),
            opaque=encode_json(blocks).decode() if signed else "",
        )
        finish = _FINISHES.get(self._stop, "calls" if calls else "stop")
        return Reply(message, self._count_usage(), finish, sent=sent)

    def _open_block(self, index: int, block: Mapping[str, Any]) -> None:
        self._blocks[index] = dict(block)
        if block.get("type") in _PLAIN_BLOCKS or block.get("type") == "thinking":
            self.started = True
        if block.get("type") == "tool_use":
            self._watch.see(str(block.get("name")), encode_json(block.get("input") or {}).decode())
            if self._on_delta:
                self._on_delta(Delta(tool=clean_text(str(block.get("name")))))
        self.take_piece(str(block.get("text") or ""), str(block.get("thinking") or ""))

    def _take_delta(self, index: int, delta: Mapping[str, Any]) -> None:
        self.started = True
        for name in ("text", "thinking", "signature", "partial_json"):
            if isinstance(piece := delta.get(name), str):
                self._pieces.setdefault((index, name), []).append(piece)
        if citation := delta.get("citation"):
            block = self._blocks.setdefault(index, {"type": "text"})
            block["citations"] = [*(block.get("citations") or ()), citation]
        text, thinking, arguments = (delta.get(name) or "" for name in ("text", "thinking", "partial_json"))
        self.take_piece(str(text), str(thinking), str(arguments))

    def _close_block(self, index: int, block: dict[str, Any]) -> dict[str, Any]:
        """A block with its pieces; the input of a call is its JSON text."""
        for name in ("text", "thinking", "signature"):
            if pieces := self._pieces.get((index, name)):
                block[name] = repair_text((block.get(name) or "") + "".join(pieces))
        if "input" in block or block.get("type") == "tool_use":
            text = repair_text("".join(self._pieces.get((index, "partial_json"), ()))).strip()
            if not text:
                text = encode_json(block.get("input") or {}).decode()
            block["input"] = text if block.get("type") == "tool_use" else arguments_as_object(text)
        return block

    def _take_stop(self, source: Mapping[str, Any]) -> None:
        if isinstance(reason := source.get("stop_reason"), str):
            self._stop = reason
            self.ended = True

    def _take_usage(self, source: Mapping[str, Any]) -> None:
        usage = mapping_in(source, "usage")
        self._usage |= {name: read_count(count) for name, count in usage.items() if isinstance(count, int)}

    def _count_usage(self) -> Usage:
        cached = max(0, self._usage.get("cache_read_input_tokens", 0))
        written = max(0, self._usage.get("cache_creation_input_tokens", 0))
        prompt = max(0, self._usage.get("input_tokens", 0)) + cached + written
        # What was told before a reply was stopped is the count of its beginning.
        completion = 0 if self.stopped else max(0, self._usage.get("output_tokens", 0))
        return Usage(prompt, completion, cached)

    @property
    def calls_tools(self) -> bool:
        return any(block.get("type") == "tool_use" for block in self._blocks.values())


def _index(chunk: Mapping[str, Any]) -> int:
    index = chunk.get("index")
    return index if isinstance(index, int) else 0


WIRE = "anthropic"
DEFAULT_MAX_TOKENS = 16384
_BREAKPOINT = b',"cache_control":{"type":"ephemeral"}}'
_TOOL_RESULT = b'{"type":"tool_result"'
_BAD_ID_CHARS = regex(r"[^a-zA-Z0-9_-]")
_THINKING = ("thinking", "redacted_thinking")


@dataclass(slots=True)
class _BlockGroup:
    """Neighbouring messages of one side: the API wants the two sides to alternate."""

    role: Literal["user", "assistant"]
    blocks: list[bytes] = field(default_factory=list)


class AnthropicModel:
    """Asks `{base_url}/v1/messages`, streaming, with its prompt cache in use."""

    def __init__(self, settings: ModelSettings, client: HttpClient) -> None:
        if settings.seed is not None:
            raise ConfigError("The Messages API has no seed: remove it from the settings of this model.")
        self.name = settings.model
        self._settings = settings
        self._client = client

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        assembly = MessagesAssembly(on_delta, request.enough, most_characters(request, self._settings))
        body, used = self._encode(request), call_ids(request.messages)
        size = len(body) - image_surplus(request.messages)
        return await exchange(self._client, "/messages", body, assembly, size, used)

    def _encode(self, request: Request) -> bytes:
        system, rest = _split_system(request.messages)
        groups = list(_group(rest))
        # The last breakpoint writes the cache; the one before it is where the last turn wrote.
        marked = [index for index, group in enumerate(groups) if group.role == "user"][-2:]
        parts = [self._encode_head(request)]
        for index, group in enumerate(groups):
            # Results come first: the API wants them right after the calls that they answer.
            blocks = sorted(group.blocks, key=lambda block: not block.startswith(_TOOL_RESULT))
            if index in marked:
                blocks[-1] = blocks[-1][:-1] + _BREAKPOINT
            parts += (b"," if index else b"", b'{"role":"', group.role.encode(), b'","content":[')
            parts += (b",".join(blocks), b"]}")
        parts.append(b"]")
        if system:
            blocks = [_wire(message) for message in system]
            parts += (b',"system":[', b",".join(blocks)[:-1], _BREAKPOINT, b"]")
        parts += (_encode_tools(request.shown), b"}")
        return b"".join(parts)

    def _encode_head(self, request: Request) -> bytes:
        settings = self._settings
        temperature = settings.temperature if request.temperature is None else request.temperature
        head: dict[str, Any] = {
            "stream": True,
            "model": self._client.endpoint.model,
            "max_tokens": reply_limit(request, settings) or DEFAULT_MAX_TOKENS,
        }
        optional = {
            "temperature": temperature,
            "top_p": request.top_p or settings.top_p,
            "stop_sequences": list(request.stop) or None,
        }
        head |= {name: value for name, value in optional.items() if value is not None}
        return encode_head(head, {**settings.extra_body, **request.extra_body})


def _split_system(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """The leading system messages, and all others."""
    count = 0
    while count < len(messages) and messages[count].role == "system":
        count += 1
    return [message for message in messages[:count] if message.content.strip()], messages[count:]


def _group(messages: Sequence[Message]) -> Iterator[_BlockGroup]:
    group: _BlockGroup | None = None
    for message in messages:
        role: Literal["user", "assistant"] = "assistant" if message.role == "assistant" else "user"
        if group is None and role == "assistant":
            yield _BlockGroup("user", [_text_block("(The conversation continues.)")])
        if group is None or group.role != role:
            if group is not None:
                yield group
            group = _BlockGroup(role)
        group.blocks.append(_wire(message))
    if group is not None:
        yield group


def _wire(message: Message) -> bytes:
    """A message's content blocks without their brackets, encoded once. A breakpoint is spliced in later."""
    data = message.wire.get(WIRE)
    if data is None:
        data = message.wire[WIRE] = b",".join(_encode_blocks(message))
    return data


def _encode_blocks(message: Message) -> list[bytes]:
    if message.role == "tool":
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _safe_id(message.call_id)}
        block["content"] = clean_text(message.content)
        return [encode_json(block | ({"is_error": True} if message.failed else {}))]
    if message.role != "assistant":
        return [*map(_image_block, message.images), _text_block(message.content)]
    kept = _kept_blocks(message)
    if _same_content(kept, message):
        return [encode_json(block) for block in kept if not _is_blank(block)]
    blocks = [encode_json(block) for block in kept if block.get("type") in _THINKING]
    if message.content.strip() or not message.calls:
        blocks.append(_text_block(message.content))
    for call in message.calls:
        use = {"type": "tool_use", "id": _safe_id(call.id), "name": safe_name(call.name)}
        blocks.append(encode_json(use | {"input": arguments_as_object(call.arguments)}))
    return blocks


def _kept_blocks(message: Message) -> list[dict[str, Any]]:
    """The blocks of the reply as they came, where this API wrote it."""
    blocks = decode_json(message.opaque) if message.opaque else None
    return blocks if isinstance(blocks, list) else []


def _same_content(blocks: Sequence[dict[str, Any]], message: Message) -> bool:
    """Whether the kept blocks still say what the message says: a shortened message is built again."""
    text = "".join(block.get("text", "") for block in blocks if block.get("type") == "text")
    ids = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
    return bool(blocks) and text == message.content and ids == [_safe_id(call.id) for call in message.calls]


def _is_blank(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and not block.get("text", "").strip()


def _text_block(text: str) -> bytes:
    # The API refuses a text block that is blank.
    return encode_json({"type": "text", "text": clean_text(text) if text.strip() else "(empty)"})


def _image_block(image: Image) -> bytes:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return encode_json({"type": "image", "source": source})


def _safe_id(id: str) -> str:
    return _BAD_ID_CHARS.sub("_", id) or "call"


@lru_cache(maxsize=64)
def _encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    if not tools:
        return b""
    described = b",".join(encode_json(_describe_tool(tool)) for tool in tools)
    return b',"tools":[' + described[:-1] + _BREAKPOINT + b"]"


def _describe_tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
