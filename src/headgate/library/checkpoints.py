"""Checkpoints: the log of a flow, exported so that another process can go on from it.

A file is appended to, and what a save costs depends on what is new alone. The backup is such a file as well,
one save behind: it gets what the file already has, and only then does the file get more. So at any moment one
of the two is whole, and an end that was cut off is known by its checksum.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Literal

from headgate.core import Event, ReplyReceived, StageEnded, ToolFinished
from headgate.errors import ConfigError, StoreError
from headgate.library.lines import Head, encode_head
from headgate.library.log import History
from headgate.process import uninterrupted
from headgate.run import call_program

Interval = Literal["on_stage", "on_turn", "onTaskComplete", "onStep"]
_OTHER_NAMES: dict[str, Literal["on_stage", "on_turn"]] = {"onTaskComplete": "on_stage", "onStep": "on_turn"}


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a flow is saved, and when."""

    enabled: bool = True
    """False: the same as no checkpoint."""
    storage: Literal["memory", "file", "custom"] = "file"
    path: str = "checkpoints/{session_id}.jsonl"
    """With `file`: where. `{session_id}` is replaced by the id of the run."""
    auto_save: bool = True
    """Save without being asked. Otherwise only `FlowRun.save()` saves."""
    interval: Interval | float = "on_stage"
    """When: after each stage, after each turn, or at most once in so many seconds; and at the end."""
    on_save: Callable[[bytes], Awaitable[None] | None] | None = None
    """With `custom`: takes what is to be kept."""
    on_load: Callable[[], bytes | Awaitable[bytes]] | None = None
    """With `custom`: returns what was kept."""

    def __post_init__(self) -> None:
        if self.storage not in ("memory", "file", "custom"):
            raise ConfigError(f"The storage of a checkpoint is memory, file or custom, not {self.storage!r}.")
        if self.storage == "custom" and self.on_save is None:
            raise ConfigError("A custom checkpoint needs `on_save`.")
        if isinstance(self.interval, str):
            known = _OTHER_NAMES.get(self.interval, self.interval)
            if known not in _OTHER_NAMES.values():
                raise ConfigError("The interval of a checkpoint is on_stage, on_turn or a number of seconds.")
            object.__setattr__(self, "interval", known)
        elif self.interval <= 0:
            raise ConfigError("The interval of a checkpoint must be more than 0 seconds.")

    def file(self, session_id: str) -> Path:
        """The file of a run."""
        return named_after(self.path, session_id)


def named_after(path: str | Path, session_id: str) -> Path:
    """A path with the id of a run in it. ConfigError if the id would lead elsewhere."""
    text = str(path)
    if "{session_id}" in text and ("/" in session_id or "\0" in session_id or session_id in (".", "..")):
        raise ConfigError(f"The session id {session_id!r} cannot be part of a file's name.")
    return Path(text.replace("{session_id}", session_id))


class Saver:
    """Saves one run where its checkpoint says."""

    def __init__(
        self,
        wanted: Checkpoint,
        session_id: str,
        history: History,
        head: Callable[[], Head],
        now: Callable[[], float],
    ) -> None:
        self._wanted, self._history, self._head, self._now = wanted, history, head, now
        self._file = CheckpointFile(wanted.file(session_id)) if wanted.storage == "file" else None
        self._saved_at, self._saved = now(), -1
        self._saving = asyncio.Lock()
        self.latest = b""
        """The latest checkpoint, with `storage="memory"`."""

    def is_due(self, event: Event) -> bool:
        """Whether the run is to be saved after an event."""
        wanted = self._wanted
        if not wanted.auto_save:
            return False
        if wanted.interval == "on_stage":
            return isinstance(event.body, StageEnded)
        if wanted.interval == "on_turn":
            return isinstance(event.body, ReplyReceived | ToolFinished | StageEnded)
        assert not isinstance(wanted.interval, str)
        return self._now() - self._saved_at >= wanted.interval

    @property
    def saves_end(self) -> bool:
        """Whether the run is to be saved once more when it has ended."""
        return self._wanted.auto_save

    async def save(self) -> None:
        """Saves the run as it is now, unless nothing has happened since it was last saved."""
        async with self._saving:
            end = self._history.end
            if end == self._saved:
                return
            if self._file is not None:
                # A write that has begun is finished, so that the next one knows what is there.
                await uninterrupted(self._write(self._file, end))
            elif self._wanted.on_save is not None and self._wanted.storage == "custom":
                await call_program(self._wanted.on_save, self._whole(end))
            else:
                self.latest = self._whole(end)
            self._saved, self._saved_at = end, self._now()

    async def _write(self, file: "CheckpointFile", end: int) -> None:
        try:
            new = self._history.lines(self._saved, end) if self._saved >= 0 else b""
            if self._saved < 0 or not await asyncio.to_thread(file.append, new):
                # It is the first save, or somebody has changed the file.
                await asyncio.to_thread(file.replace, self._whole(end))
        except OSError as error:
            raise StoreError(f"The checkpoint {file.path} cannot be written: {error.strerror}.") from None
        self._saved = end

    def _whole(self, end: int) -> bytes:
        return encode_head(self._head()) + self._history.lines(self._history.first, end)


# Files.


def backup_of(path: Path) -> Path:
    """Where the checkpoint before the latest one is."""
    return path.with_name(f"{path.name}.backup")


class CheckpointFile:
    """A checkpoint that one run writes, and its backup, which is one save behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is: tuple[int, int] | None = None
        """Which file it is, and its size, after the latest save."""
        self._backup_is: tuple[int, int] | None = None
        self._last = b""
        """What the latest save appended, which the backup does not have."""

    def replace(self, data: bytes) -> None:
        """Writes it whole. What was there becomes the backup."""
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        new = _write_beside(path, data)
        if path.exists():
            path.replace(backup_of(path))
        new.replace(path)
        self._is, self._backup_is, self._last = _identity(path), None, b""

    def append(self, data: bytes) -> bool:
        """Adds to it. False, and nothing is done, if it is not as the latest save has left it."""
        path, backup = self.path, backup_of(self.path)
        if self._is is None or _identity(path) != self._is:
            return False
        if self._backup_is is None or _identity(backup) != self._backup_is:
            with path.open("rb") as file:
                new = _write_beside(backup, file.read())
            new.replace(backup)
        else:
            with backup.open("ab") as file:
                file.write(self._last)
        self._backup_is, self._last = _identity(backup), b""
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._is, self._last = _identity(path), data
        return True


def _write_beside(path: Path, data: bytes) -> Path:
    """Writes a temporary file in the same folder, to the disk itself."""
    with NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            Path(file.name).unlink()
            raise
    return Path(file.name)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size
