"""What protected files were like: a record of each, and the content of each once, safe from a crash.

A store is a folder of two files that only ever grow: `contents` holds the bytes, `records.jsonl` says what
is where and what every path was. They are read again when a process died while a command ran. Small contents
stay in memory too, where no command can reach them; one from the disk has to have the hash it was kept under.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

Kind = Literal["file", "link", "directory", "other"]
Stamp = tuple[int, ...]

_CHUNK = 1 << 20
_OWN = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of what is protected may be copied, in bytes."""

    one_in_memory: int = 1_000_000
    all_in_memory: int = 64_000_000
    all_on_disk: int = 500_000_000


DEFAULT_LIMITS = Limits()


class Record(NamedTuple):
    """One protected path as it was. Records that differ in `stamp` and `settled` alone say the same."""

    kind: Kind
    mode: int
    owner: tuple[int, int]
    modified: int
    """The time of the last change, in nanoseconds."""
    content: str
    """The hash of a file's content, or a link's target; empty where a file's content is not kept."""
    stamp: Stamp
    """What changes whenever content or mode do."""
    settled: bool
    """Whether the stamp can be trusted: it is older than the file system's clock is coarse."""


class Store:
    """Records and contents. OSError where the disk does not take them."""

    def __init__(self, folder: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self.folder = folder
        self._limits = limits
        self._records = folder / "records.jsonl"
        self._contents = folder / "contents"
        self._places: dict[str, tuple[int, int]] = {}
        self._memory: dict[str, bytes] = {}
        self._in_memory = 0
        self._on_disk = 0
        self._out: IO[bytes] | None = None
        self._new_places: list[dict[str, Any]] = []

    def load(self) -> tuple[dict[str, Record], bool]:
        """What was recorded by an earlier process, and whether a command was running when it ended."""
        records: dict[str, Record] = {}
        running = False
        for line in self._lines():
            match line:
                case {"path": str(path), "record": None}:
                    records.pop(path, None)
                case {"path": str(path), "record": [kind, mode, owner, modified, content, stamp, settled]}:
                    records[path] = Record(kind, mode, tuple(owner), modified, content, tuple(stamp), settled)
                case {"content": str(digest), "at": int(start), "size": int(size)}:
                    self._places[digest] = (start, size)
                case {"running": bool(now)}:
                    running = now
        if self._contents.exists():
            self._on_disk = self._contents.stat().st_size
        return records, running

    def note(self, changes: dict[str, Record | None], *, running: bool) -> None:
        """Appends what is new about paths (None: not there any more), and whether a command runs now."""
        self._close_contents()
        lines = [{"path": path, "record": record} for path, record in changes.items()]
        self._append([*self._new_places, *lines, {"running": running}])
        self._new_places.clear()

    def keep(self, file: IO[bytes], size: int) -> str:
        """Keeps a file's content, once; returns its hash, or nothing where there is no room.

        It is safe only after the next `note`, which has to come before the command that it is kept from.
        """
        if size <= self._limits.one_in_memory:
            data = file.read()
            return self._keep_chunks([data], len(data), sha256(data).hexdigest())
        digest = digest_of(file)
        length = file.tell()
        file.seek(0)
        return self._keep_chunks(iter(lambda: file.read(_CHUNK), b""), length, digest)

    def _keep_chunks(self, chunks: Iterable[bytes], size: int, digest: str) -> str:
        if digest in self._places:
            return digest
        if self._on_disk + size > self._limits.all_on_disk:
            return ""
        out = self._open_contents()
        start = out.seek(0, os.SEEK_END)
        for chunk in chunks:
            out.write(chunk)
            if size <= self._limits.one_in_memory and self._in_memory + size <= self._limits.all_in_memory:
                self._memory[digest] = chunk
                self._in_memory += size
        self._on_disk = out.tell()
        self._places[digest] = (start, self._on_disk - start)
        self._new_places.append({"content": digest, "at": start, "size": self._on_disk - start})
        return digest

    def _open_contents(self) -> IO[bytes]:
        if self._out is None:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._out = os.fdopen(os.open(self._contents, os.O_RDWR | _OWN, 0o600), "r+b")
        return self._out

    def _close_contents(self) -> None:
        if self._out is not None:
            out, self._out = self._out, None
            out.close()

    def copy(self, digest: str, target: IO[bytes]) -> bool:
        """Writes a kept content; False if it is not kept, or no longer what it was."""
        if digest in self._memory:
            target.write(self._memory[digest])
            return True
        if digest not in self._places:
            return False
        check = sha256()
        for chunk in self._read(*self._places[digest]):
            check.update(chunk)
            target.write(chunk)
        return check.hexdigest() == digest

    def forget(self) -> None:
        """Removes everything that was kept."""
        self._close_contents()
        self._new_places.clear()
        self._places.clear()
        self._memory.clear()
        self._in_memory = self._on_disk = 0
        self._records.unlink(missing_ok=True)
        self._contents.unlink(missing_ok=True)

    def _read(self, start: int, size: int) -> Iterator[bytes]:
        self._close_contents()
        try:
            with self._contents.open("rb") as contents:
                contents.seek(start)
                while size > 0 and (chunk := contents.read(min(_CHUNK, size))):
                    size -= len(chunk)
                    yield chunk
        except FileNotFoundError:
            return  # a command removed it: the hash will not fit

    def _append(self, lines: list[dict[str, Any]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        descriptor = os.open(self._records, os.O_WRONLY | os.O_APPEND | _OWN, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)

    def _lines(self) -> Iterator[Any]:
        if not self._records.exists():
            return
        for line in self._records.read_text(encoding="ascii", errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return  # the process died while it wrote this line, so it had not begun to rely on it


def digest_of(file: IO[bytes]) -> str:
    """The hash of what can be read from here on."""
    digest = sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
