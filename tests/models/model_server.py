"""A real server on the loopback interface whose every byte a test decides."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from headgate.core import Model, ModelSettings
from headgate.models.network import open_model

_STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@dataclass
class Seen:
    """One request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.line.split()[1]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Wire:
    """The connection of one request."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def wait_closed_by_client(self) -> None:
        while await self.reader.read(65536):
            pass


Respond = Callable[[Seen, Wire], Awaitable[None]]


@dataclass
class Server:
    """Where it listens and what it was asked."""

    port: int
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@asynccontextmanager
async def serve(*responses: Respond, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Answers the n-th request with the n-th response, and all further ones with the last."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            while head := await _read_head(reader):
                line, *lines = head.decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value.strip() for name, _, value in (h.partition(":") for h in lines)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                server.seen.append(Seen(line, headers, body))
                respond = responses[min(len(server.seen), len(responses)) - 1]
                await respond(server.seen[-1], Wire(reader, writer))
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the client went away, which is what some tests are about
        finally:
            writer.close()

    listener = await asyncio.start_server(converse, "127.0.0.1", 0, ssl=tls)
    server = Server(listener.sockets[0].getsockname()[1])
    async with listener:
        yield server


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\r\n\r\n"))[:-4]
    except asyncio.IncompleteReadError:
        return b""


def answer(
    body: bytes | str | Mapping[str, Any] | Sequence[Any],
    status: int = 200,
    *,
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
    pieces: int = 0,
    cut: bool = False,
) -> Respond:
    """A complete answer: a mapping is JSON, text is an event stream; `pieces` is the size of each chunk.

    With `cut` the connection is dropped before the chunked body is ended.
    """
    if isinstance(body, str):
        data, kind = body.encode(), "text/event-stream"
    elif isinstance(body, bytes):
        data, kind = body, "text/event-stream"
    else:
        data, kind = json.dumps(body).encode(), "application/json"

    async def respond(seen: Seen, wire: Wire) -> None:
        head = [f"HTTP/1.1 {status} X"]
        head += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if content_type != "":
            head.append(f"Content-Type: {content_type or kind}")
        head.append("Transfer-Encoding: chunked")
        parts = ["\r\n".join(head).encode() + b"\r\n\r\n"]
        size = pieces or max(1, len(data))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            parts.append(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if not cut:
            parts.append(b"0\r\n\r\n")
        await wire.send(*(parts if pieces else [b"".join(parts)]))
        if cut:
            wire.writer.close()

    return respond


def stream(*chunks: Mapping[str, Any] | str, done: bool = True) -> str:
    """Chat-completions chunks as an event stream."""
    lines = [chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join(lines) + ("data: [DONE]\n\n" if done else "")


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chat-completions chunk."""
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **fields}


HELLO = stream(chunk({"role": "assistant", "content": "Hello"}), chunk(finish="stop"))


NATIVE: dict[str, Any] = {"tool_transport": "native"}


@asynccontextmanager
async def talk_to(
    *responses: Respond, model: str = "openai/m", **fields: Any
) -> AsyncIterator[tuple[Server, Model]]:
    """A server and a model that asks it."""
    async with (
        serve(*responses) as server,
        open_model(ModelSettings(model=model, base_url=server.url, **{**NATIVE, **fields})) as opened,
    ):
        yield server, opened


def pour(events: Iterator[Any], closed: asyncio.Event) -> Respond:
    """Sends events until the client has had enough, and notes that it has."""

    async def respond(seen: Seen, wire: Wire) -> None:
        await wire.send(_STREAM_HEAD)
        with contextlib.suppress(ConnectionError):
            while not wire.writer.is_closing() and not wire.reader.at_eof():
                burst = "".join(f"data: {json.dumps(next(events))}\n\n" for _ in range(20))
                await wire.send(burst.encode())
                await asyncio.sleep(0)
        closed.set()

    return respond
