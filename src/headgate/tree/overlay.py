"""The workspace of a dry run: its writes stay in memory. Tools use it like any other."""

import base64
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from threading import Lock
from typing import Any

from headgate.core import parse_path, show_path
from headgate.errors import StoreError, ToolError
from headgate.file_stamps import Stamp
from headgate.first_use import dataclass
from headgate.tree.disk import DiskWorkspace, changes_anything, check_before, sort_entries
from headgate.tree.ignore import walk_files
from headgate.tree.paths import ConfinedTree, Spot
from headgate.tree.workspace import (
    NEW_FILE_MODE,
    NOTHING,
    Content,
    DirectoryEntry,
    File,
    FileChange,
    OverlayLayer,
    ancestors,
)


@dataclass(frozen=True, slots=True)
class ProposedChange(FileChange):
    """A change from the file on disk to what an overlay holds, with what the disk's mode was."""

    before_mode: int | None = None

    @property
    def after_mode(self) -> int | None:
        """The mode that the file will have; None for one that will be gone."""
        if self.after is None:
            return None
        return next(mode for mode in (self.mode, self.before_mode, NEW_FILE_MODE) if mode is not None)


class OverlayWorkspace:
    """A Workspace over one on disk: reads go through, changes are checked as on disk and then remembered.

    Methods may be called from several threads at once.
    """

    def __init__(self, base: DiskWorkspace) -> None:
        self._base = base
        self.root = base.root
        self._layer = NOTHING
        self._originals: dict[str, Content | None] = {}
        self._writing = Lock()

    def locate(self, path: str) -> str:
        """The canonical form of a path, which need not exist."""
        with self._tree.find(path) as spot:
            return spot.path

    def read(self, path: str) -> File:
        """A regular file of at most the disk workspace's `max_bytes`."""
        tree = self._tree
        with self._base.find(path, "read", tree) as spot:
            match tree.layer.kind(spot.path):
                case "directory":
                    raise spot.not_a_file()
                case "absent":
                    raise self._base.missing(spot, tree)
                case _ if content := tree.layer.content(spot.path):
                    self._base.check_size(spot, len(content.data))
                    return File(spot.path, content.data, content.effective_mode)
            try:
                return self._base.read_spot(spot)
            except FileNotFoundError:
                raise self._base.missing(spot, tree) from None

    def exists(self, path: str) -> bool:
        """Whether there is anything under this name."""
        tree = self._tree
        with self._base.find(path, "read", tree) as spot:
            kind = tree.layer.kind(spot.path)
            return spot.status() is not None if kind is None else kind != "absent"

    def list(self, path: str = "") -> list[DirectoryEntry]:
        """A directory's entries, sorted by name."""
        tree = self._tree
        with self._base.find(path, "read", tree) as spot:
            self._require_directory(spot, tree)
            on_disk = () if spot.path in tree.layer.directories else self._base.scan_spot(spot)
        entries = {entry.name: entry for entry in on_disk}
        for name, kind in tree.layer.children(spot.path).items():
            content = tree.layer.content(f"{spot.path}/{name}" if spot.path else name)
            if kind == "absent":
                entries.pop(name, None)
            elif content is None:
                entries[name] = DirectoryEntry(name, "dir")
            else:
                entries[name] = DirectoryEntry(name, "file", len(content.data))
        return sort_entries(entries.values())

    def files(self, under: str = "") -> Iterator[str]:
        """Every file below a directory that is neither ignored nor denied, sorted by path."""
        tree = self._tree
        with self._base.find(under, "read", tree) as spot:
            self._require_directory(spot, tree)
        return walk_files(tree, spot.path, self._base.may_read)

    def stamp(self, path: str) -> Stamp | None:
        """What changes whenever the content of a regular file does: of a file that is laid here, a hash."""
        layer = self._layer
        if path not in layer.files:
            return self._base.stamp(path)
        content = layer.content(path)
        if content is None:
            return None
        digest = int.from_bytes(sha256(content.data).digest()[:8])
        return (-1, 0, content.effective_mode, len(content.data), digest, 0)

    def apply(self, changes: Sequence[FileChange]) -> None:
        """Remembers all of the changes or none; whatever the disk would refuse is refused."""
        with self._writing, ExitStack() as open_spots:
            draft = _Draft(self._layer)
            for spot, change in self._base.spots(changes, open_spots, draft.with_deletions):
                now = self._now(spot)
                check_before(spot, None if now is None else now.data, change.before)
                if not changes_anything(change, _mode_of(now)):
                    continue
                draft.add(spot.path, now, change, self._directories_for(spot))
            self._adopt(draft)

    def remember(self, changes: Sequence[FileChange]) -> None:
        """Takes over changes that an overlay accepted before, in another process. Paths are canonical.

        Nothing is checked: the disk may have moved on since, and what `before` says is then the truth.
        """
        with self._writing:
            draft = _Draft(self._layer)
            for change in sorted(changes, key=lambda change: change.after is not None):
                now = draft.files.get(change.path)
                if now is None and change.before is not None:
                    now = Content(change.before, self._mode_on_disk(change.path))
                folders = (path for path in ancestors(change.path) if not self._is_directory(path))
                if changes_anything(change, _mode_of(now)):
                    draft.add(change.path, now, change, folders)
            self._adopt(draft)

    def may_write(self, path: str) -> bool:
        """Whether no guard objects to writing a canonical path."""
        return self._base.may_write(path)

    def check_run(self, command: str) -> None:
        """ToolDenied if a guard objects to a shell command."""
        self._base.check_run(command)

    def changes(self) -> tuple[ProposedChange, ...]:
        """What is to be written, by path: from what was there when the overlay first touched it."""
        layer = self._layer
        proposed = (self._propose(path, layer.content(path)) for path in sorted(layer.files))
        return tuple(change for change in proposed if changes_anything(change, change.before_mode))

    def hash_of(self, shown_path: str) -> str | None:
        """The SHA-256 of a file as a reader sees it, by its shown path; None if there is none."""
        path = parse_path(shown_path)
        tree = self._tree
        if path in tree.layer.files or path in tree.layer.directories:
            content = tree.layer.content(path)
            return None if content is None else sha256(content.data).hexdigest()
        try:
            with tree.find(shown_path) as spot:
                data, _ = self._base.current(spot)
        except ToolError:
            return None  # outside, a directory, unreadable: no file that a hash could tell of
        return None if data is None else sha256(data).hexdigest()

    @property
    def _tree(self) -> ConfinedTree:
        return self._base.tree.under(self._layer)

    def _now(self, spot: Spot) -> Content | None:
        """What a reader sees at a spot, past all caches."""
        kind = self._layer.kind(spot.path)
        if kind == "directory":
            raise spot.not_a_file()
        if kind is not None:
            return self._layer.content(spot.path)
        data, status = self._base.current(spot)
        return None if data is None or status is None else Content(data, stat.S_IMODE(status.st_mode))

    def _require_directory(self, spot: Spot, tree: ConfinedTree) -> None:
        kind = tree.layer.kind(spot.path)
        if kind == "file":
            raise spot.not_a_directory()
        if kind == "absent":
            raise self._base.missing(spot, tree)
        if kind is None:
            try:
                os.close(spot.open_directory())
            except FileNotFoundError:
                raise self._base.missing(spot, tree) from None

    def _directories_for(self, spot: Spot) -> Iterable[str]:
        return list(ancestors(spot.path))[: len(spot.missing)]

    def _is_directory(self, path: str) -> bool:
        return self._layer.kind(path) is None and (self.root / path).is_dir()

    def _mode_on_disk(self, path: str) -> int:
        try:
            return stat.S_IMODE((self.root / path).lstat().st_mode)
        except OSError:
            return NEW_FILE_MODE  # it has gone since; an ordinary file is the best guess

    def _adopt(self, draft: "_Draft") -> None:
        for path, original in draft.originals.items():
            self._originals.setdefault(path, original)
        self._layer = OverlayLayer(draft.files, frozenset(draft.directories))

    def _propose(self, path: str, content: Content | None) -> ProposedChange:
        original = self._originals[path]
        before = None if original is None else original.data
        before_mode = _mode_of(original)
        if content is None:
            return ProposedChange(path, before, None, None, before_mode)
        mode = content.mode if original is None else content.effective_mode
        return ProposedChange(path, before, content.data, None if mode == before_mode else mode, before_mode)


class _Draft:
    """A layer in the making: it counts once all of its changes have passed."""

    def __init__(self, layer: OverlayLayer) -> None:
        self.files = dict(layer.files)
        self.directories = set(layer.directories)
        self.originals: dict[str, Content | None] = {}
        self._layer = layer
        self._deleted: dict[str, Content | None] = {}

    def with_deletions(self) -> OverlayLayer:
        """What paths are looked up under: on disk, too, only deletions make way for the rest of a batch."""
        if not self._deleted:
            return self._layer
        return OverlayLayer({**self._layer.files, **self._deleted}, self._layer.directories)

    def add(self, path: str, now: Content | None, change: FileChange, folders: Iterable[str]) -> None:
        self.originals[path] = now
        if change.after is None:
            self.files[path] = self._deleted[path] = None
            return
        mode = change.mode if change.mode is not None or now is None else now.mode
        self.files[path] = Content(change.after, mode)
        self.directories.update(folders)


def _mode_of(content: Content | None) -> int | None:
    return None if content is None else content.effective_mode


def encode_changes(changes: Sequence[FileChange]) -> str:
    """Changes as JSON that any store can keep: text as it is, other content in base64, paths as shown."""
    kept = [
        {
            "path": show_path(change.path),
            "before": _encode(change.before),
            "after": _encode(change.after),
            "mode": change.mode,
            **({"before_mode": change.before_mode} if isinstance(change, ProposedChange) else {}),
        }
        for change in changes
    ]
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def decode_changes(text: str) -> tuple[FileChange, ...]:
    """The inverse of `encode_changes`. StoreError if the text is something else."""
    try:
        return tuple(map(_decode_change, json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"The record of a file change cannot be read: {error!r}.") from error


def _decode_change(kept: Any) -> FileChange:
    change = FileChange(
        parse_path(kept["path"]), _decode(kept["before"]), _decode(kept["after"]), kept["mode"]
    )
    if "before_mode" not in kept:
        return change
    return ProposedChange(change.path, change.before, change.after, change.mode, kept["before_mode"])


def _encode(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        if b"\0" not in data:  # JSON would make six characters of each
            return data.decode()
    except UnicodeDecodeError:
        pass  # no text: base64 it is
    return {"base64": base64.b64encode(data).decode()}


def _decode(kept: Any) -> bytes | None:
    if kept is None:
        return None
    return kept.encode() if isinstance(kept, str) else base64.b64decode(kept["base64"], validate=True)
