"""Snapshots: what the working tree holds, as git trees in an object folder of our own.

The files are listed and hashed here and not by git, so that no attribute, setting, index or filter decides
what counts as changed. What is ignored is decided once, when a task begins: an ignore file or a repository
that a command makes later hides nothing. The user's index, refs and objects are not touched.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Literal

from headgate.core import show_path
from headgate.first_use import dataclass
from headgate.regular_files import OwnFolder
from headgate.tree.git_files import Setting, read_settings, tracked_files
from headgate.tree.git_repository import GitFailed, common_folder, read_regular, safe_folder
from headgate.tree.ignore import MAX_IGNORE_FILE, IgnoredPaths
from headgate.tree.kept_files import FEWEST, keep_files, recall_files
from headgate.tree.objects import NESTED, SHA256_LENGTH, Entry, ObjectFolder, differing, object_name
from headgate.tree.paths import ConfinedTree
from headgate.tree.tree_walk import (
    COVERED,
    Covering,
    SeenFolder,
    Snapshot,
    SnapshotRules,
    TreeWalk,
    changed_folders,
)
from headgate.tree.workspace import ancestors

_MOST_REMEMBERED = 8
_MOST_COMPARED = 4
_HANDED_SECONDS = 1.0
_MANY_STORED = 500
"""Files. To store so many takes as long as to ask which of 50,000 the repository has."""
Moment = Literal["before", "after"]
"""Before a command or after it."""


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


class Snapshots:
    """Trees of a repository: untracked files included, ignored ones not, of hidden and large ones a mark.

    One at a time: a cancelled task may ask again while one is still taken. Only the holder of the
    repository's lock may take one; who only reads takes them `apart`.
    """

    def __init__(
        self, repo: Path, hidden: Callable[[str], bool] = lambda path: False, kept: Path | None = None
    ) -> None:
        """`kept` is the folder of objects that a worktree shares; by default the repository has its own."""
        self.repo = repo
        self._shared = kept or safe_folder(repo) / "objects"
        self._hidden = hidden
        self.marked: frozenset[str] = frozenset()
        """The files of the last snapshot that are hidden or too large for it: it has only a mark for each."""
        self.changed_within: tuple[str, ...] = ()
        """The files of submodules that differ from those at the first snapshot; no tree has them."""
        self.stripped: set[str] = set()
        """The files that lost their setuid or setgid bit since the first snapshot."""
        self.files_seen: Callable[[], int] = lambda: 0
        """How many files the latest snapshot has, or has found so far."""
        self.covering: Covering | None = None
        """What is also looked at around a command, although git ignores it: set by who protects it."""
        self._handed: tuple[Moment, float, Snapshot] | None = None
        self._cleans = True
        self._within: dict[str, Entry] | None = None
        self._one_at_a_time = Lock()
        self._folder = self._shared
        self._files = ConfinedTree(repo)
        self._first_tree = ""
        self._start: SnapshotRules | None = None
        self._existing: set[str] = set()
        self._perhaps: list[str] = []
        """Objects that git's index names."""
        self._count_stored = 0
        self._seen: dict[str, SeenFolder] = {}
        self._latest: Snapshot | None = None
        self._trees: dict[str, dict[str, Entry]] = {}
        self._compared: dict[tuple[str, ...], bytes] = {}

    @classmethod
    @contextmanager
    def apart(
        cls, repo: Path, hidden: Callable[[str], bool] = lambda path: False, kept: Path | None = None
    ) -> "Iterator[Snapshots]":
        """Snapshots for a process beside the one that works: all that they write is gone with the block."""
        with TemporaryDirectory(prefix="headgate-") as folder:
            snapshots = cls(repo, hidden, kept)
            snapshots._folder, snapshots._cleans = Path(folder), False
            yield snapshots

    def go_on_from(self, tree: str) -> None:
        """Takes what is ignored, and what is another repository, from the tree of a task's start."""
        self._first_tree = tree

    def take(self) -> str:
        """Records the working tree as it is and returns the tree's name."""
        return self.look().tree

    def hand_on(self, moment: Moment, seen: Snapshot) -> None:
        """Keeps what was just seen before or after a command for who asks for the same moment next."""
        self._handed = moment, time.monotonic(), seen

    def around(self, *moments: Moment) -> Snapshot:
        """The tree right before a command or right after it: as it was handed on for that, or as it is.

        So a command runs between two looks at the tree, whoever wants to know what it did. What somebody
        else changes in the moment between the look and the command counts as the command's doing.
        """
        handed, self._handed = self._handed, None
        if handed and handed[0] in moments and time.monotonic() - handed[1] < _HANDED_SECONDS:
            return handed[2]
        return self.look(self.covering)

    def forget_handed(self) -> None:
        """The tree is about to change: what was handed on no longer counts."""
        self._handed = None

    def look(self, covering: Covering | None = None) -> Snapshot:
        """Records the working tree as it is; with files that git ignores, where a rule covers them."""
        with self._one_at_a_time:
            self._handed = None
            is_first = self._start is None and not self._first_tree
            start = self._start or (self._recall(self._first_tree) if self._first_tree else self._begin())
            walk = TreeWalk(
                self._files, start, self._seen, self._store, self._hidden, self.objects.length, is_first,
                self._cleans, covering,
            )  # fmt: skip
            self.files_seen = lambda: walk.count
            walk.run()
            self.stripped |= walk.stripped
            # What only a rule covers is known for the next time that it does.
            kept = {} if covering else {key: one for key, one in self._seen.items() if key[:1] == COVERED}
            self._start, self._seen = start, kept | walk.seen
            if is_first and walk.files_read >= FEWEST and covering is None and self._is_own:
                keep_files(self._kept, walk.seen)
            return self._gather(walk, covering)

    def _gather(self, walk: TreeWalk, covering: Covering | None) -> Snapshot:
        """What a walk has found. If nothing has changed since the one before, it is the same object."""
        last, folders = self._latest, [*walk.seen.values()]
        pairs = changed_folders(last.folders if last else {}, walk.seen)
        if last and not pairs and last.covering is covering and last.nested == walk.nested:
            return last
        within: dict[str, Entry] = {}
        covered: dict[str, Entry] = {}
        for folder in folders:
            within.update(folder.within)
            covered.update(folder.covered)
        self.marked = frozenset(path for folder in folders for path in folder.marked)
        self._within = within if self._within is None else self._within
        self.changed_within = tuple(differing(self._within, within))
        recorded = self._with_changes(pairs, walk.nested)
        tree = self._remember(recorded)
        if covering:
            covered |= {path: entry for path, entry in within.items() if covering.covers(path)}
        entries = {**recorded, **covered} if covering and covered else recorded
        self._latest = Snapshot(tree, recorded, entries, covering, walk.seen, walk.nested)
        return self._latest

    def _with_changes(
        self, pairs: Sequence[tuple[SeenFolder, SeenFolder]], nested: dict[str, Entry]
    ) -> dict[str, Entry]:
        """What the latest snapshot has recorded, with the folders that were read again."""
        last = self._latest
        old: dict[str, Entry] = dict(last.nested) if last else {}
        new = dict(nested)
        for before, now in pairs:
            old.update(before.found)
            new.update(now.found)
        if last is None:
            return new
        changed = differing(old, new)
        if not changed:
            return last.recorded
        recorded = dict(last.recorded)
        for path in changed:
            recorded.pop(path, None)
            if path in new:
                recorded[path] = new[path]
        return recorded

    def ignores(self, path: str) -> bool:
        """Whether git ignored a file of this path when the task began; known once a snapshot was taken."""
        return self._start is not None and self._start.ignored.file(path)

    def had_folder(self, path: str) -> bool:
        """Whether there was a folder when the task began, as far as that is known."""
        return self._start is not None and path in self._start.folders

    def keep(self, data: bytes) -> str:
        """Keeps a content, safely after the next `flush` of the objects; returns its name."""
        name = object_name("blob", data, self.objects.length)
        return name if name in self._existing else self.objects.write("blob", data)

    def _store(self, data: bytes) -> str:
        """Keeps what a file of the tree holds."""
        self._count_stored += 1
        if self._count_stored == _MANY_STORED:
            self._ask_what_exists()
        return self.keep(data)

    def _ask_what_exists(self) -> None:
        if self._perhaps:
            self._existing, self._perhaps = self.objects.find(self._perhaps), []

    @property
    def _is_own(self) -> bool:
        """Whether the folder of objects is that of this tree alone, to write to."""
        return self._folder == self._shared == safe_folder(self.repo) / "objects"

    @property
    def _kept(self) -> Path:
        return self._shared.parent / "files.json"

    def _begin(self) -> SnapshotRules:
        tracked = tracked_files(self.repo)
        names = [name for mode, name in tracked.values() if mode != NESTED]
        if self._is_own and len(names) >= FEWEST:
            self._seen = recall_files(self._kept, tracked, self._hidden, self.objects)
        # What the repository has need not be stored again. Where few files will be read, it is not asked yet.
        self._perhaps = names
        if not self._seen:
            self._ask_what_exists()
        ignored = IgnoredPaths(self.repo, of_user=self._ignored_by_user())
        files = (path for path, (mode, _) in tracked.items() if mode != NESTED)
        nested = [path for path, (mode, _) in tracked.items() if mode == NESTED]
        return SnapshotRules(ignored, files, nested, _own_outputs(self.repo))

    def _recall(self, tree: str) -> SnapshotRules:
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
        ignored = IgnoredPaths(self.repo, recorded=texts, of_user=self._ignored_by_user())
        nested = [path for path, (mode, _) in entries.items() if mode == NESTED]
        files = (path for path, (mode, _) in entries.items() if mode != NESTED)
        return SnapshotRules(ignored, files, nested, _own_outputs(self.repo))

    def _remember(self, entries: dict[str, Entry]) -> str:
        tree = next((tree for tree, known in self._trees.items() if known is entries), "")
        tree = tree or self._write_tree(entries, next(reversed(self._trees), ""))
        self.objects.flush()
        self._trees.pop(tree, None)
        self._trees[tree] = entries
        while len(self._trees) > _MOST_REMEMBERED:
            del self._trees[next(iter(self._trees))]
        return tree

    def _write_tree(self, entries: dict[str, Entry], like: str) -> str:
        """Stores a tree; of one that is known, only the folders that differ are written."""
        if like:
            changed = differing(self._trees[like], entries)
            with suppress(GitFailed):  # a command may have removed parts of that one
                return self.objects.write_tree({path: entries.get(path) for path in changed}, like)
        return self.objects.write_tree(entries)

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

    def record(self, entries: dict[str, Entry], contents: Iterable[bytes] = ()) -> str:
        """The name of a tree with these entries. `contents` are those of files that are new to it."""
        for data in contents:
            self.objects.write("blob", data)
        return self._remember(entries)

    def without_marks(self, before: str, tree: str) -> str:
        """A tree with the files that have only a mark as another tree has them."""
        old, entries = self.entries(before), dict(self.entries(tree))
        for path in self.marked:
            entries.pop(path, None)
            if path in old:
                entries[path] = old[path]
        return tree if entries == self.entries(tree) else self._remember(entries)

    def files(self, tree: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The paths in a tree: of files and links, and of repositories within the repository."""
        entries = sorted(self.entries(tree).items(), key=lambda item: os.fsencode(item[0]))
        nested = tuple(path for path, (mode, _) in entries if mode == NESTED)
        return tuple(path for path, (mode, _) in entries if mode != NESTED), nested

    def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that differ between two trees."""
        return tuple(one.path for one in self.differences(before, after))

    def differences(self, before: str, after: str) -> tuple[Difference, ...]:
        """Every path that differs between two trees, with what it is in each of them."""
        if before == after:
            return ()
        old, new = self.entries(before), self.entries(after)
        paths = sorted(differing(old, new), key=os.fsencode)
        return tuple(Difference(path, old.get(path), new.get(path)) for path in paths)

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
        """What `git diff-tree` prints of two trees. git gets only what differs, with contents checked.

        What was asked last is remembered: checks, models and people ask for the same diff.
        """
        asked = (before, after, *flags)
        if asked not in self._compared:
            self._compared[asked] = self._compare(self.differences(before, after), flags)
            while len(self._compared) > _MOST_COMPARED:
                del self._compared[next(iter(self._compared))]
        return self._compared[asked]

    def _compare(self, found: Sequence[Difference], flags: Sequence[str]) -> bytes:
        if not found:
            return b""
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
    def settings(self) -> tuple[Setting, ...]:
        """git's settings, as they were when they were first asked for."""
        return read_settings(self.repo)

    def _ignored_by_user(self) -> str:
        """The user's own ignore file, for all repositories."""
        key = "core.excludesfile"
        named = [one.value for one in self.settings if (one.scope, one.key) == ("global", key)]
        default = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "ignore"
        path = self.repo / Path(named[-1]).expanduser() if named else default
        return read_regular(path, MAX_IGNORE_FILE).decode("utf-8", "surrogateescape")

    @cached_property
    def objects(self) -> ObjectFolder:
        """Our own objects, and where others are: the shared ones, and the repository's."""
        if self._first_tree:
            sha256 = len(self._first_tree) == SHA256_LENGTH
        else:
            formats = [one.value for one in self.settings if one.key == "extensions.objectformat"]
            sha256 = formats[-1:] == ["sha256"]
        own, shared = common_folder(self.repo) / "objects", self._shared
        if shared == self._folder:
            return ObjectFolder(shared, [own], sha256=sha256, own=OwnFolder(shared.parent))
        return ObjectFolder(self._folder, [own, shared], sha256=sha256)


def _own_outputs(repo: Path) -> frozenset[str]:
    """The files in the tree that this process prints to: `headgate run ... > out.log`."""
    inside = os.path.realpath(repo) + "/"
    found = []
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed, or no file
            found.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    return frozenset(place.removeprefix(inside) for place in found if place.startswith(inside))
