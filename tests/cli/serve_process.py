"""`headgate serve` as a process."""

import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from processes import Started, ended, line_with, start


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def server(repo: Path, port: int, *options: str, **env: str) -> AsyncIterator[Started]:
    process = await start(repo, "serve", "--port", str(port), *options, **env)
    try:
        await line_with(process.stderr, "Headgate serves")
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await ended(process)
