"""A server on the loopback interface that behaves as Ollama's documentation says Ollama does.

It has both of its APIs. A prompt is counted at four characters a token; what does not fit the context window
is dropped without a word, the oldest messages first, unless the request says `truncate: false`.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from models.model_server import Respond, Seen, Server, Wire, answer, chunk, serve, stream

Say = Callable[[Any], list[dict[str, Any]]]
"""From a request's body to the messages that the model streams."""
NANO = 1_000_000_000


@dataclass
class Ollama:
    """What the server has, and how its models answer."""

    models: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"qwen3:8b": {"context_length": 40_960}}
    )
    """By name: `context_length`, `capabilities`, `parameters`."""
    say: Say = lambda body: [{"content": "Hel"}, {"content": "lo"}]
    default_window: int = 4096
    """What Ollama gives a model for which nobody asked for more: OLLAMA_CONTEXT_LENGTH."""
    error: str = ""
    """Sent in the middle of every reply."""
    pieces: int = 0
    """The size of the pieces in which a stream arrives; 0: whole."""
    tells_loaded: bool = True
    """Whether `/api/ps` has the context window, as newer versions do."""
    loaded: dict[str, int] = field(default_factory=dict)
    """The windows of the models that are in memory."""
    chats: list[Any] = field(default_factory=list)
    """The bodies of the requests to `/api/chat` and `/v1/chat/completions`."""

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        body = json.loads(seen.body) if seen.body else {}
        respond = self._respond(seen.path, body)
        await respond(seen, wire)

    def _respond(self, path: str, body: Any) -> Respond:
        match path:
            case "/api/version":
                return answer({"version": "0.12.6"})
            case "/api/tags":
                return answer({"models": [self._describe(name) for name in self.models]})
            case "/v1/models":
                return answer({"data": [{"id": name, "owned_by": "library"} for name in self.models]})
            case "/api/ps":
                return answer({"models": [self._process(name) for name in self.loaded]})
            case "/api/show":
                return self._show(body)
            case "/api/chat" | "/v1/chat/completions":
                self.chats.append(body)
                return self._chat(path, body)
        return answer(b"404 page not found", 404, content_type="text/plain")

    def _describe(self, name: str) -> dict[str, Any]:
        told = {"name": name, "model": name, "size": 1, "details": {"family": "qwen3"}}
        remote = self.models[name].get("remote_host")
        return told | ({"remote_host": remote, "remote_model": name} if remote else {})

    def _process(self, name: str) -> dict[str, Any]:
        told: dict[str, Any] = {"name": name, "model": name}
        return told | ({"context_length": self.loaded[name]} if self.tells_loaded else {})

    def _find(self, name: str) -> str | None:
        return next((known for known in (name, f"{name}:latest") if known in self.models), None)

    def _show(self, body: Any) -> Respond:
        name = self._find(body["model"])
        if name is None:
            return answer({"error": f"model '{body['model']}' not found"}, 404)
        model = self.models[name]
        return answer(
            {
                "parameters": model.get("parameters", ""),
                "details": {"family": "qwen3"},
                "model_info": {"qwen3.context_length": model.get("context_length", 40_960)},
                "capabilities": model.get("capabilities", ["completion", "tools"]),
            }
        )

    def _chat(self, path: str, body: Any) -> Respond:
        name = self._find(body["model"])
        if name is None:
            return answer({"error": f"model '{body['model']}' not found"}, 404)
        model = self.models[name]
        able = model.get("capabilities", ["completion", "tools"])
        if body.get("tools") and "tools" not in able:
            told = f"registry.ollama.ai/library/{name} does not support tools"
            return answer({"error": told}, 400)
        if body.get("think") and "thinking" not in able:
            return answer({"error": f'"{name}" does not support thinking'}, 400)
        own = path == "/api/chat"
        asked = body.get("options", {}).get("num_ctx", self.default_window) if own else self.default_window
        window = self.loaded[name] = min(asked, model.get("context_length", 40_960))
        read = len(json.dumps([body["messages"], body.get("tools", [])])) // 4
        if read > window and body.get("truncate") is False and own:
            return answer({"error": "the input length exceeds the context length"}, 400)
        while read > window:
            read = max(window // 2, read - window // 4)
        return self._stream_lines(body, read) if own else self._stream_events(body, read)

    def _stream_lines(self, body: Any, read: int) -> Respond:
        said = self.say(body)
        lines: list[dict[str, Any]] = [
            {
                "model": body["model"],
                "message": {"role": "assistant", "content": "", **message},
                "done": False,
            }
            for message in said
        ]
        if self.error:
            lines.append({"error": self.error})
        else:
            written = sum(len(json.dumps(message)) for message in said) // 4
            limit = body.get("options", {}).get("num_predict")
            lines.append(
                {
                    "model": body["model"],
                    "message": {"role": "assistant", "content": ""},
                    "done": True,
                    "done_reason": "length" if limit and written >= limit else "stop",
                    "total_duration": 9 * NANO,
                    "load_duration": 3 * NANO,
                    "prompt_eval_count": read,
                    "prompt_eval_duration": 2 * NANO,
                    "eval_count": written,
                    "eval_duration": 4 * NANO,
                }
            )
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        return answer(text.encode(), content_type="application/x-ndjson", pieces=self.pieces)

    def _stream_events(self, body: Any, read: int) -> Respond:
        chunks = []
        for index, message in enumerate(self.say(body)):
            calls = [
                {
                    "index": index,
                    "id": f"call_{len(self.chats)}_{index}",
                    "type": "function",
                    "function": {
                        "name": call["function"]["name"],
                        "arguments": json.dumps(call["function"]["arguments"]),
                    },
                }
                for call in message.get("tool_calls", ())
            ]
            chunks.append(chunk({"content": message.get("content", ""), "tool_calls": calls}))
        usage = {"prompt_tokens": read, "completion_tokens": 5}
        return answer(stream(*chunks, chunk(finish="stop"), {"choices": [], "usage": usage}))


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    """A message with a call, as Ollama sends it: the arguments are an object, and there is no id."""
    return {"content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


@asynccontextmanager
async def ollama(**fields: Any) -> AsyncIterator[tuple[Server, Ollama]]:
    """A running server, with these habits."""
    habits = Ollama(**fields)
    async with serve(habits) as server:
        yield server, habits
