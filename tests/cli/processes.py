"""Real `headgate` processes that run beside each other, and waiting for what they do."""

import asyncio
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from command import environment

from headgate.log import Folder, Store
from headgate.process import FileLock
from launcher import Launched, launch, run_headgate

HEADGATE = [sys.executable, "-m", "headgate"]
PATIENCE = 180.0
"""Seconds after which a test gives up; nothing takes that long unless it hangs."""

GATED = """
- calls: [{shell: {command: "touch started; while [ ! -e go ]; do sleep 0.02; done; echo gated >> order"}}]
- text: Done.
"""
"""A task that begins (`started`) and ends when the file `go` is there."""


SLEEPER = "test -e pid || { echo $$ > pid; exec sleep 600; }"
"""Hangs the first time it is run."""


def step(word: str) -> str:
    """A script for a task that adds a line to the file `order`."""
    return f"- calls: [{{shell: {{command: echo {word} >> order}}}}]\n- text: Done.\n"


class Started:
    """A process like one of asyncio, which did not have to import Headgate first."""

    def __init__(self, process: Launched, stdout: "Pipe", stderr: "Pipe") -> None:
        self.stdout, self.stderr = stdout.reader, stderr.reader
        self._process = process
        self._pipes = (stdout, stderr)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process.launcher, self._end)

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.launcher)
        self._process.reap()
        self._ended.set()

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int | None:
        """Its exit code, once it has ended; what it printed cannot be read any more."""
        await self._ended.wait()
        for pipe in self._pipes:
            pipe.transport.close()
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """What it printed, once it has ended."""
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err


async def start(repo: Path, *args: str, **env: str) -> Started:
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    streams = (nowhere, out_end, err_end)
    words = ["-m", "headgate", *args]
    process = await asyncio.to_thread(launch, words, repo, environment(repo, **env), streams)
    for descriptor in streams:
        os.close(descriptor)
    return Started(process, await Pipe.open(out), await Pipe.open(err))


class Pipe(NamedTuple):
    """The end of a pipe that is read."""

    reader: asyncio.StreamReader
    transport: asyncio.BaseTransport

    @classmethod
    async def open(cls, descriptor: int) -> "Pipe":
        reader = asyncio.StreamReader()
        connect = asyncio.get_running_loop().connect_read_pipe
        file = os.fdopen(descriptor, "rb", buffering=0)
        transport, _ = await connect(lambda: asyncio.StreamReaderProtocol(reader), file)
        return cls(reader, transport)


async def call(repo: Path, *args: str, **env: str) -> tuple[int | None, str, str]:
    """Exit code, standard output and standard error of a command."""
    async with asyncio.timeout(PATIENCE):
        done = await asyncio.to_thread(run_headgate, args, repo, environment(repo, **env))
    return done.returncode, done.stdout, done.stderr


async def ended(process: Started | asyncio.subprocess.Process) -> tuple[bytes, bytes]:
    """What a process printed, once it has ended."""
    async with asyncio.timeout(PATIENCE):
        return await process.communicate()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.03)


async def line_with(stream: asyncio.StreamReader | None, part: str) -> str:
    assert stream is not None
    async with asyncio.timeout(PATIENCE):
        while line := (await stream.readline()).decode():
            if part in line:
                return line
    raise AssertionError(f"the stream ended without {part!r}")


def states(repo: Path) -> dict[str, str]:
    """Every task's state, by id."""
    store = Store(Folder(repo).database)
    try:
        return {row.task.id: row.state for row in store.tasks()}
    finally:
        store.close()


def is_idle(repo: Path) -> bool:
    return not FileLock(Folder(repo).lock).is_held()


def rows(repo: Path) -> dict[str, list[Any]]:
    """Everything in the store's tables."""
    with closing(sqlite3.connect(Folder(repo).database)) as db:
        names = ("tasks", "events", "bodies", "control")
        return {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def files(repo: Path) -> set[str]:
    """What is in .headgate, except SQLite's own files."""
    folder = repo / ".headgate"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return {name for name in found if not name.startswith("headgate.db")}


def reports(repo: Path) -> list[dict[str, Any]]:
    path = repo / ".headgate" / "task_reports.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def pid_of(repo: Path) -> int | None:
    """The process that wrote its number into the file `pid`."""
    path = repo / "pid"
    return int(path.read_text()) if path.exists() and path.read_text().strip() else None


def is_dead(pid: int | None) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return True
    return stat.rpartition(b")")[2].split()[0] == b"Z"


@contextmanager
def terminal(repo: Path, words: list[str], **streams: int) -> Iterator[tuple[int, int]]:
    """Runs a command on a terminal of its own; yields its process id and the terminal's other end."""
    master, slave = pty.openpty()
    take = (
        "import fcntl, os, signal, sys, termios;"
        " signal.signal(signal.SIGHUP, signal.SIG_DFL);"  # tests may run under nohup,
        " signal.signal(signal.SIGINT, signal.SIG_DFL);"  # or in the background of a script
        " fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", take, *words],
        cwd=repo,
        env=environment(repo, TERM="xterm"),
        start_new_session=True,
        **{"stdin": slave, "stdout": slave, "stderr": slave, **streams},
    )
    os.close(slave)
    try:
        yield process.pid, master
    finally:
        process.kill()
        process.wait()


def shows(master: int, text: bytes) -> None:
    """Reads from a terminal until it shows a text."""
    seen = b""
    while text not in seen:
        try:
            seen += os.read(master, 65536)
        except OSError:  # nobody writes to it any more
            raise AssertionError(f"{text!r} is not in {seen!r}") from None
