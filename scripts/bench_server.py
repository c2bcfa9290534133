"""How `headgate serve` holds up: many clients on one running task, and a long queue.

    python scripts/bench_server.py                 1 and 200 clients, 1,000 tasks
    python scripts/bench_server.py --clients 50 --tasks 100

Server, clients and the scripted model are on this machine, so only ratios mean something. Delays are from the
moment an event is recorded to the moment a client has read it. Some clients come back again and again, at
random: that none of them lost or doubled an event is checked.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

TURNS = 150
DELAY = 0.05
"""Seconds that the scripted model takes for a reply."""
FLOW = """name: long
stages:
  - {id: work, prompt: Write files., tools: {allow: [read, write]}, budget: {turns: 5000}}
"""


def make_repo(folder: Path) -> Path:
    repo = folder / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    replies = [
        {"calls": [{"write_file": {"path": f"f{n}.txt", "content": "x\n"}}], "delay": DELAY}
        for n in range(TURNS)
    ]
    done = {"calls": [{"stage_done": {"stage": "work", "summary": "done"}}]}
    (folder / "long.yaml").write_text(json.dumps([*replies, done]))
    (folder / "short.yaml").write_text(json.dumps([{"text": "Done."}] * 2))
    (folder / "flow.yaml").write_text(FLOW)
    (repo / "agent.yaml").write_text("scouts: off\ntask_flow_mode: flat\n")
    return repo


@asynccontextmanager
async def server(repo: Path, *options: str) -> AsyncIterator[tuple[str, int]]:
    """A server in a process of its own: its address and its number."""
    command = [sys.executable, "-m", "headgate", "serve", "--port", "0", *options]
    process = await asyncio.create_subprocess_exec(*command, cwd=repo, stderr=subprocess.PIPE)
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    url = line.split()[-1]
    drain = asyncio.create_task(process.stderr.read())
    try:
        yield url, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
        drain.cancel()


def submit(repo: Path, script: str, *options: str) -> str:
    command = [
        sys.executable,
        "-m",
        "headgate",
        "submit",
        "--no-start",
        "Work",
        "--model",
        f"script:{script}",
    ]
    done = subprocess.run([*command, *options], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout.strip()


_AT = re.compile(rb'"at":([0-9.]+)')
"""Decoding all of the JSON for hundreds of clients would be most of what is measured."""


class Client:
    """Reads all events of a task, and says how old each one was."""

    def __init__(self, url: str, task: str, leaves: random.Random | None = None) -> None:
        self._url, self._leaves = f"{url}/api/tasks/{task}/events?detail=1", leaves
        self.seen: list[int] = []
        self.delays: list[float] = []
        self.returns = 0

    async def follow(self, session: aiohttp.ClientSession) -> None:
        while not await self._read(session):
            self.returns += 1

    async def _read(self, session: aiohttp.ClientSession) -> bool:
        headers = {"Last-Event-ID": str(self.seen[-1])} if self.seen else {}
        left = self._leaves.randrange(5, 60) if self._leaves else -1
        async with session.get(self._url, headers=headers) as response:
            number = 0
            async for line in response.content:
                if line.startswith(b"id: "):
                    number = int(line[4:])
                elif number and line.startswith(b"data: "):
                    self.seen.append(number)
                    self.delays.append(time.time() - float(_AT.search(line)[1]))  # type: ignore[index]
                    number, left = 0, left - 1
                    if b'"kind":"task_ended"' in line:
                        return True
                if left == 0:
                    return False
        return False


async def watch(folder: Path, count: int) -> tuple[float, str]:
    """Follows one running task with so many clients: the 99th percentile of delays, and a row of a table."""
    repo = make_repo(folder)
    task = submit(repo, str(folder / "long.yaml"), "--flow", str(folder / "flow.yaml"))
    luck = random.Random(1)
    async with server(repo, "--no-worker") as (url, _):
        pass  # a first start writes what later ones find
    async with server(repo) as (url, pid):
        clients = [Client(url, task, luck if number % 4 == 3 else None) for number in range(count)]
        started = time.monotonic()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, read_bufsize=2**18) as session:
            await asyncio.gather(*(client.follow(session) for client in clients))
            took = time.monotonic() - started
            async with session.get(f"{url}/api/tasks/{task}?detail=1") as response:
                stored = [event["seq"] for event in (await response.json())["events"]]
        memory = resident(pid)
    for client in clients:
        assert client.seen == stored, "a client lost or doubled events"
    # Events from before a client was there are old when it gets them.
    delays = sorted(delay for client in clients for delay in client.delays[len(stored) // 10 :])
    p50, p99 = (delays[int(len(delays) * share)] for share in (0.5, 0.99))
    returns = sum(client.returns for client in clients)
    row = (
        f"| {count} | {len(stored) / took:,.0f} | {count * len(stored) / took:,.0f} | {1000 * p50:.1f} ms |"
        f" {1000 * p99:.1f} ms | {memory / 1e6:.0f} MB | {returns} |"
    )
    return p99, row


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def queue(folder: Path, count: int) -> list[str]:
    """Submits, lists and drains so many tasks."""
    repo = make_repo(folder)
    (repo / "agent.yaml").write_text(
        f"scouts: off\ntask_flow_mode: flat\nmodel: script:{folder / 'short.yaml'}\n"
    )
    async with aiohttp.ClientSession() as session:
        async with server(repo, "--no-worker") as (url, _):
            started = time.monotonic()
            for number in range(count):
                async with session.post(f"{url}/api/tasks", json={"text": f"Task {number}"}) as response:
                    assert response.status == 201, await response.text()
            submitted = time.monotonic() - started
            started = time.monotonic()
            async with session.get(f"{url}/api/tasks?limit=10000") as response:
                assert len(await response.json()) == count
            listed = time.monotonic() - started
        async with server(repo) as (url, pid):
            started = time.monotonic()
            async with session.get(f"{url}/api/events") as response:
                async for line in response.content:
                    if b'"running":null,"queued":[],' in line:
                        break
            drained = time.monotonic() - started
            memory = resident(pid)
    return [
        f"{count} tasks submitted in {submitted:.1f} s, {1000 * submitted / count:.0f} ms each",
        f"{count} queued tasks listed in {1000 * listed:.0f} ms",
        f"{count} tasks drained in {drained:.1f} s, {1000 * drained / count:.0f} ms each",
        f"Memory of the server: {memory / 1e6:.0f} MB",
    ]


async def main() -> None:
    """Prints a table and the figures of the queue."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=1000)
    args = parser.parse_args()
    print("| clients | events/s | sent/s | p50 delay | p99 delay | memory | came back |")
    print("|---|---|---|---|---|---|---|")
    found: dict[int, float] = {}
    for count in (1, args.clients) if args.clients else ():
        with tempfile.TemporaryDirectory() as folder:
            found[count], row = await watch(Path(folder), count)
            print(row, flush=True)
    if args.clients:
        print(
            f"\np99 with {args.clients} clients: {found[args.clients] / found[1]:.1f} times that with one\n"
        )
    with tempfile.TemporaryDirectory() as folder:
        for line in await queue(Path(folder), args.tasks):
            print(line, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
