"""The files of the working tree that belong to a snapshot, read without git."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Protocol

from headgate.core import OWN_FOLDER, show_path
from headgate.file_stamps import Stamp, is_settled, mode_of, stamp_of
from headgate.first_use import dataclass
from headgate.reading import word_set
from headgate.regular_files import remove_tree
from headgate.tree.git_files import commit_of, is_repository
from headgate.tree.git_repository import GitFailed
from headgate.tree.ignore import IgnoredPaths, is_ignored_now
from headgate.tree.objects import NESTED, Entry, differing, object_name
from headgate.tree.paths import ConfinedTree, is_too_deep
from headgate.tree.workspace import ancestors

LARGE = 20_000_000
MOST_NEW = 1_000
"""New files that a snapshot after the first reads. Nobody reviews more, and to keep them takes too long."""
_LINK = "120000"
PRIVILEGES = stat.S_ISUID | stat.S_ISGID
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_READ_TRIES = 3
# Folders of what tools install, build or cache. They may be ignored from the moment they are made.
_MADE_BY_TOOLS = word_set(
    """
    node_modules bower_components .venv venv .tox .nox .eggs .yarn .gradle .next .nuxt .turbo .dart_tool
    .stack-work target build dist out obj _build coverage htmlcov dist-newstyle
    __pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis
    """
)

_WITHIN = "\0"
"""Before the paths of folders in submodules: what was only hashed is not stored."""
COVERED = "\1"
"""Before the paths of folders that only a rule makes part of a snapshot."""
MARKERS = ("", _WITHIN, COVERED)
_OWNER_MAY_ALL = 0o700


class Covering(Protocol):
    """Which files belong to a snapshot although git ignores them, or another repository has them."""

    def covers(self, path: str) -> bool:
        """Whether a file does."""
        ...

    def enters(self, directory: str) -> bool:
        """Whether there may be such a file below a directory."""
        ...


class SnapshotRules:
    """What decides which files belong to a snapshot, as it was when the task began."""

    def __init__(
        self,
        ignored: IgnoredPaths,
        tracked: Iterable[str],
        nested: Iterable[str],
        outputs: frozenset[str] = frozenset(),
    ) -> None:
        self.ignored = ignored
        self.outputs = outputs
        """The untracked files that Headgate's own output goes to: they grow, and nobody works on them."""
        self.tracked = frozenset(tracked)
        folders = {path.rpartition("/")[0] for path in self.tracked} - {""}
        self.leading = frozenset(folders.union(*map(ancestors, folders)))
        self.submodules = frozenset(nested)
        self.nested = set(self.submodules)
        self.privileged: set[str] = set()
        """The files that ran with the rights of their owner or group when the task began."""
        self.unread: set[str] = set()
        """The files of which only a mark is kept, because too many came at once."""
        self.folders: dict[str, int] = {}
        """The modes of folders when the task began."""


@dataclass(slots=True, eq=False)
class SeenFolder:
    """A folder as a walk found it. It need not be read again while it and its files have these stamps."""

    stamp: Stamp
    """Empty if it, or a file in it, may change without that showing."""
    covering: Covering | None
    folders: list[str] = field(default_factory=list)
    """The names of the folders in it."""
    names: list[str] = field(default_factory=list)
    stamps: list[Stamp] = field(default_factory=list)
    """Of the files of these names."""
    known: dict[str, tuple[Stamp, Entry]] = field(default_factory=dict)
    """What was read of files that do not change without that showing."""
    found: dict[str, Entry] = field(default_factory=dict)
    """Every file that belongs to a snapshot."""
    within: dict[str, Entry] = field(default_factory=dict)
    """The files of submodules: a git tree has only their commits."""
    covered: dict[str, Entry] = field(default_factory=dict)
    """The files that only a rule makes part of a snapshot."""
    modes: dict[str, int] = field(default_factory=dict)
    """The modes of all these files, if a rule asked for them. Stamps have those of known files, too."""
    is_whole: bool = False
    """Whether a rule can cover nothing more: it has no other files, and is in no submodule."""
    marked: set[str] = field(default_factory=set)
    """The files of which only a mark is kept: it changes when they do."""

    def place_of(self, marker: str) -> dict[str, Entry]:
        """Where the files of a folder with this marker are listed."""
        return {"": self.found, _WITHIN: self.within, COVERED: self.covered}[marker]

    def is_as_before(self, descriptor: int, covering: Covering | None) -> bool:
        """Whether nothing in it has changed; `descriptor` is of the folder as it is now."""
        if not self.stamp or self.stamp != stamp_of(os.fstat(descriptor)):
            return False
        if covering is not None and covering is not self.covering and not self.is_whole:
            return False  # a rule may cover what was left out
        try:  # as few steps for a file as Python allows: there may be 100,000 of them
            return self.stamps == [
                stamp_of(os.stat(name, dir_fd=descriptor, follow_symlinks=False)) for name in self.names
            ]
        except OSError:
            return False  # one is gone


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The working tree at one moment."""

    tree: str
    """The name of its git tree."""
    recorded: dict[str, Entry]
    """What that tree has."""
    entries: Mapping[str, Entry]
    """Every file, also those that only a rule covers."""
    covering: Covering | None
    folders: dict[str, SeenFolder]
    nested: dict[str, Entry]

    def mode_of(self, path: str) -> int | None:
        """The mode of a file, if a rule asked for modes; None if it is not there."""
        folder = path.rpartition("/")[0]
        seen = [one for marker in MARKERS if (one := self.folders.get(marker + folder))]
        noted = (one.modes[path] for one in seen if path in one.modes)
        return next(noted, next((mode_of(one.known[path][0]) for one in seen if path in one.known), None))

    def changed_since(self, before: "Snapshot") -> set[str]:
        """The files that are not as they were, by content or by mode. Both are of the same rules."""
        found = differing(before.nested, self.nested)
        for old, new in changed_folders(before.folders, self.folders):
            found |= differing(old.found, new.found) | differing(old.within, new.within)
            found |= differing(old.covered, new.covered) | differing(old.modes, new.modes)
        return found


def changed_folders(
    before: Mapping[str, SeenFolder], now: Mapping[str, SeenFolder]
) -> list[tuple[SeenFolder, SeenFolder]]:
    """The folders that were read again, each as it was and as it is."""
    none = SeenFolder((), None)
    changed = [(before.get(key, none), one) for key, one in now.items() if before.get(key) is not one]
    return changed + [(one, none) for key, one in before.items() if key not in now]


class TreeWalk:
    """One walk through the working tree. Each folder is opened without following a link, as are files."""

    def __init__(
        self,
        tree: ConfinedTree,
        rules: SnapshotRules,
        before: Mapping[str, SeenFolder],
        store: Callable[[bytes], str],
        hidden: Callable[[str], bool],
        name_length: int,
        is_first: bool,
        cleans: bool,
        covering: Covering | None = None,
    ) -> None:
        """`before`: what the walk before this one has `seen`.

        `cleans`: what a command left in the way is put right, such as locked folders.
        """
        self._tree, self._rules, self._before, self._store = tree, rules, before, store
        self._hidden = hidden
        self._name_length, self._is_first, self._cleans = name_length, is_first, cleans
        self._covering = covering
        self._now = time.time_ns()
        self._read_so_far = 0
        self.seen: dict[str, SeenFolder] = {}
        """Every folder, by its marker and path."""
        self.nested: dict[str, Entry] = {}
        """The commits of repositories within the repository."""
        self.count = 0
        """How many paths it has found so far."""
        self.files_read = 0
        self.stripped: set[str] = set()
        """The files that would have run with the rights of their owner or group for whoever starts them."""

    def run(self) -> None:
        """Looks at every path that belongs to a snapshot."""
        self._open_up(self._tree.root, "")
        with _leaving_out_what_is_gone():
            self._walk(self._tree.open_directory(""), "", "", is_ignored=False)

    def _walk(self, descriptor: int, folder: str, marker: str, *, is_ignored: bool) -> None:
        """Walks an open folder, and closes it."""
        try:
            before = self._before.get(marker + folder)
            if before is None or not before.is_as_before(descriptor, self._covering):
                before = self._list(descriptor, folder, marker, is_ignored, before)
            self.seen[marker + folder] = before
            self.count += len(before.found)
            for name in before.folders:
                path = f"{folder}/{name}" if folder else name
                below, ignored = self._enter(path, name, marker, is_ignored)
                if below is None:
                    continue
                if is_too_deep(path):
                    self._refuse(descriptor, path, name)
                    continue
                with _leaving_out_what_is_gone():
                    self._walk(self._open(descriptor, path, name), path, below, is_ignored=ignored)
        finally:
            os.close(descriptor)

    def _refuse(self, directory: int, path: str, name: str) -> None:
        """A folder lies too deep: what a command made is removed."""
        if self._is_first or not self._cleans:
            raise GitFailed(
                f"{show_path(path)[:100]}... has too many folders in each other: remove them, or add "
                "the outermost to .gitignore."
            )
        with suppress(OSError):
            remove_tree(name, directory)

    def _open(self, directory: int, path: str, name: str) -> int:
        self._open_up(name, path, directory)
        return os.open(name, _LIST, dir_fd=directory)

    def _open_up(self, name: str | Path, path: str, directory: int | None = None) -> None:
        """Gives a folder that a command has locked the rights of its owner back."""
        mode = stat.S_IMODE(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        if self._is_first:
            self._rules.folders[path] = mode
        before = self._rules.folders.get(path, _OWNER_MAY_ALL | mode)
        if self._cleans and before & ~mode & _OWNER_MAY_ALL:
            os.chmod(name, before, dir_fd=directory)

    def _list(
        self, descriptor: int, folder: str, marker: str, is_ignored: bool, before: SeenFolder | None
    ) -> SeenFolder:
        """What is in a folder. Of files that are as they were, nothing is read."""
        stamp = stamp_of(os.fstat(descriptor))
        seen = SeenFolder(stamp if is_settled(stamp, self._now) else (), self._covering)
        prefix = f"{folder}/" if folder else ""
        known = before.known if before else {}
        files = 0
        with os.scandir(descriptor) as scan:
            for entry in scan:
                path = prefix + entry.name
                was, place = known.get(path), None
                if was is not None and before is not None:
                    place = COVERED if path in before.covered else marker
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue  # gone: that is a change
                    if was[0] == stamp_of(status) and (place == marker or self._covering):
                        self._note(seen, place, path, entry.name, status.st_mode, *was)
                        files += 1
                        continue
                if entry.name == ".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    seen.folders.append(entry.name)
                    continue
                files += 1
                if path == OWN_FOLDER:
                    continue
                if marker != COVERED and (
                    path in self._rules.tracked
                    or not (is_ignored or self._ignores_file(path, is_known=not marker and place == ""))
                ):
                    self._note_file(seen, descriptor, path, entry.name, marker, is_known=place == marker)
                elif self._covering and self._covering.covers(path):
                    self._note_file(seen, descriptor, path, entry.name, COVERED, is_known=place == COVERED)
        seen.is_whole = not marker and files == len(seen.names)
        return seen

    def _note(
        self, seen: SeenFolder, marker: str, path: str, name: str, mode: int, stamp: Stamp, entry: Entry
    ) -> None:
        """Notes what a file holds. `stamp` is empty if the file may change without that showing."""
        seen.place_of(marker)[path] = entry
        if self._covering:
            seen.modes[path] = mode
        if entry[0] == NESTED:
            seen.marked.add(path)
        if stamp:
            seen.known[path] = stamp, entry
            seen.names.append(name)
            seen.stamps.append(stamp)
        else:
            seen.stamp = ()

    def _enter(self, path: str, name: str, marker: str, is_ignored: bool) -> tuple[str | None, bool]:
        """As what the files of a folder count (None: it is not walked), and whether git ignores it."""
        if path == OWN_FOLDER:
            return (COVERED if self._covering and self._covering.enters(path) else None), True
        ignored = is_ignored or self._ignores(path, name)
        rules = self._rules
        if marker != COVERED and (not ignored or path in rules.leading or path in rules.submodules):
            is_nested = not marker and self._note_repository(path)
            if not is_nested or path in rules.submodules:
                return (_WITHIN if is_nested else marker), ignored
        return (COVERED if self._covering and self._covering.enters(path) else None), True

    def _ignores(self, path: str, name: str) -> bool:
        if self._rules.ignored.directory(path):
            return True
        if self._is_first or name not in _MADE_BY_TOOLS or path in self._rules.leading:
            return False
        return is_ignored_now(self._tree, path)

    def _ignores_file(self, path: str, *, is_known: bool) -> bool:
        return path in self._rules.outputs or (not is_known and self._rules.ignored.file(path))

    def _note_repository(self, path: str) -> bool:
        """Notes the commit of a repository within the repository; False for any other folder."""
        if path in self._rules.leading or not (self._is_first or path in self._rules.nested):
            return False
        place = self._tree.root / path
        if not os.path.lexists(place / ".git"):
            if path not in self._rules.nested or any(place.iterdir()):
                return False
        elif not is_repository(place):
            return False
        self._rules.nested.add(path)
        self.nested[path] = (NESTED, commit_of(place) or "1" * self._name_length)
        return True

    def _note_file(
        self, seen: SeenFolder, directory: int, path: str, name: str, marker: str, *, is_known: bool
    ) -> None:
        is_kept = marker != _WITHIN or (self._covering is not None and self._covering.covers(path))
        store = self._store if is_kept else self._name
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_mode & PRIVILEGES and marker != COVERED:
                status = self._strip(directory, name, path, status)
            if stat.S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=directory))
                entry, stamp = (_LINK, store(target)), stamp_of(status)
            elif stat.S_ISREG(status.st_mode):
                is_marked = self._is_one_too_many(path, is_known=is_known) or self._hidden(path)
                entry, stamp = self._read(directory, name, store, is_marked=is_marked)
            else:
                return
        except OSError:
            seen.stamp = ()
            return  # gone, or made unreadable: that is a change
        is_lasting = entry[0] != NESTED or path in self._rules.unread
        kept = stamp if is_lasting and is_settled(stamp, self._now) else ()
        self._note(seen, marker, path, name, status.st_mode, kept, entry)

    def _is_one_too_many(self, path: str, *, is_known: bool) -> bool:
        unread, is_old = self._rules.unread, path in self._rules.tracked or is_known
        if not (self._is_first or is_old or path in unread):
            self._read_so_far += 1
            if self._read_so_far > MOST_NEW:
                unread.add(path)
        return path in unread

    def _strip(self, directory: int, name: str, path: str, status: os.stat_result) -> os.stat_result:
        """Takes the setuid and setgid bits from a file that got them during the task."""
        if self._is_first:
            self._rules.privileged.add(path)
        if not self._cleans or path in self._rules.privileged:
            return status
        os.chmod(name, stat.S_IMODE(status.st_mode) & ~PRIVILEGES, dir_fd=directory)
        self.stripped.add(path)
        return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def _name(self, data: bytes) -> str:
        return object_name("blob", data, self._name_length)

    def _read(
        self, directory: int, name: str, store: Callable[[bytes], str], *, is_marked: bool
    ) -> tuple[Entry, Stamp]:
        with os.fdopen(os.open(name, _READ, dir_fd=directory), "rb") as file:
            for _ in range(_READ_TRIES):  # somebody may be writing it just now
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise OSError(errno.EINVAL, "no regular file", name)
                file.seek(0)
                is_marked = is_marked or status.st_size > LARGE
                data = b"" if is_marked else file.read(status.st_size + 1)
                self.files_read += not is_marked
                if stamp_of(os.fstat(file.fileno())) == stamp_of(status):
                    break
        if is_marked:
            mark = repr((status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode()
            return (NESTED, self._name(mark)), stamp_of(status)
        mode = "100755" if status.st_mode & 0o100 else "100644"
        return (mode, store(data)), stamp_of(status)


@contextmanager
def _leaving_out_what_is_gone() -> Iterator[None]:
    """A folder that is gone, or made unreadable: what was in it counts as gone."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise GitFailed(
                "Too many files are open at once to look at the tree: raise ulimit -n."
            ) from error
