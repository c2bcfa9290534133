"""Connections that are kept between requests, and closed by servers without a word.

Some servers announce that they keep a connection and close it nevertheless, as llama.cpp's does after a
streamed reply. The next request then finds out only when it was sent. Nobody has read it: it is sent again,
once, if the connection was a kept one and not a single byte came back on it.
"""

import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp

Send = Callable[[SimpleNamespace], Awaitable[aiohttp.ClientResponse]]
"""Sends a request that is traced with this context."""


class Connections:
    """The connections of one client."""

    received = 0
    """Bytes that came in over all of them."""

    def connector(self) -> aiohttp.TCPConnector:
        """What opens them, as many as are needed."""
        return aiohttp.TCPConnector(limit=0, socket_factory=self._open)

    def trace(self) -> aiohttp.TraceConfig:
        """What tells which requests went over a kept connection."""
        config = aiohttp.TraceConfig()
        config.on_connection_reuseconn.append(_note_reuse)
        return config

    async def send(self, send: Send) -> aiohttp.ClientResponse:
        """The response to a request, sent once more where the server had closed the connection before."""
        context, received = SimpleNamespace(reused=False), self.received
        try:
            return await send(context)
        except (aiohttp.ServerDisconnectedError, OSError):
            # Bytes for another request count as well: then this one fails like any other, which is safe.
            if not context.reused or self.received != received:
                raise
        return await send(SimpleNamespace(reused=False))

    def _open(self, address: aiohttp.AddrInfoType) -> socket.socket:
        opened = _CountedSocket(*address[:3])
        opened.connections = self
        return opened


class _CountedSocket(socket.socket):
    """A socket that adds up what it receives."""

    connections: Connections

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data = super().recv(size, flags)
        self.connections.received += len(data)
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0, /) -> int:
        count = super().recv_into(buffer, size, flags)
        self.connections.received += count
        return count


async def _note_reuse(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True
