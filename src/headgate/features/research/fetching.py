"""Fetching one page from a server that nobody trusts: bounded in time, size, redirects and addresses.

Every connection is checked at its socket: whatever a name resolved to and however an address was written, it
is the address of the connection itself that has to be permitted.
"""

import asyncio
import socket
import zlib
from ipaddress import ip_address
from types import TracebackType

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from headgate.errors import ToolFailed
from headgate.features.research.addresses import Permits
from headgate.features.research.page_text import decode_text
from headgate.first_use import dataclass

MOST_REDIRECTS = 5
HEADERS = {"User-Agent": "headgate", "Accept": "text/html, text/plain;q=0.9, text/*;q=0.8"}
_MARKUP_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_TEXT_TYPES = frozenset(
    {"text/plain", "text/markdown", "text/x-markdown", "text/x-rst", "text/csv", "text/xml"}
)
_TEXT_TYPES |= {"application/json", "application/xml"}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Unreadable(ToolFailed):
    """A page that cannot be read; the message continues "Not read:" and has no full stop."""


class AddressRefused(OSError):
    """A connection that would lead to an address that is not permitted."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a server sent."""

    url: str
    """Where it was in the end."""
    text: str
    is_markup: bool
    is_partial: bool
    """There is more of it than was read."""


class PageFetcher:
    """Fetches pages. An async context manager: leaving it closes every connection.

    `permits` decides about addresses, `resolver` finds those of names; aiohttp's own is the default.
    """

    def __init__(
        self, permits: Permits, most_bytes: int, seconds: float, resolver: AbstractResolver | None = None
    ) -> None:
        self._permits = permits
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "PageFetcher":
        self._session = aiohttp.ClientSession(
            # No connection is used twice, and no name's address kept: each one is checked.
            connector=aiohttp.TCPConnector(
                resolver=self._resolver,
                socket_factory=self._open_socket,
                use_dns_cache=False,
                force_close=True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            # Unpacking is done here, where its size is bounded.
            auto_decompress=False,
            headers={**HEADERS, "Accept-Encoding": "gzip"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def fetch(self, address: str) -> Page:
        """A page, after its redirects. Unreadable says why there is none."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(_parse(address))
        except TimeoutError:
            raise Unreadable(f"it took longer than {self._seconds:g} s") from None
        except aiohttp.ClientConnectorDNSError:
            raise Unreadable("its host has no address") from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise Unreadable(_explain(error)) from error

    async def _follow(self, url: URL) -> Page:
        seen: set[URL] = set()
        while url not in seen:
            if len(seen) > MOST_REDIRECTS:
                raise Unreadable(f"it redirects more than {MOST_REDIRECTS} times")
            seen.add(url)
            answer = await self._get(url)
            if isinstance(answer, Page):
                return answer
            url = answer
        raise Unreadable("it redirects in a loop")

    async def _get(self, url: URL) -> Page | URL:
        """One request: the page, or where it is instead."""
        if self._session is None:
            raise RuntimeError("PageFetcher is used outside its context")
        response = await self._session.get(url, allow_redirects=False)
        try:
            if response.status in _REDIRECTS:
                target = response.headers.get("Location", "").strip()
                if not target:
                    raise Unreadable("it redirects nowhere")
                return _parse(target, url)
            return await self._read(response, url)
        finally:
            response.close()

    async def _read(self, response: aiohttp.ClientResponse, url: URL) -> Page:
        if response.status != 200:
            raise Unreadable(f"the server answered {response.status}")
        kind, _, parameters = response.headers.get("Content-Type", "").partition(";")
        kind = kind.strip().lower()
        if kind not in _MARKUP_TYPES | _TEXT_TYPES:
            raise Unreadable(f"it is {kind[:60]}, not text" if kind else "the server does not say what it is")
        packing = response.headers.get("Content-Encoding", "").strip().lower()
        data, is_partial = await read_body(response, self._most_bytes, packing)
        text = decode_text(data, parameters, is_markup=kind in _MARKUP_TYPES)
        return Page(str(url), text, kind in _MARKUP_TYPES, is_partial)

    def _open_socket(self, info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        try:
            permitted = self._permits(ip_address(address[0]))
        except ValueError:  # a spelling that only the system's resolver understands
            permitted = False
        if not permitted:
            raise AddressRefused("this address is not permitted")
        return socket.socket(family, kind, protocol)


async def read_body(response: aiohttp.ClientResponse, most: int, packing: str = "") -> tuple[bytes, bool]:
    """A body, unpacked, up to so many bytes, and whether there is more of it."""
    if packing not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise Unreadable(f"it is packed with {packing[:20]}")
    unpacker = zlib.decompressobj(wbits=47) if packing not in ("", "identity") else None
    data, received = bytearray(), 0
    while part := await response.content.readany():
        received += len(part)
        try:
            # One byte more than wanted tells whether there is more.
            data += unpacker.decompress(part, most + 1 - len(data)) if unpacker else part
        except zlib.error:
            raise Unreadable("its packed content is broken") from None
        if len(data) > most or received > most:
            return bytes(data[:most]), True
        if unpacker and unpacker.eof:
            return bytes(data), False
    return bytes(data), unpacker is not None and not unpacker.eof


def _parse(address: str, base: URL | None = None) -> URL:
    """A web address without its fragment. Unreadable if it is another kind of address."""
    try:
        url = URL(address)
        url = (base.join(url) if base else url).with_fragment(None)
    except ValueError:
        raise Unreadable("its address is malformed") from None
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise Unreadable("it is not on the web" if base is None else "it redirects to what is not on the web")
    if url.user is not None or url.password is not None:
        raise Unreadable("its address holds a login")
    return url


def _explain(error: aiohttp.ClientError | OSError | UnicodeError) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressRefused):
        return "its address is private"
    match error:
        case aiohttp.ClientSSLError():
            return "no secure connection can be made to its server"
        case aiohttp.ClientConnectorError():
            return "its server cannot be reached"
        case aiohttp.InvalidURL() | UnicodeError():
            return "its address is malformed"
        case _:
            return "its server broke the connection off"
