"""Running the server: listening, working, and stopping without losing anything."""

import asyncio
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from headgate.core import Options
from headgate.engine import ConfigReader, Engine
from headgate.errors import ConfigError, HeadgateError
from headgate.first_use import dataclass
from headgate.process import kill_own_commands
from headgate.reading import is_loopback
from headgate.server.access import Access, known_hosts
from headgate.server.app import make_app
from headgate.server.feed import Feed
from headgate.server.service import Service
from headgate.server.worker import Worker

STOP_SECONDS = 3
"""How long requests under way may take when the server stops."""
EXIT_ENVIRONMENT = 3
TOKEN_CHARS = 16
"""Fewer characters can be guessed by trying."""
_BACKLOG = 512


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where to listen, for whom, and whether to carry tasks out."""

    host: str = "127.0.0.1"
    port: int = 8321
    token: str = ""
    allow_hosts: tuple[str, ...] = ()
    works: bool = True


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def assemble(engine: Engine, settings: ServerSettings, say: Callable[[str], None]) -> tuple[_Server, Service]:
    """The server for an engine, which serves once `serve` is called, and what it serves."""
    feed = Feed(engine.store, engine.bus)
    tell_crash = partial(_tell_crash, say)
    worker = Worker(engine, tell_crash) if settings.works else None
    access = Access(settings.token, known_hosts(settings.host, settings.allow_hosts))
    service = Service(engine, feed, worker)
    config = uvicorn.Config(
        make_app(service, access, tell_crash),
        log_level="warning",
        access_log=False,  # addresses of requests may hold what people search for
        server_header=False,
        proxy_headers=False,  # whoever sends a request would choose the address that it seems to come from
        timeout_graceful_shutdown=STOP_SECONDS,
        http="httptools",
        ws="none",
        backlog=_BACKLOG,
    )
    return _Server(config), service


async def serve(repo: Path, settings: ServerSettings, say: Callable[[str], None]) -> None:
    """Serves until a signal comes. A task that runs then goes on when the next process works here.

    It does not return: leaving the event loop would cancel that task.
    """
    if not settings.token and not is_loopback(settings.host):
        raise ConfigError(
            f"{settings.host} can be reached from other machines: set HEADGATE_TOKEN to a secret of your"
            " own, or leave out --host."
        )
    if settings.token and len(settings.token) < TOKEN_CHARS:
        raise ConfigError(
            f"HEADGATE_TOKEN is too easy to guess: use {TOKEN_CHARS} characters or more, such as"
            " those that openssl rand -hex 16 prints."
        )
    listening = listen(settings.host, settings.port)
    engine = Engine.open(repo)
    engine.keep_crash_trace = True
    for note in engine.notes:
        say(note)
    server, service = assemble(engine, settings, say)
    _stop_on_signals(server, service.feed)
    working = asyncio.create_task(service.worker.run()) if service.worker else None
    say(f"Headgate serves {engine.repo} at {_address(listening)}")
    if not working:
        say("This server runs no tasks (--no-worker).")
    _tell_problems(repo, say)
    code = os.EX_OK
    try:
        await _until_either(server.serve(sockets=[listening]), working)
        if working and (running := engine.store.running()):
            name = running.task.id
            say(f"Task {name} was interrupted. It continues when headgate serve, run or submit starts.")
    except HeadgateError as error:  # the store is gone, or another process took the lock away
        say(f"headgate: {error}")
        code = EXIT_ENVIRONMENT
    except Exception as bug:  # noqa: BLE001 - os._exit would hide it
        _tell_crash(say, bug)
        code = EXIT_ENVIRONMENT
    finally:
        # What the task has recorded is in the store. The process that works here next goes on from there.
        kill_own_commands()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


async def _until_either(serving: Coroutine[Any, Any, None], working: "asyncio.Task[None] | None") -> None:
    """Waits until the server has stopped, or the worker has failed: it does not end otherwise."""
    served = asyncio.create_task(serving)
    await asyncio.wait({served, *([working] if working else [])}, return_when=asyncio.FIRST_COMPLETED)
    if working and working.done():
        working.result()
    served.result()


def _address(listening: socket.socket) -> str:
    """Where people can open the page."""
    address, port = listening.getsockname()[:2]
    if ipaddress.ip_address(address).is_unspecified:  # any address of this machine: no browser can open that
        address = socket.gethostname()
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _tell_problems(repo: Path, say: Callable[[str], None]) -> None:
    """Says at once what a task would be refused for."""
    try:
        ConfigReader(repo, os.environ)(Options())
    except ConfigError as error:
        say(f"Tasks cannot be submitted yet: {error}")


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address. ConfigError if there can be none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # whoever reads the address and connects at once is not refused
    except OSError as error:
        raise ConfigError(
            f"Cannot listen at {host}, port {port}: {error.strerror or error}. Choose another with --port."
        ) from None
    listening.set_inheritable(False)
    return listening


def _stop_on_signals(server: uvicorn.Server, feed: Feed) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit = server.should_exit  # the second signal waits for nobody
        server.should_exit = True
        feed.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


def _tell_crash(say: Callable[[str], None], bug: Exception) -> None:
    say(f"Headgate itself failed: {type(bug).__name__}: {bug}")
