"""A server in this process, on a free port, with a model that is handed in; and clients of its streams."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from headgate.core import Message, Reply, Request, Usage
from headgate.engine import Engine
from headgate.server import ServerSettings
from headgate.server.running import assemble, listen
from headgate.server.service import Service

PATIENCE = 120.0
"""Seconds after which a test gives up; nothing takes that long unless it hangs."""


class Model:
    """Says that it is done, after something else has happened."""

    name = "fake"

    def __init__(self, before: Callable[[], Awaitable[None]] | None = None) -> None:
        self.before = before

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        if self.before:
            await self.before()
        return Reply(Message("assistant", "Done."), Usage(10, 2), "stop")


@dataclass
class Serving:
    """A server that runs, and a client for it."""

    url: str
    service: Service
    client: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """The status of a response, and its JSON, or its text if it is none."""
        async with self.client.request(method, f"{self.url}{path}", **options) as response:
            text = await response.text()
            is_json = "json" in response.headers.get("content-type", "")
            return response.status, json.loads(text) if is_json and text else text

    async def page(self, path: str) -> str:
        """A page as a browser gets it."""
        status, text = await self.ask("GET", path, headers={"Accept": "text/html"})
        assert status == 200, text
        return str(text)

    async def submit(self, text: str, **more: Any) -> str:
        status, body = await self.ask("POST", "/api/tasks", json={"text": text, **more})
        assert status == 201, body
        return str(body["id"])

    async def until(self, task: str, *states: str) -> None:
        """Waits until a task is in one of these states."""
        async with asyncio.timeout(PATIENCE):
            while self.service.row(task).state not in states:
                await asyncio.sleep(0.01)


def make_repo(folder: Path, settings: str = "task_flow_mode: flat\n") -> Path:
    repo = folder / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "agent.yaml").write_text(settings)
    return repo


@asynccontextmanager
async def serving(
    repo: Path, model: Any = None, *, token: str = "", works: bool = True
) -> AsyncIterator[Serving]:
    """A server until the end of the block. Tasks have ended by then, or nobody carries them out."""
    engine = Engine.open(repo, models={None: model or Model()})
    listening = listen("127.0.0.1", 0)
    settings = ServerSettings(port=listening.getsockname()[1], token=token, works=works)
    server, service = assemble(engine, settings, print)
    serves = asyncio.create_task(server.serve(sockets=[listening]))
    working = asyncio.create_task(service.worker.run()) if service.worker else None
    try:
        async with aiohttp.ClientSession() as client:
            yield Serving(f"http://127.0.0.1:{settings.port}", service, client)
    finally:
        server.should_exit = True
        service.feed.close()
        await serves
        if working:
            working.cancel()
            await asyncio.wait({working})
        engine.store.close()


@dataclass(frozen=True)
class Sent:
    """One message of an event stream."""

    name: str
    data: Any
    id: int | None


async def read_stream(response: aiohttp.ClientResponse) -> AsyncIterator[Sent]:
    """The messages of a stream, as a browser understands them."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield Sent(fields.get("event", "message"), json.loads(fields["data"]), number)
            fields = {}
        else:
            fields = {}


async def collect(
    server: Serving, path: str, enough: Callable[[list[Sent]], bool], **options: Any
) -> list[Sent]:
    """What a stream sends until it is enough."""
    found: list[Sent] = []
    async with asyncio.timeout(PATIENCE), server.client.get(f"{server.url}{path}", **options) as response:
        assert response.status == 200, await response.text()
        async for sent in read_stream(response):
            found.append(sent)
            if enough(found):
                break
    return found
