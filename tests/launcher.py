"""Python processes that do not have to import Headgate first: the `headgate` command, and other programs.

Run as a program, this imports Headgate once, and forks a launcher for each socket that it is sent. A launcher
forks a child for each command line. The child gets its own folder, environment and streams, and is then a
process like any other, but for its command line and its parent. Whoever closes its streams or looks at how it
starts should start a real one.
"""

import json
import os
import re
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

_MOST = 1_000_000
_idle: SimpleQueue[socket.socket] = SimpleQueue()
_busy: set[socket.socket] = set()
_sources: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
"""The process that launchers are forked from, and where it takes their sockets; none before the first one."""
_starting = Lock()


@dataclass
class Launched:
    """A process that was started."""

    pid: int
    launcher: socket.socket
    """Can be read when the process has ended."""
    returncode: int | None = None
    """Known once it has ended."""

    def reap(self) -> int:
        """Waits for the end of the process; returns its exit code, negative if a signal ended it."""
        self.returncode = int(self.launcher.recv(_MOST))
        _busy.remove(self.launcher)
        _idle.put(self.launcher)
        return self.returncode


def run_headgate(
    args: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str = "", *, joined: bool = False
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return run_python(["-m", "headgate", *args], cwd, env, stdin, joined=joined)


def run_python(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str = "", *, joined: bool = False
) -> subprocess.CompletedProcess[str]:
    """Does what `subprocess.run` does with Python and its words: `-m headgate`, `-c CODE` or a file first.

    `joined`: all goes to standard output.
    """
    given, writing = os.pipe()
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    with launched(words, cwd, env, (given, out_end, out_end if joined else err_end)) as process:
        for descriptor in (given, out_end, err_end):
            os.close(descriptor)
        said = _exchange(writing, stdin.encode(), (out, err))
    return subprocess.CompletedProcess(
        list(words), process.returncode or 0, said[out].decode(), said[err].decode()
    )


def is_plain(line: str) -> bool:
    """Whether a line for a shell is one `headgate` command, and no more than its words."""
    return line.startswith("headgate ") and not re.search(r"[|&;<>$`*?~#\n\\(){}\[\]]", line)


@contextmanager
def launched(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int]
) -> Iterator[Launched]:
    """Starts Python with these descriptors as its streams, and waits for it at the end of the block."""
    process = launch(words, cwd, env, streams)
    yield process
    process.reap()


def launch(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int]
) -> Launched:
    """Starts Python with these descriptors as its streams."""
    try:
        launcher = _idle.get_nowait()
    except Empty:
        launcher = _start_launcher()  # each runs one command at a time
    _busy.add(launcher)
    job = {"words": words, "cwd": str(cwd), "env": dict(env)}
    socket.send_fds(launcher, [json.dumps(job).encode()], streams)
    return Launched(int(launcher.recv(_MOST)), launcher)


def _start_launcher() -> socket.socket:
    """Has a launcher forked from a process that has imported Headgate."""
    ours, theirs = _socket_pair()
    with theirs, _starting:
        if not _sources:
            _sources.append(_start_source())
        socket.send_fds(_sources[0][1], [b"one more"], [theirs.fileno()])
    return ours


def _start_source() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = _socket_pair()
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        return subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL), ours


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
    return ours, theirs


def end_launchers() -> None:
    """Ends those that were started: each does when it can be sent nothing more."""
    while not _idle.empty():
        _idle.get().close()
    while _busy:
        _busy.pop().close()
    while _sources:
        process, requests = _sources.pop()
        requests.close()
        process.wait(60)


def _exchange(writing: int, text: bytes, reading: Sequence[int]) -> dict[int, bytes]:
    """Writes a text to one pipe, and reads others to their ends."""
    said = dict.fromkeys(reading, b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in reading:
            selector.register(descriptor, selectors.EVENT_READ)
        selector.register(writing, selectors.EVENT_WRITE)
        while selector.get_map():
            for key, _ in selector.select():
                if key.fd == writing:
                    try:
                        text = text[os.write(writing, text[:4096]) :] if text else b""
                    except BrokenPipeError:
                        text = b""  # it did not want to know
                    ended = not text
                else:
                    piece = os.read(key.fd, 65536)
                    said[key.fd] += piece
                    ended = not piece
                if ended:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return said


def fork_launchers(requests: socket.socket) -> None:
    """Forks a launcher for each socket; ends when there are no more of them, and the launchers have ended."""
    while (message := socket.recv_fds(requests, _MOST, 1))[0]:
        launcher = socket.socket(fileno=message[1][0])
        if os.fork() == 0:
            requests.close()
            serve(launcher)
            return
        launcher.close()
    with suppress(ChildProcessError):
        while True:
            os.wait()


def serve(commands: socket.socket) -> None:
    """Forks a child for each command line, and answers with its process id, and then with how it ended."""
    while True:
        message, streams, _, _ = socket.recv_fds(commands, _MOST, 3)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            commands.close()
            become(json.loads(message), streams)
            return
        for descriptor in streams:
            os.close(descriptor)
        commands.send(str(pid).encode())
        commands.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def become(job: dict[str, Any], streams: Sequence[int]) -> None:
    """Makes this process the one that was asked for."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in set(streams):
        os.close(descriptor)
    # The old ones remember what kind of file was behind them.
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        old = getattr(sys, name)
        new = open(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    places = os.environ.get("PYTHONPATH", "")
    own = sys.path.pop(0)  # this file's folder: what is run may import a test, and that this file
    sys.path[:] = ["", *filter(None, places.split(os.pathsep)), *sys.path, own]
    run_words(*job["words"])


def run_words(first: str, *words: str) -> None:
    """What Python does with the words after its name."""
    if (first, words[0:1]) == ("-m", ("headgate",)):
        from headgate.cli.main import main

        sys.argv = ["headgate", *words[1:]]
        main()
    elif first == "-c":
        sys.argv = ["-c", *words[1:]]
        exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *words]
        sys.path[0] = str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


def prepare() -> None:
    """Imports what commands import."""
    import gc

    from headgate.cli.main import COMMANDS
    from headgate.first_use import LazyPattern
    from headgate.guard import SecretNames

    for entry in COMMANDS.values():
        import_module(f"headgate.cli.commands.{entry.module}")
    import_module("headgate.cli.interactive.start")
    for thing in gc.get_objects():
        if isinstance(thing, LazyPattern):
            thing.compile()
        elif isinstance(thing, type):
            is_dataclass(thing)  # writes its methods
    SecretNames().covers("a")  # its patterns take as long to compile as a short run
    gc.freeze()  # what is shared with the children is not to be touched by each of them


def heed_signals() -> None:
    """As in a terminal: whoever runs tests in the background may have the shell ignore these for them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    heed_signals()
    prepare()
    fork_launchers(socket.socket(fileno=int(sys.argv[1])))
