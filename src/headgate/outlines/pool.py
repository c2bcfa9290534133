"""Outlines of many files, made by a few processes. What crashes or stops one is read as plain text."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import IO

from headgate.outlines.outline import Outline, decode_outline
from headgate.outlines.reading import outline_file
from headgate.outlines.worker import ANSWER, REQUEST

_COMMAND = (sys.executable, "-I", "-W", "ignore", "-m", "headgate.outlines.worker")
_SECONDS = 10.0
"""How long one file may take. Hardly any takes a hundredth of that."""
_WORTH_A_PROCESS = 200
"""Files for which one more process is started."""
_MOST_PROCESSES = 4


class OutlinePool:
    """Makes outlines. `read` gives a file's content, or None for one that is not to be read."""

    def __init__(
        self,
        read: Callable[[str], bytes | None],
        command: Sequence[str] = _COMMAND,
        seconds: float = _SECONDS,
    ) -> None:
        self._read, self._command, self._seconds = read, tuple(command), seconds

    def outlines(
        self, paths: Sequence[str], deadline: float, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, Outline | None]]:
        """Each path with its outline, as they come.

        After `deadline` (monotonic), or once `stopped` says so, the rest is left out.
        """
        if not paths:
            return
        wanted = min(_MOST_PROCESSES, os.cpu_count() or 1, 1 + len(paths) // _WORTH_A_PROCESS)
        done: SimpleQueue[tuple[str, Outline | None] | BaseException | None] = SimpleQueue()
        ahead = iter(paths)
        lock = threading.Lock()
        stop = threading.Event()

        def work() -> None:
            with _Parser(self._command, self._seconds) as parser:
                try:
                    while not stop.is_set() and not stopped() and time.monotonic() < deadline:
                        with lock:
                            path = next(ahead, None)
                        if path is None:
                            break
                        data = self._read(path)
                        done.put((path, None if data is None else parser.outline(path, data)))
                except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                    done.put(error)
            done.put(None)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(wanted)]
        for thread in threads:
            thread.start()
        try:
            while wanted:
                result = done.get()
                if result is None:
                    wanted -= 1
                elif isinstance(result, BaseException):
                    raise result
                else:
                    yield result
        finally:
            stop.set()
            for thread in threads:
                thread.join()


class _Parser:
    """One process, started when it is needed and again if it died."""

    def __init__(self, command: tuple[str, ...], seconds: float) -> None:
        self._command, self._seconds = command, seconds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "_Parser":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def outline(self, path: str, data: bytes) -> Outline:
        """The file's outline; as of plain text where its process failed."""
        try:
            return decode_outline(self._ask(path, data))
        except (OSError, EOFError, ValueError):
            self._end()
            return outline_file(path, data, parse=False)

    def _ask(self, path: str, data: bytes) -> bytes:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        name = path.encode("utf-8", "surrogateescape")
        timer = threading.Timer(self._seconds, process.kill)  # ends a write that nobody reads, too
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(REQUEST.pack(len(name), len(data)) + name + data)
            process.stdin.flush()
            (size,) = ANSWER.unpack(_exactly(process.stdout, ANSWER.size))
            return _exactly(process.stdout, size)
        finally:
            timer.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            process_group=0,  # Ctrl-C is not for it: the file that it reads would be kept as plain text
        )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(BrokenPipeError), process:
            pass  # leaving closes the pipes, and waits


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("the parser ended")
    return data
