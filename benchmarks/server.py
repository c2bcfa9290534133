"""A model server that answers at once, so that a benchmark measures only who asks it.

    python benchmarks/server.py [PORT]

It speaks the OpenAI API. The base URL http://127.0.0.1:PORT/KEY/TURNS/SCRIPT/v1 asks for TURNS tool calls,
one in each reply, and then ends. The number of the turn is the number of assistant messages in the request,
counted in its bytes: the server keeps no sessions, and every client costs it the same. GET /stats/KEY returns
how many requests of that key came, and their bytes and times, and forgets them.
"""

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

DONE = "BENCHMARK-DONE"
"""The last reply. A client that ends with anything else has not done the work."""
_CALLS = {
    "read_file": ("read_file", {"path": "src/module_{turn}.py"}),
    "smolagents": ("read_file", {"path": "src/module_{turn}.py"}),
    "bash": ("bash", {"command": "cat $BENCHMARK_FILE # {turn}"}),
    "shell": ("shell", {"command": "echo {turn} >> notes.txt"}),
    "search": ("search", {"pattern": "def compute_{turn}_"}),
    "find_files": ("find_files", {"glob": "**/part_{turn}.py"}),
    "ask_scout": ("ask_scout", {"scout": "code", "question": "Where is compute_{turn}_7?"}),
}
"""What each script calls in a turn."""
_LAST = {
    "smolagents": ("final_answer", {"answer": DONE}),
    "bash": ("bash", {"command": f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo {DONE}"}),
}
"""The last call, where a client does not end with a text."""
_ASSISTANT = re.compile(rb'"role"\s*:\s*"assistant"')
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.I)


@dataclass
class Stats:
    """What one client sent."""

    requests: int = 0
    bytes_in: int = 0
    first_bytes: int = 0
    arrived: list[float] = field(default_factory=list)


def reply(script: str, turn: int, turns: int) -> dict[str, Any]:
    """The assistant message of a turn: a call of the tool that the script names, then the end."""
    if turn >= turns and script not in _LAST:
        return {"role": "assistant", "content": DONE}
    name, written = (_LAST if turn >= turns else _CALLS)[script]
    arguments = {key: value.format(turn=turn) for key, value in written.items()}
    content = f"THOUGHT: step {turn}" if script == "bash" else ""
    call = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": f"call_{turn:06d}", "type": "function", "function": call}]
    return {"role": "assistant", "content": content or None, "tool_calls": calls}


def completion(message: dict[str, Any], length: int) -> dict[str, Any]:
    """The answer around a message."""
    tokens = max(1, length // 4)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
            }
        ],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20},
    }


def as_stream(answer: dict[str, Any]) -> bytes:
    """The same answer in pieces, as a server sends it while a model writes."""
    message, usage = answer["choices"][0]["message"], answer["usage"]
    common = {
        **{name: answer[name] for name in ("id", "created", "model")},
        "object": "chat.completion.chunk",
    }
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"] or ""}]
    for call in message.get("tool_calls", ()):
        written = call["function"]["arguments"]
        begun = {**call, "index": 0, "function": {"name": call["function"]["name"], "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        pieces = [written[at : at + 12] for at in range(0, len(written), 12)]
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": answer["choices"][0]["finish_reason"]})
    events = [{**common, "choices": [choice]} for choice in choices]
    events.append({**common, "choices": [], "usage": usage})
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"


class Server:
    """Answers requests, and counts them."""

    def __init__(self) -> None:
        self._stats: dict[str, Stats] = {}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Status, content type and body of the answer to a request."""
        parts = path.partition("?")[0].strip("/").split("/")
        if method == "POST" and path.endswith("/chat/completions"):
            key, turns, script = parts[0], int(parts[1]), parts[2]
            stats = self._stats.setdefault(key, Stats())
            stats.requests += 1
            stats.bytes_in += len(body)
            stats.first_bytes = stats.first_bytes or len(body)
            stats.arrived.append(time.perf_counter())
            turn = len(_ASSISTANT.findall(body))
            answer = completion(reply(script, turn, turns), len(body))
            if re.search(rb'"stream"\s*:\s*true', body):
                return 200, "text/event-stream", as_stream(answer)
            return 200, "application/json", json.dumps(answer).encode()
        if parts[0] == "stats":
            return 200, "application/json", json.dumps(asdict(self._stats.pop(parts[1], Stats()))).encode()
        if parts[-1] == "models":
            models = [{"id": "fake", "object": "model", "created": 0, "owned_by": "benchmark"}]
            return 200, "application/json", json.dumps({"object": "list", "data": models}).encode()
        return 404, "application/json", b'{"error": {"message": "not found"}}'


class Connection(asyncio.Protocol):
    """HTTP/1.1 over a connection that stays open."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end])
            length = _LENGTH.search(head)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(self._received) < whole:
                return
            body = bytes(self._received[end + 4 : whole])
            del self._received[:whole]
            method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
            status, kind, answer = self._server.answer(method, path, body)
            said = f"HTTP/1.1 {status} OK\r\ncontent-type: {kind}\r\ncontent-length: {len(answer)}\r\n\r\n"
            self._transport.write(said.encode() + answer)


async def serve(port: int) -> None:
    """Says its port, and serves until it is ended."""
    server = Server()
    listening = await asyncio.get_running_loop().create_server(
        lambda: Connection(server), "127.0.0.1", port, backlog=1024
    )
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
