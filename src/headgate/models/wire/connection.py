"""A connection to a server that speaks HTTP/1.1: what is sent over it, and what comes, up to a body."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import cache
from typing import cast
from urllib.parse import SplitResult

from headgate.first_use import regex

_KEPT_SECONDS = 15.0
"""An unused connection is not used again after that; most servers close it later."""
_NEXT_ADDRESS_SECONDS = 0.25
"""After which a host's next address is tried as well."""
_LONGEST_HEAD = 256 << 10
_MOST_UNREAD = 1 << 20
_HEAD = regex(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?\r?\n((?:[^\r\n]+\r?\n)*)\r?\n")
_HEAD_END = regex(rb"\n\r?\n")
_ERRNO = regex(r"\[Errno (\d+)\]")


class NotHttp(Exception):
    """What came is no answer in HTTP."""


class CannotConnect(Exception):
    """There is no connection. What is wrong with TLS is an SSLError instead."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error
        if error.errno is None and len(numbers := set(_ERRNO.findall(str(error)))) == 1:
            error.errno = int(numbers.pop())  # of several addresses, which failed in the same way


class Cut(ConnectionError):
    """The server closed the connection before its answer had ended."""


class Headers(dict[str, str]):
    """Those of an answer, which can be asked for in any case."""

    def __init__(self, fields: bytes) -> None:
        super().__init__()
        for line in fields.decode("utf-8", "surrogateescape").splitlines():
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise NotHttp
            self.setdefault(name.lower(), value.strip())

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return super().__contains__(str(name).lower())

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        return super().get(name.lower(), default)


class Connection(asyncio.Protocol):
    """One connection, and what has come over it and is not read yet."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport  # set before anybody else knows of this
        self._unread = bytearray()
        self._ended = False
        self._error: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None
        self.unused_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > _MOST_UNREAD:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(None)

    @property
    def is_fresh(self) -> bool:
        """Whether the server can be expected to answer on it: what came unasked is no answer."""
        is_quiet = not (self._unread or self._ended)
        return is_quiet and self._loop.time() - self.unused_since < _KEPT_SECONDS

    def send(self, line: str, fields: Mapping[str, str], body: bytes = b"") -> None:
        """A whole request. The server may answer before it has read all of it."""
        head = "".join((line, "\r\n", *(f"{name}: {value}\r\n" for name, value in fields.items()), "\r\n"))
        self._transport.writelines((head.encode(), body))

    async def read(self) -> bytes:
        """What has come since; empty if nothing more comes. OSError where the connection broke."""
        if not (self._unread or self._ended):
            self._waiting = self._loop.create_future()
            await self._waiting
        data = bytes(self._unread)
        self._unread.clear()
        if self._error and not data:
            raise self._error
        if len(data) > _MOST_UNREAD:
            self._transport.resume_reading()
        return data

    def put_back(self, data: bytes) -> None:
        self._unread[:0] = data

    async def read_head(self) -> tuple[int, Headers, bool]:
        """The status and headers of an answer, and whether its server usually keeps connections."""
        data = b""
        while True:
            while not (found := _HEAD.match(data)):
                is_begun = data.startswith(b"HTTP/1."[: len(data)])
                if not is_begun or len(data) > _LONGEST_HEAD or _HEAD_END.search(data):
                    raise NotHttp
                if not (more := await self.read()):
                    raise Cut
                data += more
            data, status = data[found.end() :], int(found[2])
            if status == 101:
                raise NotHttp
            if status >= 200:  # others say that an answer is to come
                self.put_back(data)
                return status, Headers(found[3]), found[1] == b"1"

    async def start_tls(self, host: str) -> None:
        """Goes on encrypted."""
        try:
            transport = await self._loop.start_tls(
                self._transport, self, _tls_settings(), server_hostname=host
            )
        except ssl.SSLError:
            raise
        except OSError as error:
            raise CannotConnect(error) from error
        if transport is None:
            raise CannotConnect(ConnectionResetError())
        self._transport = transport

    def close(self) -> None:
        self._transport.abort()


async def open_connection(place: SplitResult) -> Connection:
    tls = place.scheme == "https"
    try:
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection,
            place.hostname or "",
            place.port or (443 if tls else 80),
            ssl=_tls_settings() if tls else None,
            flags=socket.AI_ADDRCONFIG,
            happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
        )
    except ssl.SSLError:
        raise
    except OSError as error:
        raise CannotConnect(error) from error
    return connection


@cache
def _tls_settings() -> ssl.SSLContext:
    """As the system has them. To read its certificates takes as long as to start Python three times."""
    settings = ssl.create_default_context()
    settings.set_alpn_protocols(["http/1.1"])
    return settings
