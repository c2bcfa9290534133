"""One real server for every row: a request's model name says which behaviour answers it."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bestiary.speech import Answer, Asked, Say, Send
from models.model_server import Seen, Wire, answer, chunk, serve

Behave = Callable[[Asked], Answer]


@dataclass
class Cage:
    """Where the server listens, who lives there and what each was asked."""

    url: str = ""
    behaviours: dict[str, Behave] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    prompt_tokens: Counter[str] = field(default_factory=Counter)

    async def respond(self, seen: Seen, wire: Wire) -> None:
        if not seen.body:  # a question about the server, which no model answers
            await answer({"error": "there is no such path"}, 404)(seen, wire)
            return
        body = seen.json
        name = body["model"]
        self.requests[name] += 1
        tokens = len(seen.body) // 4
        self.prompt_tokens[name] += tokens
        reply = self.behaviours[name](Asked.read(body, self.requests[name]))
        await (_speak(reply, tokens, wire) if isinstance(reply, Say) else _send(reply, seen, wire))


@contextmanager
def serving() -> Iterator[Cage]:
    """The server, in a thread of its own so that it outlives the event loop of each run."""
    cage = Cage()
    started = threading.Event()
    stop: list[Callable[[], object]] = []

    async def work() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        async with serve(cage.respond) as server:
            cage.url = server.url
            started.set()
            await ended.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    if not started.wait(30):
        raise RuntimeError("the server did not start")
    try:
        yield cage
    finally:
        stop[0]()
        thread.join(30)


async def _speak(reply: Say, tokens: int, wire: Wire) -> None:
    usage = reply.usage
    if usage == "counted":
        size = len(reply.text) + len(reply.reasoning) + sum(len(call.arguments) for call in reply.calls)
        usage = {"prompt_tokens": tokens, "completion_tokens": size // 4 + 1}
    finish = reply.finish or ("tool_calls" if reply.calls else "stop")
    more = {} if usage is None else {"usage": usage}
    calls = [
        {"index": index, "id": call.id or f"c{index}", "type": "function"}
        | {"function": {"name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(reply.calls)
    ]
    if not reply.streamed:
        message = {"role": "assistant", "content": reply.text or None, "tool_calls": calls}
        message |= {"reasoning_content": reply.reasoning} if reply.reasoning else {}
        body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}
        await answer(body)(Seen("", {}, b""), wire)
        return
    await wire.send(_head(200, "text/event-stream"))
    events = [*_deltas(reply, calls), chunk(finish=finish), {"choices": [], **more}]
    for event in events[: len(events) // 2] if reply.broken_off else events:
        await wire.send(_chunked(f"data: {json.dumps(event)}\n\n".encode()))
        if reply.pause:
            await asyncio.sleep(reply.pause)
    if reply.broken_off:
        wire.writer.close()
    else:
        await wire.send(_chunked(b"data: [DONE]\n\n"), b"0\r\n\r\n")


def _deltas(reply: Say, calls: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield chunk({"role": "assistant"})
    for name, text in (("reasoning_content", reply.reasoning), ("content", reply.text)):
        for start in range(0, len(text), reply.piece):
            yield chunk({name: text[start : start + reply.piece]})
    for call in calls:
        arguments = call["function"]["arguments"]
        yield chunk({"tool_calls": [call | {"function": call["function"] | {"arguments": ""}}]})
        for start in range(0, len(arguments), reply.piece):
            piece = {
                "index": call["index"],
                "function": {"arguments": arguments[start : start + reply.piece]},
            }
            yield chunk({"tool_calls": [piece]})


async def _send(reply: Send, seen: Seen, wire: Wire) -> None:
    if reply.ending == "complete":
        await answer(reply.body, reply.status, content_type=reply.kind, headers=reply.headers)(seen, wire)
        return
    if reply.ending == "reset":
        wire.writer.transport.abort()
        return
    await wire.send(_head(reply.status, reply.kind))
    while reply.ending == "endless":
        await wire.send(_chunked(reply.body))
    await wire.send(_chunked(reply.body) if reply.body else b"")
    await wire.wait_closed_by_client()


def _head(status: int, kind: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def _chunked(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
