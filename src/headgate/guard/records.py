"""What protected files were like: a record of each, its content once, and finding changes quickly."""

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from headgate.file_stamps import Stamp, is_settled, stamp_of
from headgate.regular_files import OwnFolder
from headgate.tree import is_too_deep

Kind = Literal["file", "link", "directory", "other"]

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """How much of what is protected may be copied, in bytes."""

    one_in_memory: int = 1_000_000
    all_in_memory: int = 64_000_000
    all_on_disk: int = 500_000_000


DEFAULT_LIMITS = CopyLimits()


class Record(NamedTuple):
    """One protected path as it was. Records that differ in `stamp` and `settled` alone say the same."""

    kind: Kind
    mode: int
    owner: tuple[int, int]
    modified: int
    """The time of the last change, in nanoseconds."""
    content: str
    """The hash of a file's content, or a link's target; empty for a file that cannot be read."""
    stamp: Stamp
    """What changes whenever content or mode do."""
    settled: bool
    """Whether the stamp can be trusted: it is older than the file system's clock is coarse."""


class RecordStore:
    """Records and contents. OSError where the disk does not take them."""

    def __init__(self, folder: Path, limits: CopyLimits = DEFAULT_LIMITS) -> None:
        self.folder = folder
        # `folder` is `headgate/protected/TASK/PART/PLACE` in git's own folder.
        self._own = OwnFolder(folder.parents[3])
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
        """Keeps a file's content, once, if there is room; returns its hash.

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
        if digest in self._places or self._on_disk + size > self._limits.all_on_disk:
            return digest
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
            self._own.make(self.folder, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT
            self._out = os.fdopen(self._own.open(self._contents, flags), "r+b")
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
            with os.fdopen(self._own.open(self._contents), "rb") as contents:
                contents.seek(start)
                while size > 0 and (chunk := contents.read(min(_CHUNK, size))):
                    size -= len(chunk)
                    yield chunk
        except FileNotFoundError:
            return  # a command removed it: the hash will not fit

    def _append(self, lines: list[dict[str, Any]]) -> None:
        self._own.make(self.folder, mode=0o700)
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        descriptor = self._own.open(self._records, flags)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)

    def _lines(self) -> Iterator[Any]:
        if not self._records.exists():
            return
        for line in self._own.read(self._records).decode("ascii", "replace").splitlines():
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


# Finding protected paths quickly: a directory is listed again only when something in it came or went.


_ANY_NAME = "any name"
_OWNER_MAY_ALL, _OWNER_MAY_READ = 0o700, 0o500


@dataclass(frozen=True, slots=True)
class _Listing:
    stamp: Stamp
    settled: bool
    directories: tuple[str, ...]
    covered: tuple[str, ...]


class Scanner:
    """Walks the part of a tree in which something can be protected. Symlinks are entries, never followed."""

    def __init__(
        self,
        root: Path,
        covers: Callable[[str], bool],
        enters: Callable[[str], bool],
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._root = str(root)
        self._now = now
        self._covers = covers
        self._enters = enters
        self._listings: dict[str, _Listing] = {}
        self._modes: dict[str, int] | None = None
        """The modes of directories when they were first looked at."""
        self.unlocked: list[str] = []
        """The directories that the last scan has opened up."""
        self.too_deep: list[str] = []
        """The directories that the last scan did not enter because they lie too deep."""

    def covers_directory(self, path: str) -> bool:
        """Whether a new file in this directory would be protected, whatever its name."""
        return self._covers(f"{path}/{_ANY_NAME}")

    def scan(self, unlock: Callable[[str], bool] = lambda path: False) -> dict[str, os.stat_result]:
        """Every protected path there is, with the directories that are protected or lead to one.

        A directory that lost the rights of its owner is opened up first if `unlock` says so. What still
        cannot be read is passed over.
        """
        self.unlocked, self.too_deep = [], []
        found: dict[str, os.stat_result] = {}
        directories: dict[str, os.stat_result] = {}
        listings: dict[str, _Listing] = {}
        pending = [""]
        while pending:
            path = pending.pop()
            if is_too_deep(path):
                self.too_deep.append(path)
                continue
            try:
                status = os.lstat(self.full(path))
                if not stat.S_ISDIR(status.st_mode):
                    continue
                if unlock(path):
                    status = self.open_up(path, status)
                directories[path] = status
                listing = self._list(path, status)
                found.update(self._look(listing.covered))
            except OSError:
                continue  # gone by now, or not ours to read: nothing in it can be known
            listings[path] = listing
            pending.extend(listing.directories)
        self._listings = listings
        if self._modes is None:
            self._modes = {path: stat.S_IMODE(status.st_mode) for path, status in directories.items()}
        wanted = {path for path in directories if path and self.covers_directory(path)}
        for path in [*found, *wanted]:
            while (path := path.rpartition("/")[0]) and path not in wanted:
                wanted.add(path)
        found.update((path, directories[path]) for path in wanted)
        return found

    def is_settled(self, status: os.stat_result) -> bool:
        """Whether a change from now on is sure to show in the stamp."""
        return is_settled(stamp_of(status), self._now())

    def full(self, path: str) -> str:
        """A path for the operating system."""
        return f"{self._root}/{path}" if path else self._root

    def open_up(self, path: str, status: os.stat_result | None = None) -> os.stat_result:
        """Gives a directory back what its owner could do with it; a new one has to be readable at least."""
        status = status or os.lstat(self.full(path))
        mode = stat.S_IMODE(status.st_mode)
        before = (self._modes or {}).get(path, mode | _OWNER_MAY_READ)
        if stat.S_ISDIR(status.st_mode) and before & ~mode & _OWNER_MAY_ALL:
            Path(self.full(path)).chmod(before)
            self.unlocked.append(path)
            return os.lstat(self.full(path))
        return status

    def _look(self, paths: tuple[str, ...]) -> dict[str, os.stat_result]:
        found = {}
        for path in paths:
            try:
                found[path] = os.lstat(self.full(path))
            except FileNotFoundError:
                continue  # came and went while we looked
        return found

    def _list(self, path: str, status: os.stat_result) -> _Listing:
        known = self._listings.get(path)
        if known is not None and known.settled and known.stamp == stamp_of(status):
            return known
        return self._list_now(path, stamp_of(status), self.is_settled(status))

    def _list_now(self, path: str, stamp: Stamp, settled: bool) -> _Listing:
        prefix = f"{path}/" if path else ""
        directories: list[str] = []
        covered: list[str] = []
        with os.scandir(self.full(path)) as entries:
            for entry in entries:
                child = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if self._enters(child):
                        directories.append(child)
                elif self._covers(child):
                    covered.append(child)
        return _Listing(stamp, settled, tuple(directories), tuple(covered))


def kind_of(status: os.stat_result) -> Kind:
    """What a path is."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


def same_mode(record: Record, status: os.stat_result) -> bool:
    """Whether a path is of the kind, the mode and the owner that were recorded."""
    if record.kind == "link":
        return True
    same_kind = record.kind == kind_of(status)
    return same_kind and (record.mode, record.owner) == (
        stat.S_IMODE(status.st_mode),
        (status.st_uid, status.st_gid),
    )


def is_directory(record: Record | None, status: os.stat_result | None) -> bool:
    """Whether a path was a directory; one that was not there, whether it is."""
    if record is not None:
        return record.kind == "directory"
    return status is not None and kind_of(status) == "directory"
