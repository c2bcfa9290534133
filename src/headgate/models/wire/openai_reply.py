"""The reply of a chat-completions server, assembled from chunks; servers differ in how they send them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core import Delta, Enough, Finish, Message, OnDelta, Reply, Timing, ToolCall, Usage, clean_text
from headgate.errors import ModelUnavailable, ReplyInvalid
from headgate.models.encoding import CallIds, decode_json, encode_json, repair_text
from headgate.models.wire.exchange import Assembly, read_count

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

    def __init__(self, on_delta: OnDelta | None = None, enough: Enough | None = None) -> None:
        super().__init__(on_delta, enough)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field = ""
        self._calls: list[_PartialCall] = []
        self._finish = ""
        self._usage: Mapping[str, Any] = {}
        self._cached = 0
        self._timing: Timing | None = None

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Takes one chunk of a stream."""
        self._take_usage(chunk)
        self._take_progress(chunk.get("prompt_progress"))
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and not choice.get("index"):
                delta = choice["delta"] if "delta" in choice else choice.get("message")
                self._take_choice(choice, delta if isinstance(delta, Mapping) else {})

    def load(self, body: Mapping[str, Any]) -> None:
        """Takes a whole reply; ValueError where the body is none."""
        choices = body.get("choices")
        if not isinstance(choices, list):
            raise ValueError("the answer has no choices")
        self.add(body)
        self.ended = True

    def reply(self, ids: CallIds) -> Reply:
        """The finished reply."""
        calls = tuple(
            ToolCall(ids.take(call.id), call.name, repair_text("".join(call.arguments)).strip() or "{}")
            for call in self._calls
            if call.name or call.arguments
        )
        finish = _FINISHES.get(self._finish, "calls" if calls else "stop")
        reasoning = repair_text("".join(self._reasoning))
        opaque = ""
        if reasoning and self._reasoning_field not in ("", REASONING_FIELDS[0]):
            opaque = encode_json({"reasoning_field": self._reasoning_field}).decode()
        message = Message(
            "assistant", repair_text("".join(self._text)), calls, reasoning=reasoning, opaque=opaque
        )
        return Reply(message, self._count_usage(), finish, timing=self._timing)

    def _take_choice(self, choice: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        for name in REASONING_FIELDS:
            if isinstance(text := delta.get(name), str) and text:
                self._reasoning_field = name
                self._say(reasoning=text)
                break
        self._take_content(delta.get("content"))
        if isinstance(refusal := delta.get("refusal"), str):
            self._say(text=refusal)
        fragments = delta.get("tool_calls")
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, Mapping):
                self._take_fragment(fragment)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            if finish == "error":
                raise ModelUnavailable("The model server reports that the reply was interrupted.")
            if finish.lower() == "malformed_function_call":
                raise ReplyInvalid("The server could not read the model's tool call.")
            self._finish = finish
            self.ended = True

    def _take_content(self, content: object) -> None:
        if isinstance(content, str):
            self._say(text=content)
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, Mapping):
                continue
            if isinstance(text := part.get("text"), str):
                self._say(text=text)
            thinking = part.get("thinking")
            if isinstance(thinking, str):
                self._say(reasoning=thinking)
            for piece in thinking if isinstance(thinking, list) else ():
                if isinstance(piece, Mapping) and isinstance(piece.get("text"), str):
                    self._say(reasoning=piece["text"])

    def _say(self, *, text: str = "", reasoning: str = "", arguments: str = "") -> None:
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        self.take_piece(text, reasoning, arguments)

    @property
    def calls_tools(self) -> bool:
        """See Assembly."""
        return bool(self._calls)

    def _take_fragment(self, fragment: Mapping[str, Any]) -> None:
        self.started = True
        function = fragment.get("function")
        function = function if isinstance(function, Mapping) else {}
        name = function.get("name")
        name = name if isinstance(name, str) else ""
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
            self._say(arguments=arguments)

    def _find_call(self, fragment: Mapping[str, Any], name: str, arguments: str) -> _PartialCall:
        """The call that a fragment belongs to: by index and id, as far as the server sends them."""
        index = fragment.get("index")
        index = index if isinstance(index, int) else None
        id = fragment.get("id")
        id = id if isinstance(id, str) else ""
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
        nested = chunk.get("x_groq")
        for source in (nested, chunk):
            usage = source.get("usage") if isinstance(source, Mapping) else None
            if isinstance(usage, Mapping):
                self._usage = usage
        timings = chunk.get("timings")
        if isinstance(timings, Mapping):
            self._cached = read_count(timings.get("cache_n"))
            prompt, completion = timings.get("prompt_ms"), timings.get("predicted_ms")
            self._timing = Timing(0.0, _seconds(prompt), _seconds(completion))

    def _take_progress(self, progress: object) -> None:
        """How far llama.cpp has read the prompt; sent before the first token."""
        if isinstance(progress, Mapping) and self._on_delta and not self.started:
            self._on_delta(
                Delta(read=(read_count(progress.get("processed")), read_count(progress.get("total"))))
            )

    def _count_usage(self) -> Usage:
        usage = self._usage
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
        counts = (cached, usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"), self._cached)
        return Usage(
            read_count(usage.get("prompt_tokens")),
            read_count(usage.get("completion_tokens")),
            next((read_count(count) for count in counts if count is not None), 0),
        )


def _seconds(milliseconds: object) -> float:
    return max(0.0, milliseconds / 1000) if isinstance(milliseconds, int | float) else 0.0
