"""The repository on disk: paths go through `Tree`, accesses past the guards, writes through a `Batch`."""

import difflib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from threading import Lock

from headgate.core.access import Access, Act, Ask, Guard, first_objection
from headgate.errors import ToolDenied, ToolFailed
from headgate.host.atomic import Batch, FileMoved, fingerprint
from headgate.host.ignore import TEMPORARY, walk_files
from headgate.host.internal import INTERNAL, InternalFiles
from headgate.host.paths import Spot, Tree, explain
from headgate.host.readcache import ReadCache
from headgate.host.workspace import Entry, EntryKind, File, FileChange, show_path

DEFAULT_MAX_BYTES = 10_000_000
_CACHE_BYTES = 64_000_000
_SUGGESTION_FILES = 20_000


class DiskWorkspace:
    """A Workspace over a directory. Methods may be called from several threads at once."""

    def __init__(self, root: Path, guards: Sequence[Guard] = (), max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._tree = Tree(root)
        self.root = self._tree.root
        self.guards: tuple[Guard, ...] = (InternalFiles(), *guards)
        self.max_bytes = max_bytes
        self._cache = ReadCache(_CACHE_BYTES)
        self._writing = Lock()

    def locate(self, path: str) -> str:
        """The canonical form of a path, which need not exist."""
        with self._tree.find(path) as spot:
            return spot.path

    def read(self, path: str) -> File:
        """A regular file of at most `max_bytes`."""
        with self._tree.find(path) as spot:
            self._permit("read", spot)
            try:
                descriptor, status = spot.open_file()
            except FileNotFoundError:
                raise self._missing(spot) from None
            try:
                return self._read_open(spot, descriptor, status)
            except OSError as error:
                raise ToolFailed(explain(error, spot.shown)) from error
            finally:
                os.close(descriptor)

    def exists(self, path: str) -> bool:
        """Whether there is anything under this name."""
        with self._tree.find(path) as spot:
            self._permit("read", spot)
            return spot.status() is not None

    def list(self, path: str = "") -> list[Entry]:
        """A directory's entries, sorted by name."""
        with self._tree.find(path) as spot:
            self._permit("read", spot)
            try:
                descriptor = spot.open_directory()
            except FileNotFoundError:
                raise self._missing(spot) from None
            try:
                with os.scandir(descriptor) as scan:
                    entries = [
                        _entry(entry)
                        for entry in scan
                        if entry.name.lower() not in INTERNAL and not entry.name.startswith(TEMPORARY)
                    ]
            except OSError as error:
                raise ToolFailed(explain(error, spot.shown)) from error
            finally:
                os.close(descriptor)
        return sorted(entries, key=lambda entry: entry.name)

    def files(self, under: str = "") -> Iterator[str]:
        """Every file below a directory that is neither ignored nor denied, sorted by path."""
        with self._tree.find(under) as spot:
            self._permit("read", spot)
            try:
                os.close(spot.open_directory())
            except FileNotFoundError:
                raise self._missing(spot) from None
        return walk_files(self._tree, spot.path, self._may_read)

    def apply(self, changes: Sequence[FileChange]) -> None:
        """Writes all of the changes or none."""
        batch = Batch()
        try:
            with self._writing, ExitStack() as open_spots, batch:
                seen: set[str] = set()
                for change in changes:
                    spot = open_spots.enter_context(self._tree.find(show_path(change.path)))
                    self._permit("write", spot)
                    if spot.path in seen:
                        raise ToolFailed(f"{spot.shown} is changed twice at once; nothing was written.")
                    seen.add(spot.path)
                    self._prepare(batch, spot, change)
                batch.commit()
        except FileMoved as error:
            raise ToolFailed(f"Nothing was written: {error}. Read it again.") from error
        except OSError as error:
            problem = explain(error, "The change")
            if batch.stranded:
                problem += f" These files could not be put back: {', '.join(batch.stranded)}."
            raise ToolFailed(f"Nothing was written. {problem}") from error

    def check_run(self, command: str) -> None:
        """ToolDenied if a guard objects to a shell command."""
        self._ask(Access("run", command))

    def _prepare(self, batch: Batch, spot: Spot, change: FileChange) -> None:
        current, old = self._current(spot)
        if current != change.before:
            if current is None:
                raise ToolFailed(f"{spot.shown} no longer exists; nothing was written.")
            if change.before is None:
                raise ToolFailed(f"{spot.shown} exists already; nothing was written. Read it first.")
            raise ToolFailed(
                f"{spot.shown} has changed since it was read; nothing was written. Read it again."
            )
        if change.after == change.before:
            return
        self._cache.forget(spot.path)
        if change.after is not None:
            directory = batch.make_directories(spot.directory, spot.missing)
            batch.write(spot.shown, directory, spot.name, change.after, mode=change.mode, old=old)
        elif old is not None:
            batch.delete(spot.shown, spot.directory, spot.name, old)

    def _current(self, spot: Spot) -> tuple[bytes | None, os.stat_result | None]:
        """The content on disk, past all caches, and the status that goes with it."""
        try:
            descriptor, _ = spot.open_file()
        except FileNotFoundError:
            return None, None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
            return data, os.fstat(file.fileno())

    def _read_open(self, spot: Spot, descriptor: int, status: os.stat_result) -> File:
        mark = fingerprint(status)
        kept = self._cache.get(spot.path, mark)
        if kept is not None:
            return kept
        data = b""
        if status.st_size <= self.max_bytes:
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = stream.read(self.max_bytes + 1)
        if max(status.st_size, len(data)) > self.max_bytes:
            raise ToolFailed(
                f"{spot.shown} is too large to read ({max(status.st_size, len(data)):,} bytes, the limit is"
                f" {self.max_bytes:,}). Search in it, or see a part with a command such as sed -n '1,100p'."
            )
        file = File(spot.path, data, stat.S_IMODE(status.st_mode))
        if fingerprint(os.fstat(descriptor)) == mark:
            self._cache.put(file, mark)
        return file

    def _permit(self, act: Act, spot: Spot) -> None:
        for target in (spot.path, *spot.aliases):
            if target:
                self._ask(Access(act, target))

    def _ask(self, access: Access) -> None:
        objection = first_objection(self.guards, access)
        if objection is None:
            return
        if isinstance(objection, Ask):
            raise ToolDenied(
                f"{objection.reason} A person would have to allow this, and nobody can be asked."
            )
        raise ToolDenied(objection.reason)

    def _may_read(self, path: str) -> bool:
        return first_objection(self.guards, Access("read", path)) is None

    def _missing(self, spot: Spot) -> ToolFailed:
        near = self._nearest(spot)
        hint = f" Did you mean {' or '.join(show_path(path) for path in near)}?" if near else ""
        return ToolFailed(f"{spot.shown} does not exist.{hint}")

    def _nearest(self, spot: Spot) -> tuple[str, ...]:
        """At most three paths that someone may have meant: near names beside it, the same name elsewhere."""
        name = spot.name.casefold()
        folder = spot.path.rpartition("/")[0]
        by_name: dict[str, list[str]] = {}
        beside: dict[str, str] = {}
        known: set[str] = set()
        for path in islice(walk_files(self._tree, "", self._may_read), _SUGGESTION_FILES):
            while path and path not in known:  # the file, then the directories it is in
                known.add(path)
                own_folder, _, own = path.rpartition("/")
                by_name.setdefault(own.casefold(), []).append(path)
                if own_folder == folder:
                    beside[own.casefold()] = path
                path = own_folder
        near = [beside[match] for match in difflib.get_close_matches(name, beside, 2, 0.6)]
        near += by_name.get(name, [])
        if not near:
            near = [by_name[match][0] for match in difflib.get_close_matches(name, by_name, 2, 0.8)]
        return tuple(dict.fromkeys(near))[:3]


def _entry(entry: "os.DirEntry[str]") -> Entry:
    kind: EntryKind
    if entry.is_symlink():
        kind = "symlink"
    elif entry.is_dir(follow_symlinks=False):
        kind = "dir"
    elif entry.is_file(follow_symlinks=False):
        return Entry(entry.name, "file", entry.stat(follow_symlinks=False).st_size)
    else:
        kind = "other"
    return Entry(entry.name, kind)
