"""Who may ask: the token, the address that the page was opened at, where a request comes from, its size.

Without a token the server listens on the loopback interface only. There, two others remain to be kept out:
a web page whose name was made to lead to this machine (the Host header gives it away), and one that sends
requests here from somewhere else (Origin and Sec-Fetch-Site do). Commands in the sandbox have no network;
others are kept out by a token.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.first_use import dataclass
from headgate.reading import is_loopback
from headgate.server.problems import answer_error, wants_page

MAX_BODY = 1_000_000
"""Bytes of a request: a task's text is a few pages at the most."""
COOKIE = "headgate_session"
OPEN_PATHS = ("/healthz", "/api/healthz", "/login", "/static/")
"""What is answered without a token: nothing there tells of tasks."""
_READING = ("GET", "HEAD", "OPTIONS")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers send the page's own forms with "Origin: null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def known_hosts(host: str, more: tuple[str, ...] = ()) -> frozenset[str]:
    """The names under which people may open the page of a server that listens at `host`."""
    own = () if is_loopback(host) else (host, socket.gethostname(), socket.getfqdn())
    return frozenset(name.lower() for name in (*_LOOPBACK_NAMES, *own, *more))


@dataclass(frozen=True, slots=True)
class Access:
    """What is asked of a request."""

    token: str = ""
    hosts: frozenset[str] = frozenset(_LOOPBACK_NAMES)
    body_seconds: float = 30.0
    """How long the body of a request may take to arrive."""

    @property
    def session(self) -> str:
        """What a browser keeps in its cookie instead of the token."""
        return hmac.new(self.token.encode(), b"headgate session", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether this is the token, in a time that does not tell how much of it is right."""
        return secrets.compare_digest(given.encode(), self.token.encode())

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """The status and the sentence for a request that is not answered."""
        headers = Headers(scope=scope)
        host = _name_of(headers.get("host", ""))
        if not self._is_known(host):
            return 421, f'This server is not known as "{host}": open it as localhost, or use --allow-host.'
        if scope["method"] not in _READING and (said := self._foreign(headers)):
            return 403, said
        if self.token and not self._is_open(scope["path"]) and not self._has_token(headers):
            return 401, "This server asks for its token: log in, or send it as a bearer token."
        return None

    def _is_known(self, host: str) -> bool:
        if host in self.hosts:
            return True
        # With a token, an address is as good as a name: no other site can be reached under it.
        return bool(self.token) and _is_address(host)

    def _foreign(self, headers: Headers) -> str:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        if site not in ("same-origin", "none"):
            return "Only this server's own page may send this."
        if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
            return "Only this server's own page may send this."
        return ""

    def _is_open(self, path: str) -> bool:
        return any(path == each or (each.endswith("/") and path.startswith(each)) for each in OPEN_PATHS)

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.is_token(given.strip())
        # Not http.cookies: it reads nothing after an unusual cookie, such as one from another port.
        kept = cookie_parser("; ".join(headers.getlist("cookie"))).get(COOKIE, "")
        return secrets.compare_digest(kept.encode(), self.session.encode())


def _name_of(host: str) -> str:
    """The name or address in a Host header, without its port."""
    try:
        parts = urlsplit(f"//{host}")
        is_plain = parts.netloc == host and "@" not in host  # nothing but a name and a port
        return (parts.hostname or "").lower() if is_plain else ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class AccessControl:
    """Stands before everything else. Adds the headers that keep a browser from running foreign code."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        on_crash: Callable[[Exception], None],
    ) -> None:
        self._app, self._access, self._on_crash = app, access, on_crash

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = _with_headers(send)
        refused = self._access.refusal(scope)
        if refused is not None:
            await self._refuse(scope, receive, guarded, *refused)
            return
        if scope["method"] in _READING:
            await self._answer(scope, receive, guarded)
            return
        try:
            async with asyncio.timeout(self._access.body_seconds):
                body = await _read_body(receive)
        except TimeoutError:
            await self._refuse(scope, receive, guarded, 408, "The request took too long to arrive.")
            return
        if body is None:
            return
        if len(body) > MAX_BODY:
            await self._refuse(scope, receive, guarded, 413, f"Send at most {MAX_BODY:,} bytes.")
            return
        await self._answer(scope, _replayed(body, receive), guarded)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Has a request answered. A bug is told to whoever runs the server, and costs only this request."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as bug:  # noqa: BLE001 - told, and answered in one sentence
            self._on_crash(bug)
            if not started:
                said = "Headgate itself failed. The terminal in which the server runs says how."
                await self._refuse(scope, receive, send, 500, said)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, status: int, said: str) -> None:
        if status == 401 and wants_page(scope) and scope["method"] == "GET":
            response: Response = RedirectResponse("/login", 303)
        else:
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            response = answer_error(scope, status, said, headers)
        await response(scope, receive, send)


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return guarded


async def _read_body(receive: Receive) -> bytes | None:
    """The body of a request; of one that is too large, not much more than it may have.

    None if the sender has gone: a part of a request is none.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY or not message.get("more_body"):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, and then whatever else comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed
