"""The log of a flow that runs without a repository: in memory, or in a file of the program's choice.

Either way it is the same lines as a checkpoint. A file gets them with each commit, so it is always a
checkpoint of the latest commit, and neither events nor what was said in them stay in memory.
"""

import asyncio
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headgate.core import Body, Event, StageEnded, State, Task
from headgate.errors import ConfigError, StoreError
from headgate.library.lines import SavedFlow, decode_lines, encode_commit
from headgate.log import Bus

CHUNK = 1 << 16
"""How many bytes of a log are read at a time."""


class History(Protocol):
    """What has been committed of a run. A position in it is a number that only the history understands."""

    @property
    def start(self) -> int:
        """The position before the first event of this run; what an earlier one did is before it."""
        ...

    @property
    def told(self) -> int:
        """The position behind the event that listeners were told of last."""
        ...

    def read(self, position: int) -> tuple[list[Event], int]:
        """Some of the events from a position on, and the position behind them; none at the end."""
        ...

    @property
    def first(self) -> int:
        """The position before the first event of all, which may be one of an earlier run."""
        ...

    @property
    def end(self) -> int: ...

    def lines(self, start: int, stop: int) -> bytes:
        """What is between two positions, as checked lines."""
        ...


class Lines:
    """The lines of a log, in memory."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def end(self) -> int:
        return len(self._data)

    def append(self, data: bytes) -> None:
        self._data += data

    def read(self, start: int, stop: int) -> bytes:
        return bytes(self._data[start:stop])

    async def sync(self) -> None:
        """Makes what was appended survive a failure of the machine; memory survives none."""

    def close(self) -> None:
        """Nothing is appended any more."""


class FileLines(Lines):
    """Lines in a file. It is locked while a run appends to it."""

    def __init__(self, path: Path, *, known: int | None = None, length: int = 0) -> None:
        """A new file; with `known`, one that exists, has that many bytes, of which `length` are whole.

        ConfigError if it cannot be used.
        """
        self.path = path
        self._closing = threading.Lock()
        self._fault = ""
        """Why it cannot be written: what may be cut off there has to stay the end of it."""
        try:
            if known is None and not path.parent.exists():
                path.parent.mkdir(parents=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags | (os.O_CREAT | os.O_EXCL if known is None else 0), 0o600)
        except FileExistsError:
            raise ConfigError(
                f"The log {path} exists: choose another name, or continue it with Flow.restore."
            ) from None
        except OSError as error:
            raise ConfigError(f"The log {path} cannot be opened: {error.strerror}.") from None
        self._end = length
        if known is not None:
            try:
                self._take_over(known, length)
            except BaseException:
                self.close()
                raise
        else:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def end(self) -> int:
        return self._end

    def _take_over(self, known: int, length: int) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"The log {self.path} belongs to a run that has not ended.") from None
        if os.fstat(self._file).st_size != known:
            raise ConfigError(f"The log {self.path} has changed since it was read: restore it again.")
        os.ftruncate(self._file, length)

    def append(self, data: bytes) -> None:
        if self._fault:
            raise StoreError(self._fault)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self._fault = f"The log {self.path} cannot be written: {error.strerror}."
            raise StoreError(self._fault) from None
        self._end += len(data)

    def read(self, start: int, stop: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                found = file.read(stop - start)
        except OSError as error:
            raise StoreError(f"The log {self.path} cannot be read: {error.strerror}.") from None
        if len(found) < stop - start:
            raise StoreError(f"The log {self.path} is shorter than what was written to it.")
        return found

    async def sync(self) -> None:
        await asyncio.to_thread(self._sync)

    def _sync(self) -> None:
        with self._closing:
            if self._file >= 0:
                os.fsync(self._file)

    def close(self) -> None:
        with self._closing:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1


class FlowLog:
    """Implements the loop's Log port. Events are numbered as in the store."""

    def __init__(
        self,
        bus: Bus,
        task: Task,
        now: Callable[[], float],
        lines: Lines,
        past: SavedFlow | None = None,
        *,
        first: int = 0,
        keeps_contents: bool = True,
    ) -> None:
        """`past` is what earlier runs did; `lines` have it from `first` on.

        Without `keeps_contents`, nobody can go on from the log.
        """
        events = past.events if past else ()
        self.state = State(task=task.id, text=task.text, goal=task.goal, constraints=task.constraints)
        for event in events:
            self.state.apply(event)
        self.state.clock.started_at = events[0].at if events else now()
        bus.state = self.state
        self._lines, self._keeps_contents = lines, keeps_contents
        self._bus, self._task, self._now = bus, task.id, now
        self._pending: list[tuple[Event, str | None]] = []
        self._last = events[-1].seq if events else 0
        self.first = first
        self._start = self._told = lines.end

    def record(self, path: str, turn: int, body: Body, content: str | None = None) -> None:
        """See Log."""
        self._last += 1
        event = Event(seq=self._last, task=self._task, path=path, turn=turn, at=self._now(), body=body)
        self._pending.append((event, content if self._keeps_contents else None))

    async def commit(self) -> None:
        """See Log. What is appended survives this process; when a stage ends, also the machine."""
        if not self._pending:
            return
        committed, self._pending = self._pending, []
        encoded = encode_commit(committed)
        self._lines.append(b"".join(encoded))
        for (event, _), line in zip(committed, encoded, strict=True):
            self.state.apply(event)
            self._told += len(line)
            self._bus.tell(event, self.state)
        if any(isinstance(event.body, StageEnded) for event, _ in committed):
            await self._lines.sync()

    async def close(self) -> None:
        """Nothing is recorded any more."""
        try:
            await self._lines.sync()
        finally:
            self._lines.close()

    # What was committed; see History.

    @property
    def start(self) -> int:
        return self._start

    @property
    def told(self) -> int:
        return self._told

    @property
    def end(self) -> int:
        return self._lines.end

    def read(self, position: int) -> tuple[list[Event], int]:
        """See History."""
        most = CHUNK
        while True:
            data = self._lines.read(position, min(position + most, self._lines.end))
            stop = data.rfind(b"\n") + 1
            if stop or not data:
                return list(decode_lines(data[:stop])), position + stop
            most *= 2

    def lines(self, start: int, stop: int) -> bytes:
        """See History."""
        return self._lines.read(start, stop)
