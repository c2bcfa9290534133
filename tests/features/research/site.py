"""A web site on loopback with everything that goes wrong on the web, and a SearXNG server beside it.

Pages are permitted at 127.0.0.1; every other loopback address stands for a private network.
"""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from headgate.features.research import is_public
from headgate.features.research.addresses import Address

HERE = "127.0.0.1"
PRIVATE = "127.0.0.2"
ARTICLE = """<!DOCTYPE html><html><head><title>On gates</title><style>p {color: red}</style>
<script>var secret = "never shown";</script></head><body><nav>Home | About</nav>
<article><h1>On gates</h1>
<p>A headgate controls the flow of water into a canal &amp; is opened by hand.</p>
<p>It was first described in 1884, by an engineer whose name has been lost since.</p></article>
<!-- a comment, never shown --></body></html>"""
BYTES = {"Content-Type": "text/plain"}


def permits(address: Address) -> bool:
    """The rule of these tests: the site's own address is public, the rest of loopback is not."""
    return address == ip_address(HERE) or is_public(address)


class Names(AbstractResolver):
    """A resolver that knows a few names. Each lookup takes a name's next answer; the last one stays."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._names = {name: list(answers) for name, answers in names.items()}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answers = self._names.get(host)
        if not answers:
            raise OSError(None, "no such name")
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in found
        ]

    async def close(self) -> None:
        pass


@dataclass
class Site:
    """The site while it runs."""

    port: int = 0
    results: list[Any] = field(default_factory=list)
    """What the search finds."""
    search_status: int = 200
    search_body: bytes | None = None
    asked: list[str] = field(default_factory=list)
    """The queries that came in."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Host and path of every request for a page, in order."""
    cookies: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """A client has left an endless page."""
    sent: int = 0
    """Bytes of endless pages that were sent."""

    def url(self, path: str, host: str = HERE) -> str:
        return f"http://{host}:{self.port}{path}"

    def finds(self, *paths: str) -> None:
        """The search finds these pages from now on."""
        self.results = [
            {"url": self.url(path), "title": f"Title of {path}", "content": f"Excerpt of {path}"}
            for path in paths
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Site"]:
        app = web.Application()
        app.add_routes([web.get("/search", self._search), web.get("/{path:.*}", self._page)])
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        # On both addresses: what must not be asked for would be answered.
        first = web.TCPSite(runner, HERE, 0)
        await first.start()
        self.port = runner.addresses[0][1]
        await web.TCPSite(runner, PRIVATE, self.port).start()
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _search(self, request: web.Request) -> web.Response:
        self.asked.append(request.query.get("q", ""))
        assert request.query.get("format") == "json"
        if self.search_body is not None:
            return web.Response(body=self.search_body, status=self.search_status)
        if 300 <= self.search_status < 400:
            return web.Response(status=self.search_status, headers={"Location": "/elsewhere"})
        body = {"query": self.asked[-1], "results": self.results, "unresponsive_engines": []}
        return web.json_response(body, status=self.search_status)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        path = f"/{request.match_info['path']}"
        self.requests.append((request.host, path))
        self.cookies.append(request.headers.get("Cookie", ""))
        self.headers.append(dict(request.headers))
        match path.strip("/").split("/"):
            case ["article"]:
                return web.Response(text=ARTICLE, content_type="text/html", headers={"Set-Cookie": "a=b"})
            case ["say", text]:
                return web.Response(text=text)
            case ["status", status]:
                return web.Response(status=int(status), text="refused")
            case ["kind", first, second]:
                return web.Response(body=b"data", headers={"Content-Type": f"{first}/{second}"})
            case ["nothing-said"]:
                return await self._raw(request, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndata")
            case ["to"]:
                return web.Response(status=302, headers={"Location": request.query["url"]})
            case ["count", number]:
                target = f"/count/{int(number) - 1}" if int(number) else "/article"
                return web.Response(status=301, headers={"Location": target})
            case ["circle", side]:
                other = "/circle/b" if side == "a" else "/circle/a"
                return web.Response(status=307, headers={"Location": other})
            case ["no-location"]:
                return web.Response(status=302)
            case ["gzip"]:
                return _packed(gzip.compress(b"unpacked text"), "gzip")
            case ["deflate"]:
                return _packed(zlib.compress(b"inflated text"), "deflate")
            case ["broken-gzip"]:
                return _packed(gzip.compress(b"unpacked text")[:4] + b"\xff" * 40, "gzip")
            case ["half-gzip"]:
                return _packed(gzip.compress(b"the beginning " * 4_000)[:-20], "gzip")
            case ["bomb"]:
                return _packed(gzip.compress(b"boom " * 10_000_000), "gzip")
            case ["brotli"]:
                return _packed(b"anything", "br")
            case ["charset", name]:
                return web.Response(
                    body="grüße".encode("latin-1"), headers={"Content-Type": f"text/plain; charset={name}"}
                )
            case ["meta"]:
                body = '<html><head><meta charset="windows-1251"></head><body><p>мост</p></body></html>'
                return web.Response(body=body.encode("cp1251"), headers={"Content-Type": "text/html"})
            case ["bom"]:
                return web.Response(body=b"\xff\xfe" + "наверх".encode("utf-16-le"), headers=BYTES)
            case ["bytes"]:
                return web.Response(body=bytes(range(256)) * 4, headers=BYTES)
            case ["endless"]:
                return await self._endless(request, b"word " * 1_000)
            case ["trickle"]:
                return await self._endless(request, b"w")
            case ["silent", *_]:
                await self._until_gone(request)
                return web.Response(text="too late")
            case ["broken-off"]:
                return await self._raw(
                    request,
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nhalf",
                )
            case ["garbage"]:
                return await self._raw(request, b"this is not HTTP\r\n\r\n")
            case ["bad-chunks"]:
                return await self._raw(
                    request,
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
                )
            case _:
                return web.Response(status=404)

    async def _endless(self, request: web.Request, piece: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers=BYTES)
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            while request.transport is not None:
                await response.write(piece)
                self.sent += len(piece)
                await asyncio.sleep(0)
        except (ConnectionError, asyncio.CancelledError):
            self.gone.set()
            raise
        self.gone.set()
        return response

    async def _until_gone(self, request: web.Request) -> None:
        while request.transport is not None and not request.transport.is_closing():
            await asyncio.sleep(0)
        self.gone.set()

    async def _raw(self, request: web.Request, answer: bytes) -> web.StreamResponse:
        assert request.transport is not None
        assert isinstance(request.transport, asyncio.Transport)
        request.transport.write(answer)
        request.transport.close()
        return web.Response()


def _packed(body: bytes, packing: str) -> web.Response:
    return web.Response(body=body, headers={**BYTES, "Content-Encoding": packing})
