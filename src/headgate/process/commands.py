"""Commands: run in their own process group, heard while they run, and gone when they end.

When a command ends, however it ends, everything that it started is killed: its process group, and on Linux
also those that left the group, which are known by a variable in their environment. Only a process that both
leaves the group and drops its environment gets away; holding that one is a sandbox's work.
"""

import asyncio
import contextlib
import errno
import os
import re
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from headgate.errors import HeadgateError
from headgate.first_use import dataclass, regex
from headgate.process.cgroups import limited_group
from headgate.process.own_process import close_own_process
from headgate.process.reaper import end_processes, new_mark
from headgate.process.sandbox import Sandbox
from headgate.programs import find_program

T = TypeVar("T")

# What a command prints: its beginning and its end kept, every line passed on, the whole written to a log.


MAX_LOG = 50_000_000
_MAX_LINE = 65536
_NOTE_ROOM = 64


class Capture:
    """Takes a stream of bytes of any length and holds a bounded part of it."""

    def __init__(
        self, limit: int, on_line: Callable[[str], None] | None = None, log: IO[bytes] | None = None
    ) -> None:
        self._limit = limit
        self._head_limit = limit // 3  # what a command says last matters more
        self._tail_limit = max(0, limit - self._head_limit - _NOTE_ROOM)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._on_line = on_line
        self._line = bytearray()
        self._log = log

    def __enter__(self) -> "Capture":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line and kind is None:
            self._pass_line(self._line)
        if self._log is not None:
            with self._log as log:
                if self._total > MAX_LOG:
                    log.write(f"\n[cut here: {self._total - MAX_LOG:,} more bytes were printed]\n".encode())

    def feed(self, chunk: bytes) -> None:
        """Takes what has come."""
        if self._log is not None and self._total < MAX_LOG:
            self._log.write(chunk[: MAX_LOG - self._total])
        self._total += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        if len(self._tail) > 2 * self._limit + _MAX_LINE:
            del self._tail[: len(self._tail) - self._limit]
        if self._on_line is not None:
            self._pass_lines(chunk)

    @property
    def cut(self) -> int:
        """How many bytes were dropped for want of room."""
        if self._total <= self._limit:
            return 0
        return self._total - len(self._head) - self._tail_limit

    @property
    def text(self) -> str:
        """What was kept, never longer than the limit; a line in the middle says what is missing."""
        if not self.cut:
            return (self._head + self._tail).decode(errors="replace")
        note = f"\n[... {self.cut:,} bytes of output cut here ...]\n"
        tail = self._tail[len(self._tail) - self._tail_limit :].decode(errors="replace").lstrip("\ufffd")
        return (self._head.decode(errors="ignore") + note + tail)[: self._limit]

    def _pass_lines(self, chunk: bytes) -> None:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._line += line
            self._pass_line(self._line)
        self._line += rest
        if len(self._line) > _MAX_LINE:
            self._pass_line(self._line)

    def _pass_line(self, line: bytearray) -> None:
        text = line.decode(errors="replace").removesuffix("\r")
        self._line.clear()
        if self._on_line is not None:
            self._on_line(text)


_CHUNK = 65536
_DRAIN_SECONDS = 1.0
_Process = subprocess.Popen[bytes]


class CommandUnavailable(HeadgateError):
    """A command that could not even be started; the message says why."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. One killed by signal N has the exit code 128 + N, as in a shell."""

    exit_code: int
    timed_out: bool
    output: str
    """Standard output and error as they came; the middle is missing where there was too much."""
    seconds: float
    cut: int = 0
    """How many bytes of output are missing in `output`."""


async def run_command(
    command: str | Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float | None,
    max_output: int,
    on_line: Callable[[str], None] | None = None,
    log: IO[bytes] | None = None,
    owner: Path | None = None,
    sandbox: Sandbox | None = None,
) -> CommandResult:
    """Runs a command to its end, or to the timeout (seconds), and returns when its main process is gone.

    Text is run by bash where there is one. At most `max_output` characters are kept, however many come;
    `on_line` hears every line, and `log`, which is closed at the end, receives the whole stream up to a size
    limit. A cancelled call kills the command before it lets the cancellation through. CommandUnavailable if
    it cannot be started. `owner` is the repository that it belongs to, if it runs elsewhere. Without a
    `sandbox` a command may do whatever the user may.
    """
    marker, mark = new_mark(owner or cwd)
    started = time.monotonic()
    with Capture(max_output, on_line, log) as capture, _in_group(sandbox) as joining:
        read_end, write_end = os.pipe()
        with os.fdopen(write_end, "wb") as sink:
            async with _pumped(read_end, capture) as pump:
                words = [_shell(), "-c", command] if isinstance(command, str) else list(command)
                process = _start(words, cwd, {**env, marker: mark}, sink.fileno(), sandbox, joining)
                sink.close()
                try:
                    exited = await _wait_for_exit(process, pump, timeout)
                finally:
                    await uninterrupted(asyncio.to_thread(end_processes, process, marker))
                await asyncio.wait({pump}, timeout=_DRAIN_SECONDS)
    code = -9 if process.returncode is None else process.returncode
    seconds = round(time.monotonic() - started, 3)
    return CommandResult(128 - code if code < 0 else code, not exited, capture.text, seconds, capture.cut)


def _in_group(sandbox: Sandbox | None) -> AbstractContextManager[list[str]]:
    """The words that put a command in a sandbox into a group with its limits."""
    if sandbox is None:
        return contextlib.nullcontext([])
    return limited_group(sandbox.limits.memory_mb, sandbox.limits.processes)


def _start(
    words: list[str],
    cwd: Path,
    env: Mapping[str, str],
    output: int,
    sandbox: Sandbox | None,
    joining: Sequence[str],
) -> _Process:
    if not words:
        raise CommandUnavailable("There is no command to run.")
    if not cwd.is_dir():
        raise CommandUnavailable(f"There is no directory {cwd} to run the command in.")
    close_own_process()
    inside = contextlib.nullcontext((words, ())) if sandbox is None else sandbox.wrap(words, cwd)
    try:
        with inside as (wrapped, files):
            words = [*joining, *wrapped]
            return subprocess.Popen(
                words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, pass_fds=files,
            )  # fmt: skip
    except ValueError:
        raise CommandUnavailable("A command cannot contain a NUL character.") from None
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise CommandUnavailable("The command is too long; put it into a script file.") from error
        if error.errno == errno.ENOENT:
            raise CommandUnavailable(f"There is no program {words[0]}.") from error
        reason = (error.strerror or str(error)).lower()
        raise CommandUnavailable(f"{words[0]} cannot be run: {reason}.") from error


def _shell() -> str:
    for path in ("/bin/bash", "/bin/sh"):
        if os.access(path, os.X_OK):
            return path
    return find_program("bash") or find_program("sh") or "/bin/sh"


@contextlib.asynccontextmanager
async def _pumped(read_end: int, capture: Capture) -> AsyncIterator["asyncio.Task[None]"]:
    """Feeds the pipe to the capture; at the block's end what has not arrived is not waited for."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(read_end, "rb", buffering=0))

    async def pump() -> None:
        while chunk := await reader.read(_CHUNK):
            capture.feed(chunk)
            await asyncio.sleep(0)  # a stream that never pauses must not starve the event loop

    task = asyncio.create_task(pump())
    try:
        yield task
    finally:
        transport.close()
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()  # what could not be heard or logged is the caller's to know


async def _wait_for_exit(process: _Process, pump: "asyncio.Task[None]", seconds: float | None) -> bool:
    """True when the process has exited, False when time is up."""
    deadline = None if seconds is None else time.monotonic() + seconds
    with _exit_of(process) as exited:
        waiting: set[asyncio.Future[None]] = {exited, pump}
        while not exited.done():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return False
            if pump in done:
                pump.result()
                waiting.discard(pump)
    return True


@contextlib.contextmanager
def _exit_of(process: _Process) -> Iterator["asyncio.Future[None]"]:
    """Done when the process has exited. On Linux that leaves it unreaped, so its number stays its own."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not exited.done():
            exited.set_result(None)

    try:
        held = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or one without this call

        def wait_and_tell() -> None:
            process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(settle)

        threading.Thread(target=wait_and_tell, daemon=True).start()
        yield exited
        return
    loop.add_reader(held, settle)
    try:
        yield exited
    finally:
        loop.remove_reader(held)
        os.close(held)


_SECRET_NAME = regex(
    r"""
    (^|_)(API_?KEY|APIKEY|ACCESS_?KEY|PRIVATE_?KEY|ENCRYPTION_?KEY|SIGNING_?KEY|TOKENS?|AUTH|PAT|DSN)(_|$)
    | _KEY$ | SECRET | PASSWORD | PASSWD | PASSPHRASE | CREDENTIAL | (^|_)PASS(_|$) | _PWD$ | ASKPASS
    | ^(AWS|AZURE|VAULT|HEADGATE|OP_SESSION|VSCODE_GIT)_ | ^(SSH_AUTH_SOCK|SSH_AGENT_PID|GPG_AGENT_INFO)$
    | ^(KUBECONFIG|NETRC|PGPASSFILE|DOCKER_AUTH_CONFIG)$
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_VALUE = regex(
    r"://[^/\s:@]*:[^/\s@]+@|^(sk-|sk_live_|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|AKIA|hf_|npm_)\w"
)
_FIXED = {"GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "PAGER": "cat", "TERM": "dumb"}


def filtered_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What commands get to see of an environment: no keys, tokens, passwords or agents, and no pagers.

    A variable is dropped for its name, or for a value that is a known kind of key or a URL with a password.
    """
    return {name: value for name, value in environ.items() if not _is_secret(name, value)} | _FIXED


@lru_cache(maxsize=1024)  # the same variables for every task
def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Waits for work to its end; a cancellation takes effect only then."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled() and task.exception() is None:
        raise cancelled
    return task.result()
