"""The HTTP client for all models. A request is one attempt; every failure becomes a model error."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from io import BytesIO
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp

from headgate.core import ModelSettings, Timeouts
from headgate.errors import ConfigError, ModelRefused, ReplyInvalid
from headgate.models.encoding import decode_json
from headgate.models.endpoint import Endpoint, find_endpoint, is_hosted, split_model
from headgate.models.wire.failures import (
    CHECK_NETWORK,
    KeyRefused,
    ServerTrouble,
    endpoint_label,
    explain_response,
    explain_transport,
    read_body,
    safe_excerpt,
)
from headgate.reading import reaches_this_machine

MAX_REPLY_BYTES = 64 << 20
_MAX_ERROR_BYTES = 64 << 10
_DRAIN_SECONDS = 0.2
_GET_SECONDS = 30.0
_LARGE = 1 << 20
"""A body of so many bytes is sent in pieces, so that others get their turn in between."""


class HttpClient:
    """Posts to one endpoint. An async context manager: leaving it closes every connection."""

    def __init__(self, endpoint: Endpoint, timeouts: Timeouts) -> None:
        self.endpoint = endpoint
        self._timeouts = timeouts
        self._proxy = find_proxy(endpoint.root)
        self._session: aiohttp.ClientSession | None = None
        self._keeps_connection = False
        """The latest answer left a connection that the next request can use."""

    async def __aenter__(self) -> "HttpClient":
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            # Cookies are nothing that a model server needs; the environment is read by find_proxy.
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self._timeouts.connect, sock_connect=self._timeouts.connect
            ),
            headers={
                "User-Agent": "headgate",
                "Content-Type": "application/json",
                # A compressed stream is held back until a block is full.
                "Accept-Encoding": "identity",
                **self.endpoint.headers,
            },
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def post(self, path: str, body: bytes) -> AbstractAsyncContextManager["HttpAnswer"]:
        """Sends the body and yields the answer, whose status is 200. Leaving early drops the connection."""
        return self._request("POST", path, body, self._timeouts.first_token)

    async def get_json(self, path: str) -> Any:
        """The decoded body of a plain GET."""
        wait = min(_GET_SECONDS, self._timeouts.first_token)
        async with self._request("GET", path, None, wait) as answer:
            return answer.decode(await answer.body())

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, body: bytes | None, wait: float
    ) -> AsyncIterator["HttpAnswer"]:
        session = self._session
        if session is None:
            raise RuntimeError("HttpClient is used outside its context")
        deadline = asyncio.get_running_loop().time() + wait
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._send(session, method, path, body)
        except aiohttp.ServerTimeoutError as error:
            told = f"{endpoint_label(self.endpoint)} did not accept a connection in"
            helps = CHECK_NETWORK if is_hosted(self.endpoint) else "start it, or correct base_url"
            raise ServerTrouble(f"{told} {self._timeouts.connect:g} s: {helps}.", "unreachable") from error
        except TimeoutError as error:
            told = f"{endpoint_label(self.endpoint)} sent no answer in {wait:g} s."
            raise ServerTrouble(told, "silent") from error
        except (aiohttp.ClientError, OSError) as error:
            raise explain_transport(self.endpoint, error) from error
        answer = HttpAnswer(self, response, deadline, self._timeouts)
        try:
            if response.status != 200:
                refusal = await answer.error_body()
                raise explain_response(self.endpoint, response.status, response.headers, refusal)
            yield answer
            self._keeps_connection = await answer.drain()
        finally:
            response.close()

    async def _send(
        self, session: aiohttp.ClientSession, method: str, path: str, body: bytes | None, again: bool = True
    ) -> aiohttp.ClientResponse:
        """The response to a request. It is sent once more where the server had closed a kept connection."""
        kept, self._keeps_connection = self._keeps_connection, False
        try:
            return await session.request(
                method,
                self.endpoint.root + path,
                data=body if body is None or len(body) < _LARGE else BytesIO(body),
                proxy=self._proxy,
                # A redirected POST would carry the key to a host that nobody configured.
                allow_redirects=False,
            )
        except (aiohttp.ServerDisconnectedError, OSError) as error:
            if not (again and kept) or isinstance(error, aiohttp.ClientConnectorError):
                raise
        return await self._send(session, method, path, body, again=False)


class HttpAnswer:
    """A response whose body is still arriving."""

    started = False
    """Set it once the first token is seen: the limit is `first_token` before that and `idle` after it."""

    def __init__(
        self, client: HttpClient, response: aiohttp.ClientResponse, deadline: float, timeouts: Timeouts
    ) -> None:
        self.endpoint = client.endpoint
        self.content_type = response.headers.get("Content-Type", "")
        self._response = response
        self._deadline = deadline
        self._timeouts = timeouts
        self._size = 0

    async def chunk(self) -> bytes:
        """The next bytes, in the pieces in which they arrive; empty at the end."""
        limit = asyncio.get_running_loop().time() + self._timeouts.idle if self.started else self._deadline
        name = endpoint_label(self.endpoint)
        try:
            async with asyncio.timeout_at(limit):
                data = await self._response.content.readany()
        except TimeoutError as error:
            if self.started:
                limit = self._timeouts.idle
                raise ServerTrouble(
                    f"{name} sent nothing for {limit:g} s in the middle of a reply.", "silent"
                ) from error
            told = f"{name} sent no token in {self._timeouts.first_token:g} s."
            raise ServerTrouble(told, "silent") from error
        except (aiohttp.ClientError, OSError) as error:
            told = f"{name} closed the connection in the middle of a reply."
            raise ServerTrouble(told, "cut") from error
        self._size += len(data)
        if self._size > MAX_REPLY_BYTES:
            raise ReplyInvalid(f"The reply is longer than {MAX_REPLY_BYTES >> 20} MiB and was cut off.")
        return data

    async def body(self, start: bytes = b"") -> bytes:
        """All of the body, after what was read already."""
        parts = [start]
        while data := await self.chunk():
            parts.append(data)
        return b"".join(parts)

    async def error_body(self) -> bytes:
        """The beginning of a refusal's body; what is lost of it is no second error."""
        data = b""
        try:
            async with asyncio.timeout(self._timeouts.idle):
                while len(data) < _MAX_ERROR_BYTES and (part := await self._response.content.readany()):
                    data += part
        except (TimeoutError, aiohttp.ClientError, OSError):
            return data
        return data

    def decode(self, body: bytes) -> Any:
        """The JSON value of a body; ModelRefused where this is not the API that was expected."""
        try:
            return decode_json(body)
        except ValueError as error:
            said = (
                safe_excerpt(self.endpoint, read_body(body[:_MAX_ERROR_BYTES]).message) or "it sent nothing"
            )
            raise ModelRefused(
                f"{endpoint_label(self.endpoint)} does not answer like a model API. Check base_url; "
                f"its answer: {said}"
            ) from error

    async def drain(self) -> bool:
        """Waits a moment for the end of the body; whether the connection can serve the next request."""
        content = self._response.content
        if content.at_eof():
            return True
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not content.at_eof():
                    await content.readany()
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False  # the reply is complete; the connection is closed in place of being kept
        return True


def find_proxy(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for an address; this machine has none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if reaches_this_machine(host) or proxy_bypass(host):
        return None
    proxy = getproxies_environment().get(parts.scheme)
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigError(f"{parts.scheme.upper()}_PROXY must name an http:// or https:// proxy.")
    return proxy


async def list_models(settings: ModelSettings) -> list[str] | None:
    """The names of the models that the server offers, or None where it does not tell.

    Raises ModelUnavailable or ModelRefused (the key) like a request for a reply.
    """
    if split_model(settings.model)[0] == "script":
        return None
    endpoint = find_endpoint(settings)
    path, key, field = ("/models", "data", "id")
    if endpoint.provider == "ollama":
        path, key, field = ("/api/tags", "models", "name")
    async with HttpClient(endpoint, settings.timeouts) as client:
        try:
            body = await client.get_json(path)
        except KeyRefused:
            raise
        except ModelRefused:
            return None  # no such list here, which says nothing about whether the server answers requests
    entries = body.get(key) if isinstance(body, dict) else None
    if not isinstance(entries, list):
        return None
    named = [
        entry[field] for entry in entries if isinstance(entry, dict) and isinstance(entry.get(field), str)
    ]
    return named if named or not entries else None  # a list without one name is in some other form
