"""The HTTP client for all models. A request is one attempt; every failure becomes a model error."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from headgate.core import ModelSettings, Timeouts
from headgate.errors import ConfigError, ModelRefused, ReplyInvalid
from headgate.models.encoding import decode_json
from headgate.models.endpoint import Endpoint, find_endpoint, is_hosted, split_model
from headgate.models.wire.failures import (
    CHECK_NETWORK,
    TRANSPORT_ERRORS,
    KeyRefused,
    ServerTrouble,
    endpoint_label,
    explain_response,
    explain_transport,
    read_body,
    safe_excerpt,
)
from headgate.models.wire.http1 import Answer, Connections, ConnectTimeout
from headgate.reading import reaches_this_machine

MAX_REPLY_BYTES = 64 << 20
_MAX_ERROR_BYTES = 64 << 10
_DRAIN_SECONDS = 0.2
_GET_SECONDS = 30.0


class HttpClient:
    """Posts to one endpoint. An async context manager: leaving it closes every connection."""

    def __init__(self, endpoint: Endpoint, timeouts: Timeouts) -> None:
        self.endpoint = endpoint
        self._timeouts = timeouts
        self._proxy = find_proxy(endpoint.root)
        self._connections: Connections | None = None

    async def __aenter__(self) -> "HttpClient":
        headers = {
            "User-Agent": "headgate",
            "Content-Type": "application/json",
            # A compressed stream is held back until a block is full.
            "Accept-Encoding": "identity",
            **self.endpoint.headers,
        }
        connect = self._timeouts.connect
        self._connections = Connections(self.endpoint.root, self._proxy, headers, connect)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connections is not None:
            self._connections.close()

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
        connections = self._connections
        if connections is None:
            raise RuntimeError("HttpClient is used outside its context")
        deadline = asyncio.get_running_loop().time() + wait
        try:
            async with asyncio.timeout_at(deadline):
                # A redirection is not followed: it would carry the key to a host that nobody configured.
                response = await connections.request(method, path, body)
        except ConnectTimeout as error:
            told = f"{endpoint_label(self.endpoint)} did not accept a connection in"
            helps = CHECK_NETWORK if is_hosted(self.endpoint) else "start it, or correct base_url"
            raise ServerTrouble(f"{told} {self._timeouts.connect:g} s: {helps}.", "unreachable") from error
        except TimeoutError as error:
            told = f"{endpoint_label(self.endpoint)} sent no answer in {wait:g} s."
            raise ServerTrouble(told, "silent") from error
        except TRANSPORT_ERRORS as error:
            raise explain_transport(self.endpoint, error) from error
        answer = HttpAnswer(self, response, deadline, self._timeouts)
        try:
            if response.status != 200:
                refusal = await answer.error_body()
                raise explain_response(self.endpoint, response.status, response.headers, refusal)
            yield answer
            await answer.drain()
        finally:
            response.close()


class HttpAnswer:
    """A response whose body is still arriving."""

    started = False
    """Set it once the first token is seen: the limit is `first_token` before that and `idle` after it."""

    def __init__(self, client: HttpClient, response: Answer, deadline: float, timeouts: Timeouts) -> None:
        self.endpoint = client.endpoint
        self.content_type = response.headers.get("Content-Type")
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
                data = await self._response.read()
        except TimeoutError as error:
            if self.started:
                limit = self._timeouts.idle
                raise ServerTrouble(
                    f"{name} sent nothing for {limit:g} s in the middle of a reply.", "silent"
                ) from error
            told = f"{name} sent no token in {self._timeouts.first_token:g} s."
            raise ServerTrouble(told, "silent") from error
        except OSError as error:
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
                while len(data) < _MAX_ERROR_BYTES and (part := await self._response.read()):
                    data += part
        except OSError:
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

    async def drain(self) -> None:
        """Waits a moment for the end of the body, so that the connection can serve the next request."""
        if self._response.at_end:
            return
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await self._response.read():
                    pass
        except OSError:
            return  # the reply is complete; the connection is closed in place of being kept


def find_proxy(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for an address; this machine has none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if reaches_this_machine(host):
        return None
    from urllib.request import getproxies_environment, proxy_bypass  # a whole HTTP client, too

    if proxy_bypass(host):
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
