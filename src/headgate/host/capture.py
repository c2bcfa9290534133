"""What a command prints: its beginning and its end kept, every line passed on, the whole written to a log."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

MAX_LOG = 50_000_000
_MAX_LINE = 65536
_NOTE_ROOM = 64


class Capture:
    """Takes a stream of bytes of any length and holds a bounded part of it."""

    def __init__(
        self, limit: int, on_line: Callable[[str], None] | None = None, log: Path | None = None
    ) -> None:
        self._limit = limit
        self._head_limit = limit // 3  # what a command says last matters more
        self._tail_limit = max(0, limit - self._head_limit - _NOTE_ROOM)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._on_line = on_line
        self._line = bytearray()
        self._log = None if log is None else log.open("wb")

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
