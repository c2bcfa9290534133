"""The reply of the Messages API, put together from its events."""

from collections.abc import Mapping
from typing import Any

from headgate.core.messages import Delta, Enough, Finish, Message, OnDelta, Reply, ToolCall, Usage, clean_text
from headgate.models.callids import CallIds
from headgate.models.endless import EndlessWatch
from headgate.models.jsontext import encode_json, mend_text, parse_arguments

_FINISHES: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}
_PLAIN_BLOCKS = {"text", "tool_use"}


class MessagesAssembly:
    """Takes the events of a stream, or one whole body, and makes the reply."""

    def __init__(self, on_delta: OnDelta | None = None, enough: Enough | None = None) -> None:
        self.started = False
        self.ended = False
        self.done = False
        self._on_delta = on_delta
        self._enough = enough
        self._stopped = False
        self._watch = EndlessWatch()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._stop = ""
        self._usage: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes one event of a stream."""
        kind = chunk.get("type")
        if kind == "message_start":
            self._take_usage(_mapping(chunk, "message"))
        elif kind == "content_block_start":
            self._open_block(_index(chunk), _mapping(chunk, "content_block"))
        elif kind == "content_block_delta":
            self._take_delta(_index(chunk), _mapping(chunk, "delta"))
        elif kind == "message_delta":
            self._take_usage(chunk)
            self._take_stop(_mapping(chunk, "delta"))
        elif kind == "message_stop":
            self.ended = self.done = True

    def load(self, body: Mapping[str, Any]) -> None:
        """Takes a whole reply; ValueError where the body is none."""
        content = body.get("content")
        if body.get("type") != "message" or not isinstance(content, list):
            raise ValueError("the answer is not a message")
        for index, block in enumerate(content):
            if isinstance(block, Mapping):
                self._open_block(index, block)
        self._take_usage(body)
        self._take_stop(body)
        self.ended = self.done = True

    def reply(self, ids: CallIds) -> Reply:
        """The finished reply."""
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
                block |= {"id": call.id, "input": parse_arguments(call.arguments)}
        # Signed thinking is accepted only unchanged and in its place, so the blocks are kept as they came.
        signed = any(block.get("type") not in _PLAIN_BLOCKS for block in blocks)
        message = Message(
            "assistant",
            "".join(text),
            tuple(calls),
            reasoning="\n".join(part for part in reasoning if part),
            opaque=encode_json(blocks).decode() if signed else "",
        )
        return Reply(message, self._count_usage(), _FINISHES.get(self._stop, "calls" if calls else "stop"))

    def _open_block(self, index: int, block: Mapping[str, Any]) -> None:
        self._blocks[index] = dict(block)
        if block.get("type") in _PLAIN_BLOCKS or block.get("type") == "thinking":
            self.started = True
        if block.get("type") == "tool_use":
            self._watch.see(str(block.get("name")), encode_json(block.get("input") or {}).decode())
            if self._on_delta:
                self._on_delta(Delta(tool=clean_text(str(block.get("name")))))
        self._show(str(block.get("text") or ""), str(block.get("thinking") or ""), "")

    def _take_delta(self, index: int, delta: Mapping[str, Any]) -> None:
        self.started = True
        for name in ("text", "thinking", "signature", "partial_json"):
            if isinstance(piece := delta.get(name), str):
                self._pieces.setdefault((index, name), []).append(piece)
        if citation := delta.get("citation"):
            block = self._blocks.setdefault(index, {"type": "text"})
            block["citations"] = [*(block.get("citations") or ()), citation]
        text, thinking, arguments = (delta.get(name) or "" for name in ("text", "thinking", "partial_json"))
        self._show(str(text), str(thinking), str(arguments))

    def _close_block(self, index: int, block: dict[str, Any]) -> dict[str, Any]:
        """A block with its pieces; the input of a call is its JSON text."""
        for name in ("text", "thinking", "signature"):
            if pieces := self._pieces.get((index, name)):
                block[name] = mend_text((block.get(name) or "") + "".join(pieces))
        if "input" in block or block.get("type") == "tool_use":
            text = mend_text("".join(self._pieces.get((index, "partial_json"), ()))).strip()
            if not text:
                text = encode_json(block.get("input") or {}).decode()
            block["input"] = text if block.get("type") == "tool_use" else parse_arguments(text)
        return block

    def _show(self, text: str, reasoning: str, arguments: str) -> None:
        if text and self._enough and not self._calls_tools and self._enough(text):
            self.ended = self.done = self._stopped = True
        if not self._stopped:
            self._watch.see(text, reasoning, arguments)
        if self._on_delta and (text or reasoning or arguments):
            self._on_delta(Delta(clean_text(text), clean_text(reasoning), clean_text(arguments)))

    def _take_stop(self, source: Mapping[str, Any]) -> None:
        if isinstance(reason := source.get("stop_reason"), str):
            self._stop = reason
            self.ended = True

    def _take_usage(self, source: Mapping[str, Any]) -> None:
        usage = _mapping(source, "usage")
        self._usage |= {name: count for name, count in usage.items() if isinstance(count, int)}

    def _count_usage(self) -> Usage:
        cached = max(0, self._usage.get("cache_read_input_tokens", 0))
        written = max(0, self._usage.get("cache_creation_input_tokens", 0))
        prompt = max(0, self._usage.get("input_tokens", 0)) + cached + written
        # What was told before a reply was stopped is the count of its beginning.
        completion = 0 if self._stopped else max(0, self._usage.get("output_tokens", 0))
        return Usage(prompt, completion, cached)

    @property
    def _calls_tools(self) -> bool:
        return any(block.get("type") == "tool_use" for block in self._blocks.values())


def _mapping(source: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = source.get(name)
    return value if isinstance(value, Mapping) else {}


def _index(chunk: Mapping[str, Any]) -> int:
    index = chunk.get("index")
    return index if isinstance(index, int) else 0
