"""Snapshots: what the working tree holds, as git trees in an object folder of our own.

The files are listed and hashed here and not by git, so that no attribute, setting, index or filter decides
what counts as changed. What is ignored is decided once, when a task begins: an ignore file or a repository
that a command makes later hides nothing. The user's index, refs and objects are not touched.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from headgate.core import OWN_FOLDER, show_path
from headgate.workspace.git_repository import (
    GitFailed,
    common_folder,
    git,
    git_folder,
    read_regular,
    run_git,
    safe_folder,
)
from headgate.workspace.ignore import MAX_IGNORE_FILE, IgnoredPaths, is_ignored_now
from headgate.workspace.objects import NESTED, Entry, ObjectFolder, object_name
from headgate.workspace.paths import MOST_DEEP, ConfinedTree
from headgate.workspace.workspace import ancestors

LARGE = 20_000_000
_LINK = "120000"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_COARSEST_CLOCK = 2_000_000_000
_READ_TRIES = 3
_MOST_REMEMBERED = 8
_MOST_PACKED_REFS = 50_000_000
# Folders of what tools install, build or cache. They may be ignored from the moment they are made.
_MADE_BY_TOOLS = frozenset(
    [
        "node_modules",
        "bower_components",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".eggs",
        ".yarn",
        ".gradle",
        ".next",
        ".nuxt",
        ".turbo",
        ".dart_tool",
        ".stack-work",
        "target",
        "build",
        "dist",
        "out",
        "obj",
        "_build",
        "coverage",
        "htmlcov",
        "dist-newstyle",
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".hypothesis",
    ]
)

Stamp = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A path in two trees: its mode and its blob in each, None where it is not there."""

    path: str
    before: Entry | None
    after: Entry | None

    @classmethod
    def of(cls, row: bytes, path: str) -> "Difference":
        """From a line such as `:100644 100755 OLD NEW M`."""
        old_mode, new_mode, old, new = row.decode()[1:].split()[:4]
        before = (old_mode, old) if old.strip("0") else None
        return cls(path, before, (new_mode, new) if new.strip("0") else None)

    @property
    def is_plain(self) -> bool:
        """Whether it is an ordinary file wherever it is there."""
        return all(side is None or side[0].startswith("100") for side in (self.before, self.after))


class _Start:
    """What decides which files belong to a snapshot, as it was when the task began."""

    def __init__(self, ignored: IgnoredPaths, tracked: Iterable[str], nested: Iterable[str]) -> None:
        self.ignored = ignored
        self.tracked = frozenset(tracked)
        self.leading = frozenset(folder for path in self.tracked for folder in ancestors(path))
        self.nested = set(nested)


class Snapshots:
    """Trees of a repository, untracked files included, ignored ones not; of very large ones only a mark.

    One at a time: a cancelled task may ask again while one is still taken. Only the holder of the
    repository's lock may take one; who only reads takes them `apart`.
    """

    def __init__(self, repo: Path) -> None:
        self.repo = repo
        self.large: frozenset[str] = frozenset()
        """The files of the last snapshot that are too large for it: it has only a mark for each."""
        self._one_at_a_time = Lock()
        self._folder = safe_folder(repo) / "objects"
        self._files = ConfinedTree(repo)
        self._first_tree = ""
        self._start: _Start | None = None
        self._existing: set[str] = set()
        self._known: dict[str, tuple[Stamp, Entry]] = {}
        self._trees: dict[str, dict[str, Entry]] = {}

    @classmethod
    @contextmanager
    def apart(cls, repo: Path) -> "Iterator[Snapshots]":
        """Snapshots for a process beside the one that works: all that they write is gone with the block."""
        with TemporaryDirectory(prefix="headgate-") as folder:
            snapshots = cls(repo)
            snapshots._folder = Path(folder)
            yield snapshots

    def go_on_from(self, tree: str) -> None:
        """Takes what is ignored, and what is another repository, from the tree of a task's start."""
        self._first_tree = tree

    def take(self) -> str:
        """Records the working tree as it is and returns the tree's name."""
        with self._one_at_a_time:
            is_first = self._start is None and not self._first_tree
            start = self._start or (self._recall(self._first_tree) if self._first_tree else self._begin())
            entries = _Walk(self, start, is_first).run()
            self._start = start
            for tree, known in self._trees.items():
                if known == entries:
                    return tree
            return self._remember(entries)

    def _begin(self) -> _Start:
        rows = [row.partition(b"\t") for row in git(self.repo, "ls-files", "-s", "-z").split(b"\0") if row]
        tracked = {os.fsdecode(path): entry.decode().split()[:2] for entry, _, path in rows}
        # What the repository has need not be stored again.
        self._existing = self.objects.find(name for mode, name in tracked.values() if mode != NESTED)
        ignored = IgnoredPaths(self.repo, of_user=_ignored_by_user(self.repo))
        files = (path for path, (mode, _) in tracked.items() if mode != NESTED)
        return _Start(ignored, files, (path for path, (mode, _) in tracked.items() if mode == NESTED))

    def _recall(self, tree: str) -> _Start:
        entries = self.entries(tree)
        recorded = {
            path.rpartition("/")[0]: name
            for path, (mode, name) in entries.items()
            if path.rpartition("/")[2] == ".gitignore" and mode.startswith("100")
        }
        contents = self.contents(recorded.values())
        texts = {
            folder: contents[name][:MAX_IGNORE_FILE].decode("utf-8", "surrogateescape")
            for folder, name in recorded.items()
            if name in contents
        }
        self._existing = {name for mode, name in entries.values() if mode != NESTED}
        ignored = IgnoredPaths(self.repo, recorded=texts, of_user=_ignored_by_user(self.repo))
        nested = [path for path, (mode, _) in entries.items() if mode == NESTED]
        return _Start(ignored, (path for path, (mode, _) in entries.items() if mode != NESTED), nested)

    def _remember(self, entries: dict[str, Entry]) -> str:
        tree = self.objects.write_tree(entries)
        self.objects.flush()
        self._trees[tree] = entries
        while len(self._trees) > _MOST_REMEMBERED:
            del self._trees[next(iter(self._trees))]
        return tree

    def entries(self, tree: str) -> dict[str, Entry]:
        """Every path in a tree, with its mode and object."""
        if tree not in self._trees:
            self._trees[tree] = self.objects.read_tree(tree)
        return self._trees[tree]

    def tree_with(self, tree: str, files: Mapping[str, tuple[bytes, int] | None]) -> str:
        """The name of a tree: another one with these files, given as content and mode, or None for none.

        A tree has either a folder of one name, or a file or another repository: what is in the way of these
        files is left out.
        """
        entries = dict(self.entries(tree))
        for path, given in files.items():
            entries.pop(path, None)
            for folder in ancestors(path):
                if given is not None or entries.get(folder, ("",))[0] == NESTED:
                    entries.pop(folder, None)
            if given is not None:
                mode = "100755" if given[1] & 0o100 else "100644"
                entries[path] = (mode, self.objects.write("blob", given[0]))
        return self._remember(entries)

    def files(self, tree: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The paths in a tree: of files and links, and of repositories within the repository."""
        entries = self.entries(tree).items()
        nested = tuple(path for path, (mode, _) in entries if mode == NESTED)
        return tuple(path for path, (mode, _) in entries if mode != NESTED), nested

    def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that differ between two trees."""
        return tuple(one.path for one in self.differences(before, after))

    def new_files(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that only the second tree has."""
        return tuple(one.path for one in self.differences(before, after) if one.before is None)

    def differences(self, before: str, after: str) -> tuple[Difference, ...]:
        """Every path that differs between two trees, with what it is in each of them."""
        if before == after:
            return ()
        old, new = self.entries(before), self.entries(after)
        paths = {path for path, _ in old.items() ^ new.items()}
        return tuple(
            Difference(path, old.get(path), new.get(path)) for path in sorted(paths, key=os.fsencode)
        )

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """The contents of blobs, by their names; those that are gone are left out."""
        return self.objects.read(blobs)

    def diff(self, before: str, after: str) -> str:
        """A git-style unified diff between two trees."""
        flags = ("--patch", "--no-color", "-M")
        return self.compare(before, after, *flags).decode("utf-8", "surrogateescape")

    def diffstat(self, before: str, after: str) -> tuple[str, ...]:
        """One line for each file that differs: the lines added and removed."""
        out = self.compare(before, after, "-z", "--no-renames", "--numstat")
        rows = [os.fsdecode(row).split("\t", 2) for row in out.split(b"\0") if row]
        return tuple(
            f"{show_path(path)}: {'binary' if added == '-' else f'+{added} -{removed}'}"
            for added, removed, path in rows
        )

    def compare(self, before: str, after: str, *flags: str) -> bytes:
        """What `git diff-tree` prints of two trees. git gets only what differs, with contents checked."""
        found = self.differences(before, after)
        sides = [side for one in found for side in (one.before, one.after) if side and side[0] != NESTED]
        contents = self.contents(name for _, name in sides)
        for _, name in sides:
            if name not in contents:
                raise GitFailed(f"The git object {name} is gone, which a diff needs: fetch it again.")
        with TemporaryDirectory(prefix="headgate-") as folder:
            objects = ObjectFolder(Path(folder), (), sha256=self.objects.sha256)
            for data in contents.values():
                objects.write("blob", data)
            old = objects.write_tree({one.path: one.before for one in found if one.before})
            new = objects.write_tree({one.path: one.after for one in found if one.after})
            objects.flush(durably=False)
            with objects.detached() as place:
                return place.git("diff-tree", "-r", "--no-ext-diff", "--no-textconv", *flags, old, new)

    @cached_property
    def objects(self) -> ObjectFolder:
        """Our own objects, and where others are: the shared ones, and the repository's."""
        told = git(self.repo, "rev-parse", "--show-object-format", "--git-path", "objects")
        form, _, place = told.rstrip(b"\n").partition(b"\n")
        shared = safe_folder(self.repo) / "objects"
        others = [self.repo / os.fsdecode(place), *([shared] if shared != self._folder else [])]
        return ObjectFolder(self._folder, others, sha256=form == b"sha256")


class _Walk:
    """One walk through the working tree. Each folder is opened without following a link, as are files."""

    def __init__(self, snapshots: Snapshots, start: _Start, is_first: bool) -> None:
        self._of, self._start, self._is_first = snapshots, start, is_first
        self._now = time.time_ns()
        self._known: dict[str, tuple[Stamp, Entry]] = {}
        self._found: dict[str, Entry] = {}
        self._large: set[str] = set()

    def run(self) -> dict[str, Entry]:
        """Every path that belongs to a snapshot."""
        pending = [("", False)]
        while pending:
            folder, is_ignored = pending.pop()
            if folder.count("/") > MOST_DEEP:
                raise GitFailed(
                    f"{show_path(folder)[:100]}... has more than {MOST_DEEP} folders in each other."
                )
            try:
                descriptor = self._of._files.open_directory(folder)
            except OSError:
                continue  # gone, or made unreadable: what was in it counts as gone
            try:
                pending += self._list(descriptor, folder, is_ignored)
            finally:
                os.close(descriptor)
        self._of._known, self._of.large = self._known, frozenset(self._large)
        return dict(sorted(self._found.items(), key=lambda item: os.fsencode(item[0])))

    def _list(self, descriptor: int, folder: str, is_ignored: bool) -> Iterator[tuple[str, bool]]:
        """Takes note of a folder's files; the folders in it that are to be walked."""
        prefix = f"{folder}/" if folder else ""
        with os.scandir(descriptor) as scan:
            for entry in scan:
                path = prefix + entry.name
                if entry.name.lower() == ".git" or path == OWN_FOLDER:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    ignored = is_ignored or self._ignores(path, entry.name)
                    if ignored and path not in self._start.leading:
                        continue
                    if not self._note_repository(descriptor, path, entry.name):
                        yield path, ignored
                elif path in self._start.tracked or not (is_ignored or self._ignores_file(path)):
                    self._note_file(descriptor, path, entry.name)

    def _ignores(self, path: str, name: str) -> bool:
        if self._start.ignored.directory(path):
            return True
        if self._is_first or name not in _MADE_BY_TOOLS or path in self._start.leading:
            return False
        return is_ignored_now(self._of._files, path)

    def _ignores_file(self, path: str) -> bool:
        return path not in self._of._known and self._start.ignored.file(path)

    def _note_repository(self, directory: int, path: str, name: str) -> bool:
        """Notes the commit of a repository within the repository; False for any other folder."""
        if path in self._start.leading or not (self._is_first or path in self._start.nested):
            return False
        place = self._of.repo / path
        length = self._of.objects.length
        if not os.path.lexists(place / ".git"):
            if path not in self._start.nested or any(place.iterdir()):
                return False
        elif not _is_repository(place):
            return False
        self._start.nested.add(path)
        self._found[path] = (NESTED, _commit_of(place, length))
        return True

    def _note_file(self, directory: int, path: str, name: str) -> None:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            known = self._of._known.get(path)
            if known is not None and known[0] == _stamp(status):
                self._known[path], self._found[path] = known, known[1]
                return
            if stat.S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=directory))
                entry, stamp = (_LINK, self._write(target)), _stamp(status)
            elif stat.S_ISREG(status.st_mode):
                entry, stamp = self._read(directory, path, name)
            else:
                return
        except OSError:
            return  # gone, or made unreadable: that is a change
        self._found[path] = entry
        if entry[0] == NESTED:
            self._large.add(path)
        elif stamp[-1] < self._now - _COARSEST_CLOCK:
            self._known[path] = (stamp, entry)

    def _read(self, directory: int, path: str, name: str) -> tuple[Entry, Stamp]:
        with os.fdopen(os.open(name, _READ, dir_fd=directory), "rb") as file:
            for _ in range(_READ_TRIES):  # somebody may be writing it just now
                status = os.fstat(file.fileno())
                file.seek(0)
                data = file.read(LARGE + 1) if status.st_size <= LARGE else b""
                if _stamp(os.fstat(file.fileno())) == _stamp(status):
                    break
        if status.st_size > LARGE or len(data) > LARGE:
            mark = repr((status.st_size, status.st_mtime_ns, status.st_ctime_ns)).encode()
            return (NESTED, object_name("blob", mark, self._of.objects.length)), _stamp(status)
        mode = "100755" if status.st_mode & 0o100 else "100644"
        return (mode, self._write(data)), _stamp(status)

    def _write(self, data: bytes) -> str:
        if self._of._existing:
            name = object_name("blob", data, self._of.objects.length)
            if name in self._of._existing:
                return name
        return self._of.objects.write("blob", data)


def _stamp(status: os.stat_result) -> Stamp:
    return (
        status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def _ignored_by_user(repo: Path) -> str:
    """The user's own ignore file, for all repositories."""
    done = run_git(repo, "config", "--global", "--includes", "--type=path", "core.excludesFile")
    default = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "ignore"
    path = repo / os.fsdecode(done.stdout).rstrip("\n") if done.stdout else default
    return read_regular(path, MAX_IGNORE_FILE).decode("utf-8", "surrogateescape")


# Repositories within the repository: git is not asked, because it would read their settings.


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").is_file() or (folder / ".git" / "HEAD").is_file()


def _commit_of(folder: Path, length: int) -> str:
    """The commit that is checked out; a fixed name if there is none."""
    own, shared = git_folder(folder), common_folder(folder)
    head = os.fsdecode(read_regular(own / "HEAD", 4096)).strip()
    for _ in range(5):  # a branch may be the name of another one
        if not head.startswith("ref:"):
            break
        name = head.removeprefix("ref:").strip()
        loose = read_regular(own / name, 4096) or read_regular(shared / name, 4096)
        head = os.fsdecode(loose).strip() or _packed(shared, name)
    is_name = len(head) == length and not head.strip("0123456789abcdef")
    return head if is_name else "1" * length


def _packed(folder: Path, name: str) -> str:
    for line in read_regular(folder / "packed-refs", _MOST_PACKED_REFS).splitlines():
        commit, _, ref = line.partition(b" ")
        if os.fsdecode(ref) == name:
            return commit.decode("ascii", "replace")
    return ""
