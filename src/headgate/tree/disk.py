"""The repository on disk: `ConfinedTree` finds paths, guards judge accesses, a `WriteBatch` writes."""

import difflib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

from headgate.core import Access, Act, Ask, Denial, Guard, show_path
from headgate.errors import ToolDenied, ToolFailed
from headgate.file_stamps import Stamp, stamp_of
from headgate.regular_files import TEMPORARY
from headgate.tree.ignore import RESERVED, FileList, InternalFiles
from headgate.tree.paths import ConfinedTree, Spot, explain
from headgate.tree.workspace import (
    DirectoryEntry,
    EntryKind,
    File,
    FileChange,
    OverlayLayer,
    ancestors,
    check_name,
)
from headgate.tree.writes import FileMoved, WriteBatch

DEFAULT_MAX_BYTES = 10_000_000
_SUGGESTION_FILES = 20_000


class DiskWorkspace:
    """A Workspace over a directory. Methods may be called from several threads at once."""

    def __init__(
        self,
        root: Path,
        guards: Sequence[Guard] = (),
        max_bytes: int = DEFAULT_MAX_BYTES,
        approve: Callable[[Access], str] = lambda access: "Only a person can allow this.",
        verdicts: Callable[[], object] = lambda: None,
    ) -> None:
        """`verdicts` tells of what, besides the path, it depends whether the guards let a file be read."""
        self.tree = ConfinedTree(root)
        self.root = self.tree.root
        self.guards: tuple[Guard, ...] = (InternalFiles(), *guards)
        self.max_bytes = max_bytes
        self.approve = approve
        """Asks a person about what a guard leaves to one: returns why it is refused, if it is. Blocks."""
        self._files = FileList(self.tree, self.may_read, verdicts)
        self._writing = Lock()

    def locate(self, path: str) -> str:
        """The canonical form of a path, which need not exist."""
        with self.tree.find(path) as spot:
            return spot.path

    def read(self, path: str) -> File:
        """A regular file of at most `max_bytes`."""
        with self.find(path, "read", self.tree) as spot:
            try:
                return self.read_spot(spot)
            except FileNotFoundError:
                raise self.missing(spot, self.tree) from None

    def exists(self, path: str) -> bool:
        """Whether there is anything under this name."""
        with self.find(path, "read", self.tree) as spot:
            return spot.status() is not None

    def list(self, path: str = "") -> list[DirectoryEntry]:
        """A directory's entries, sorted by name."""
        with self.find(path, "read", self.tree) as spot:
            try:
                return sort_entries(self.scan_spot(spot))
            except FileNotFoundError:
                raise self.missing(spot, self.tree) from None

    def files(self, under: str = "") -> Iterator[str]:
        """Every file below a directory that is neither ignored nor denied, sorted by path."""
        with self.find(under, "read", self.tree) as spot:
            try:
                os.close(spot.open_directory())
            except FileNotFoundError:
                raise self.missing(spot, self.tree) from None
        return iter(self._files.below(spot.path))

    def joined(self, paths: Sequence[str]) -> Sequence[str]:
        """See FileList."""
        return self._files.joined(paths)

    def stamp(self, path: str) -> Stamp | None:
        """What changes whenever the content of a regular file does; None for all else."""
        try:
            status = os.lstat(f"{self.root}/{path}")
        except (OSError, ValueError):
            return None
        return stamp_of(status) if stat.S_ISREG(status.st_mode) else None

    def apply(self, changes: Sequence[FileChange]) -> None:
        """Writes all of the changes or none."""
        batch = WriteBatch()
        gone: dict[str, None] = {}
        replaced: dict[str, int] = {}
        try:
            with self._writing, ExitStack() as open_spots, batch:
                for spot, change in self.spots(changes, open_spots, lambda: OverlayLayer(dict(gone))):
                    current, old = self.current(spot)
                    check_before(spot, current, change.before)
                    mode = None if old is None else stat.S_IMODE(old.st_mode)
                    if not changes_anything(change, mode):
                        continue
                    if change.after is not None:
                        directory = _make_room(batch, spot, gone, replaced)
                        name, exact = spot.name, change.mode
                        batch.write(spot.shown, directory, name, change.after, old=old, exact_mode=exact)
                    elif old is not None:
                        batch.delete(spot.shown, spot.directory, spot.name, old)
                        gone[spot.path] = None
                batch.commit()
        except FileMoved as error:
            raise ToolFailed(f"Nothing was written: {error}. Read it again.") from error
        except OSError as error:
            problem = explain(error, "The change")
            if batch.stranded:
                problem += f" These files could not be restored: {', '.join(batch.stranded)}."
            raise ToolFailed(f"Nothing was written. {problem}") from error

    def check_run(self, command: str) -> None:
        """ToolDenied if a guard objects to a shell command."""
        self._ask(Access("run", command))

    @contextmanager
    def find(
        self, path: str, act: Act, tree: ConfinedTree, change: FileChange | None = None
    ) -> Iterator[Spot]:
        """The spot that a path names in this tree, which a layer may cover, if no guard objects."""
        before, after = (change.before, change.after) if change else (None, None)
        with tree.find(path) as spot:
            for target in (spot.path, *spot.aliases):
                if target:
                    self._ask(Access(act, target, before, after))
            yield spot

    def spots(
        self, changes: Sequence[FileChange], open_spots: ExitStack, layer: Callable[[], OverlayLayer]
    ) -> Iterator[tuple[Spot, FileChange]]:
        """Where each change goes, if it may: deletions first, so that a directory can follow a file."""
        seen: set[str] = set()
        written: set[str] = set()
        folders: set[str] = set()
        for change in sorted(changes, key=lambda change: change.after is not None):
            tree = self.tree.under(layer())
            spot = open_spots.enter_context(self.find(show_path(change.path), "write", tree, change))
            if spot.path in seen:
                raise ToolFailed(f"{spot.shown} is changed twice at once; nothing was written.")
            seen.add(spot.path)
            if change.after is not None:
                _require_names(spot)
                written.add(spot.path)
                folders.update(ancestors(spot.path))
                if both := written & folders:
                    raise ToolFailed(
                        f"{show_path(min(both))} cannot be a file and a directory; nothing was written."
                    )
            yield spot, change

    def read_spot(self, spot: Spot) -> File:
        """A file on disk. FileNotFoundError if nothing is there."""
        descriptor, status = spot.open_file()
        try:
            with os.fdopen(descriptor, "rb") as stream:
                self.check_size(spot, status.st_size)
                data = stream.read(self.max_bytes + 1)
        except OSError as error:
            raise ToolFailed(explain(error, spot.shown)) from error
        self.check_size(spot, len(data))
        return File(spot.path, data, stat.S_IMODE(status.st_mode))

    def scan_spot(self, spot: Spot) -> Iterable[DirectoryEntry]:
        """The entries of a directory on disk. FileNotFoundError if nothing is there."""
        descriptor = spot.open_directory()
        try:
            with os.scandir(descriptor) as scan:
                return [_entry(entry) for entry in scan]
        except OSError as error:
            raise ToolFailed(explain(error, spot.shown)) from error
        finally:
            os.close(descriptor)

    def current(self, spot: Spot) -> tuple[bytes | None, os.stat_result | None]:
        """The content on disk, past all caches, and the status that goes with it."""
        try:
            descriptor, _ = spot.open_file()
        except FileNotFoundError:
            return None, None
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
            return data, os.fstat(file.fileno())

    def check_size(self, spot: Spot, size: int) -> None:
        """ToolFailed if a file is too large to be read."""
        if size > self.max_bytes:
            raise ToolFailed(
                f"{spot.shown} is too large to read ({size:,} bytes, the limit is"
                f" {self.max_bytes:,}). Search in it, or see a part with a command such as sed -n '1,100p'."
            )

    def _ask(self, access: Access) -> None:
        """Asks every guard. ToolDenied if one objects: here a forbidden read, write or command is refused."""
        objection = _first_objection(self.guards, access)
        if objection is None:
            return
        reason = self.approve(access) if isinstance(objection, Ask) else objection.reason
        if reason:
            raise ToolDenied(reason)

    def may_read(self, path: str) -> bool:
        """Whether no guard objects to reading a canonical path."""
        return _first_objection(self.guards, Access("read", path)) is None

    def may_write(self, path: str) -> bool:
        """Whether no guard objects to writing a canonical path."""
        return not isinstance(_first_objection(self.guards, Access("write", path)), Denial)

    def missing(self, spot: Spot, tree: ConfinedTree) -> ToolFailed:
        """What to say of a path that is not there, with paths of the tree that may have been meant."""
        near = self._nearest(spot, tree)
        hint = f" Did you mean {' or '.join(show_path(path) for path in near)}?" if near else ""
        return ToolFailed(f"{spot.shown} does not exist.{hint}")

    def _nearest(self, spot: Spot, tree: ConfinedTree) -> tuple[str, ...]:
        """At most three paths that someone may have meant: near names beside it, the same name elsewhere."""
        name = spot.name.casefold()
        folder = spot.path.rpartition("/")[0]
        by_name: dict[str, list[str]] = {}
        beside: dict[str, str] = {}
        known: set[str] = set()
        files = self._files if tree is self.tree else FileList(tree, self.may_read)
        for path in files.below("")[:_SUGGESTION_FILES]:
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


def check_before(spot: Spot, current: bytes | None, before: bytes | None) -> None:
    """ToolFailed if a file is not as whoever planned the change had read it."""
    if current == before:
        return
    if current is None:
        raise ToolFailed(f"{spot.shown} no longer exists; nothing was written.")
    if before is None:
        raise ToolFailed(f"{spot.shown} already exists; nothing was written. Read it first.")
    raise ToolFailed(f"{spot.shown} has changed since it was read; nothing was written. Read it again.")


def changes_anything(change: FileChange, mode: int | None) -> bool:
    """Whether a change, to a file of this mode if there is one, leaves anything different."""
    if change.before != change.after:
        return True
    return change.after is not None and change.mode not in (None, mode)


def sort_entries(entries: Iterable[DirectoryEntry]) -> list[DirectoryEntry]:
    """A listing as tools see it: by name, without what is internal or not in place yet."""
    shown = (
        entry
        for entry in entries
        if entry.name.lower() not in RESERVED and not entry.name.startswith(TEMPORARY)
    )
    return sorted(shown, key=lambda entry: entry.name)


def _require_names(spot: Spot) -> None:
    try:
        for name in (*spot.missing, spot.name):
            check_name(name)
    except OSError as error:
        raise ToolFailed(explain(error, spot.shown)) from error


def _make_room(batch: WriteBatch, spot: Spot, gone: Mapping[str, None], replaced: dict[str, int]) -> int:
    """The directory that a file goes to, made where it is missing or a file that the batch deletes."""
    top = next((path for path in ancestors(spot.path) if path in gone), None)
    if top is None:
        return batch.make_directories(spot.directory, spot.missing)
    if top not in replaced:
        replaced[top] = batch.replace_by_directory(show_path(top), spot.directory, spot.missing[0])
    return batch.make_directories(replaced[top], spot.missing[1:])


def _entry(entry: "os.DirEntry[str]") -> DirectoryEntry:
    kind: EntryKind
    if entry.is_symlink():
        kind = "symlink"
    elif entry.is_dir(follow_symlinks=False):
        kind = "dir"
    elif entry.is_file(follow_symlinks=False):
        return DirectoryEntry(entry.name, "file", entry.stat(follow_symlinks=False).st_size)
    else:
        kind = "other"
    return DirectoryEntry(entry.name, kind)


def _first_objection(guards: Sequence[Guard], access: Access) -> Denial | Ask | None:
    """The first guard's objection, a denial before a question."""
    asked: Ask | None = None
    for guard in guards:
        match guard(access):
            case Denial() as denial:
                return denial
            case Ask() as ask:
                asked = asked or ask
            case None:
                pass
    return asked
