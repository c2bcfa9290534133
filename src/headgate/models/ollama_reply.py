"""The reply of Ollama's own API, put together from its lines."""

from collections.abc import Mapping
from typing import Any

from headgate.core.messages import (
    Delta,
    Enough,
    Message,
    OnDelta,
    Reply,
    Timing,
    ToolCall,
    Usage,
    clean_text,
)
from headgate.models.callids import CallIds
from headgate.models.endless import EndlessWatch
from headgate.models.jsontext import encode_json, mend_text

_NANOSECONDS = 1e9


class OllamaAssembly:
    """Takes the lines of a stream, or one whole body, and makes the reply."""

    def __init__(self, on_delta: OnDelta | None = None, enough: Enough | None = None) -> None:
        self.started = False
        self.ended = False
        self.done = False
        self._on_delta = on_delta
        self._enough = enough
        self._watch = EndlessWatch()
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[tuple[str, str, str]] = []
        self._last: Mapping[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes one line of a stream."""
        message = chunk.get("message")
        if isinstance(message, Mapping):
            self._take_message(message)
        if chunk.get("done") is True:
            self._last = chunk
            self.ended = self.done = True

    def load(self, body: Mapping[str, Any]) -> None:
        """Takes a whole reply; ValueError where the body is none."""
        if not isinstance(body.get("message"), Mapping):
            raise ValueError("the answer has no message")
        self.add(body)
        self.ended = self.done = True

    def reply(self, ids: CallIds) -> Reply:
        """The finished reply."""
        calls = tuple(ToolCall(ids.take(id), name, arguments) for id, name, arguments in self._calls)
        message = Message(
            "assistant",
            mend_text("".join(self._text)),
            calls,
            reasoning=mend_text("".join(self._thinking)),
        )
        last = self._last
        usage = Usage(
            _count(last.get("prompt_eval_count")),
            _count(last.get("eval_count")),
            _count(last.get("prompt_eval_cached_count")),
        )
        timing = Timing(
            _seconds(last.get("load_duration")),
            _seconds(last.get("prompt_eval_duration")),
            _seconds(last.get("eval_duration")),
        )
        if last.get("done_reason") == "length":
            return Reply(message, usage, "length", timing=timing)
        return Reply(message, usage, "calls" if calls else "stop", timing=timing)

    def _take_message(self, message: Mapping[str, Any]) -> None:
        thinking, text = message.get("thinking"), message.get("content")
        if isinstance(thinking, str) and thinking:
            self._thinking.append(thinking)
            self._show(reasoning=thinking)
        if isinstance(text, str) and text:
            self._text.append(text)
            if self._enough and not self._calls and self._enough(text):
                self.ended = self.done = True
            self._show(text=text)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                self._take_call(call)

    def _take_call(self, call: Mapping[str, Any]) -> None:
        """A call comes whole: its arguments are an object, and often it has no id."""
        function = call.get("function")
        if not isinstance(function, Mapping):
            return
        name, id, arguments = function.get("name"), call.get("id"), function.get("arguments")
        if not isinstance(arguments, str):
            arguments = encode_json({} if arguments is None else arguments).decode()
        arguments = mend_text(arguments).strip() or "{}"
        self._calls.append((id if isinstance(id, str) else "", str(name or ""), arguments))
        self._show(arguments=arguments)

    def _show(self, *, text: str = "", reasoning: str = "", arguments: str = "") -> None:
        self.started = True
        if not self.done:
            self._watch.see(text, reasoning, arguments)
        if self._on_delta:
            self._on_delta(Delta(clean_text(text), clean_text(reasoning), clean_text(arguments)))


def _count(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return _count(value) / _NANOSECONDS
