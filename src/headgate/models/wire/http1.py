"""Requests in HTTP/1.1 to one server over connections that are kept: as much as model servers need.

A general client takes a fifth of the time until a task's first request to import, and 10 MB.
"""

import asyncio
import ssl
import zlib
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import SplitResult, quote, unquote, urlsplit

from headgate.first_use import regex
from headgate.models.wire.connection import CannotConnect, Connection, Cut, Headers, NotHttp, open_connection

_LONGEST_LINE = 8 << 10
_MOST_UNPACKED = (64 << 20) + 1
"""No reply may be longer; a few bytes can stand for very many."""
_SIZE = regex(rb"\s*([0-9a-fA-F]{1,15})\s*(?:;.*)?")


class ConnectTimeout(Exception):
    """No connection was accepted in time."""


class ProxyFailed(Exception):
    """The proxy cannot be reached, or does not connect to the server."""


class Connections:
    """The connections to one server. `proxy` is the address of a proxy to go through."""

    def __init__(self, root: str, proxy: str | None, headers: Mapping[str, str], seconds: float) -> None:
        self._server = urlsplit(root)
        self._proxy = urlsplit(proxy) if proxy else None
        self._headers = headers
        self._seconds = seconds
        self._kept: list[Connection] = []

    async def request(self, method: str, path: str, body: bytes | None) -> "Answer":
        """The answer, as soon as its head has come.

        The request is sent once more where the server had closed a kept connection.
        """
        while self._kept:
            if (connection := self._kept.pop()).is_fresh:
                try:
                    return await self._ask(connection, method, path, body)
                except OSError:
                    break
            connection.close()
        return await self._ask(await self._connect(), method, path, body)

    def close(self) -> None:
        for connection in self._kept:
            connection.close()

    async def _ask(self, connection: Connection, method: str, path: str, body: bytes | None) -> "Answer":
        target = quote(self._server.path + path, safe="/:%@!$&'()*+,;=~")
        fields = {"Host": _place(self._server), "Accept": "*/*"}
        fields |= {name.title(): value for name, value in self._headers.items()}
        if self._proxy and self._server.scheme == "http":
            target = f"http://{_place(self._server)}{target}"
            fields |= _authorization(self._proxy)
        if body is not None:
            fields["Content-Length"] = str(len(body))
        try:
            connection.send(f"{method} {target} HTTP/1.1", fields, body or b"")
            return Answer(connection, self._kept, *await connection.read_head())
        except BaseException:
            connection.close()
            raise

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._seconds):
                if self._proxy:
                    return await self._connect_through(self._proxy)
                return await open_connection(self._server)
        except TimeoutError as error:
            raise ConnectTimeout from error

    async def _connect_through(self, proxy: SplitResult) -> Connection:
        try:
            connection = await open_connection(proxy)
        except (CannotConnect, ssl.SSLError) as error:
            raise ProxyFailed from error
        if self._server.scheme == "http":
            return connection
        host = _place(self._server, with_port=True)
        try:
            connection.send(f"CONNECT {host} HTTP/1.1", {"Host": host, **_authorization(proxy)})
            try:
                status, _, _ = await connection.read_head()
            except (NotHttp, OSError) as error:
                raise ProxyFailed from error
            if status != 200:
                raise ProxyFailed
            await connection.start_tls(self._server.hostname or "")
        except BaseException:
            connection.close()
            raise
        return connection


class Answer:
    """An answer whose body is still arriving."""

    def __init__(
        self, connection: Connection, kept: list[Connection], status: int, headers: Headers, keeps: bool
    ) -> None:
        self.status = status
        self.headers = headers
        self.at_end = status in (204, 304)
        self._kept = kept
        self._connection = connection
        options = {word.strip() for word in headers.get("Connection").lower().split(",")}
        self._keeps = "close" not in options and (keeps or "keep-alive" in options)
        is_packed = headers.get("Content-Encoding").lower() in ("gzip", "x-gzip", "deflate")
        self._unpack = zlib.decompressobj(wbits=47).decompress if is_packed else None
        self._chunks = _Chunks() if "chunked" in headers.get("Transfer-Encoding").lower() else None
        self._left: int | None = None
        if self._chunks is None and (length := headers.get("Content-Length")):
            if not (length.isascii() and length.isdecimal()):
                raise NotHttp
            self._left = int(length)
            self.at_end = self.at_end or not self._left

    async def read(self) -> bytes:
        """The next bytes of the body, as they come; empty at its end. OSError where it is cut off."""
        while not self.at_end:
            data = self._take(await self._connection.read())
            if self._unpack:
                try:
                    data = self._unpack(data, _MOST_UNPACKED)
                except zlib.error as error:
                    raise Cut from error
            if data:
                return data
        return b""

    def _take(self, came: bytes) -> bytes:
        """The part of the body in what came."""
        if self._chunks is None and self._left is None:
            self._keeps, self.at_end = False, not came
            return came
        if self._chunks:
            data, rest = self._chunks.feed(came)
            self.at_end = self._chunks.ended
        else:
            data, rest = came[: self._left], came[self._left :]
            self._left = (self._left or 0) - len(data)
            self.at_end = not self._left
        if not (came or self.at_end):
            raise Cut
        self._connection.put_back(rest)
        return data

    def close(self) -> None:
        """Keeps the connection if the body has come to its end, and closes it otherwise."""
        if self.at_end and self._keeps:
            self._connection.unused_since = asyncio.get_running_loop().time()
            self._kept.append(self._connection)
        else:
            self._connection.close()


class _Chunks:
    """Reads a body that comes in chunks, each after its size; one of size 0 ends it."""

    def __init__(self) -> None:
        self.ended = False
        self._line = b""
        self._left = 0
        self._in_trailer = False

    def feed(self, came: bytes) -> tuple[bytes, bytes]:
        """What is in the chunks, and what came after the body. The last line may be missing."""
        data, parts, at = self._line + came, [], 0
        while not self.ended and at < len(data):
            if self._left:
                parts.append(data[at : at + self._left])
                at += len(parts[-1])
                self._left -= len(parts[-1])
                continue
            end = data.find(b"\n", at)
            if end < 0:
                break
            line, at = data[at:end].rstrip(b"\r"), end + 1
            if self._in_trailer:
                self.ended = not line
            elif line:  # an empty one ends the chunk before
                if not (size := _SIZE.fullmatch(line)):
                    raise Cut
                self._left = int(size[1], 16)
                self._in_trailer = not self._left
        self.ended = self.ended or (self._in_trailer and not came)
        rest = data[at:]
        self._line = b"" if self.ended else rest
        if len(self._line) > _LONGEST_LINE:
            raise Cut
        return b"".join(parts), rest if self.ended else b""


def _place(parts: SplitResult, with_port: bool = False) -> str:
    """The host and the port, as the head of a request names them."""
    place = parts.netloc.rpartition("@")[2]
    if not place.isascii():
        place = place.encode("idna").decode()
    return f"{place}:443" if with_port and not parts.port else place


def _authorization(proxy: SplitResult) -> dict[str, str]:
    """The credentials that are sent to a proxy."""
    if proxy.username is None:
        return {}
    words = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(words.encode()).decode()}"}
