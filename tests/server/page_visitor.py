"""A repository with a scripted model, and somebody who looks at its pages without a browser or a network."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml
from fastapi import FastAPI
from starlette.types import Message

from headgate.engine import Engine
from headgate.log import Bus
from headgate.server.access import Access
from headgate.server.app import make_app
from headgate.server.feed import Feed
from headgate.server.service import Service

BROWSER = {"host": "localhost", "accept": "text/html,*/*"}


@dataclass
class Answer:
    """What was answered."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Visitor:
    """Sends what a browser would send, and keeps its cookies."""

    app: FastAPI
    headers: dict[str, str] = field(default_factory=lambda: dict(BROWSER))
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Answer:
        return await self._ask("GET", path, b"", headers)

    async def post(self, path: str, fields: Mapping[str, str] | None = None, **headers: str) -> Answer:
        """Sends a form, and does not follow where the answer leads."""
        sent = {"content-type": "application/x-www-form-urlencoded", "origin": "http://localhost"}
        return await self._ask("POST", path, urlencode(fields or {}).encode(), {**sent, **headers})

    async def submit(self, fields: Mapping[str, str], path: str = "/tasks") -> Answer:
        """Sends a form, and opens the page that the answer leads to."""
        sent = await self.post(path, fields)
        assert sent.status == 303, sent.text
        return await self.get(sent.headers["location"])

    async def _ask(self, method: str, path: str, body: bytes, more: Mapping[str, str]) -> Answer:
        address = urlsplit(path)
        given = {**self.headers, **{name.replace("_", "-"): value for name, value in more.items()}}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": address.path,
            "raw_path": address.path.encode(),
            "query_string": address.query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": None,
            "server": ("localhost", 80),
        }
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        start, *rest = messages
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        for morsel in SimpleCookie(headers.get("set-cookie", "")).values():
            self.cookies[morsel.key] = morsel.value
        text = b"".join(message.get("body", b"") for message in rest).decode()
        return Answer(start["status"], headers, text)


@dataclass
class Site:
    """A repository, what serves it, and somebody who looks."""

    repo: Path
    engine: Engine
    visitor: Visitor
    feed: Feed

    async def work(self) -> None:
        """Carries out what is queued."""
        await self.engine.drain(on_crash=_crash)
        self.feed.catch_up()

    async def behind(self, page: str, words: str, **headers: str) -> str:
        """What is behind the line of the timeline that begins so."""
        item = next(item for item in page.split('<li class="moment')[1:] if f'class="what">{words}' in item)
        found = re.search(r'data-part="([^"]+)"', item)
        assert found
        return (await self.visitor.get(found[1], **headers)).text

    def configure(self, replies: list[dict[str, Any]], **settings: Any) -> None:
        """Writes a script for the model, and the configuration that names it. Tasks have it from here on."""
        script = self.repo.parent / f"script-{len(list(self.repo.parent.glob('script-*')))}.yaml"
        script.write_text(yaml.safe_dump({"replies": replies}))
        config = {"model": f"script:{script}", **settings}
        (self.repo / "agent.yaml").write_text(yaml.safe_dump(config))


def _crash(bug: Exception) -> None:
    raise bug


@contextmanager
def open_site(folder: Path, token: str = "") -> Iterator[Site]:
    """A site for a new repository with one file."""
    repo = folder / "repo"
    repo.mkdir()
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "notes.txt").write_text("one\n")
    bus = Bus()
    engine = Engine.open(repo, bus=bus)
    feed = Feed(engine.store, bus)
    try:
        app = make_app(Service(engine, feed, None), Access(token), _crash)
        yield Site(repo, engine, Visitor(app), feed)
    finally:
        engine.store.close()
