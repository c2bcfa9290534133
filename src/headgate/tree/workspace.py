"""The repository as tools see it: the types and the protocol. `disk.py` is the real one."""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol

from headgate.file_stamps import Stamp
from headgate.first_use import dataclass

EntryKind = Literal["file", "dir", "symlink", "other"]


@dataclass(frozen=True)
class File:
    """A file's content as it was when it was read.

    Paths are relative to the repository, with `/`, as `os.fsdecode` gives them (bytes that are not UTF-8
    are surrogate escapes); `show_path` turns one into something that can be shown and given back.
    """

    path: str
    data: bytes
    mode: int

    @cached_property
    def text(self) -> str:
        """Decoded as UTF-8; bytes that are not UTF-8 survive as surrogate escapes, so edits keep them."""
        return self.data.decode("utf-8", "surrogateescape")

    @cached_property
    def is_binary(self) -> bool:
        return b"\0" in self.data[:65536]


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One line of a directory listing."""

    name: str
    kind: EntryKind
    size: int = 0


@dataclass(frozen=True, slots=True)
class FileChange:
    """A planned change to one file: nothing is written until the workspace applies it.

    `before` or `after` None means that the file does not exist on that side; a move is one deletion and
    one creation. `mode` is what the file gets, new or not, even if its content stays; without one, a new
    file is an ordinary one (0o644, less the umask) and an existing one keeps its own.
    """

    path: str
    before: bytes | None
    after: bytes | None
    mode: int | None = None

    @property
    def before_hash(self) -> str | None:
        return None if self.before is None else sha256(self.before).hexdigest()

    @property
    def after_hash(self) -> str | None:
        return None if self.after is None else sha256(self.after).hexdigest()


class Workspace(Protocol):
    """Reads, and the one way to write. Methods block; call them in a thread from async code.

    Every path argument is what a model wrote; every path returned is canonical. Each method raises ToolDenied
    (outside the repository, or a guard objects) or ToolFailed (missing, a directory, too large, ...), with a
    sentence for the model.
    """

    root: Path

    def locate(self, path: str) -> str:
        """The canonical form of a path, which need not exist. Follows symlinks that stay inside."""
        ...

    def read(self, path: str) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str = "") -> list[DirectoryEntry]:
        """A directory's entries, sorted by name, ignored files included, `.git` and `.headgate` not."""
        ...

    def files(self, under: str = "") -> Iterator[str]:
        """Every file below a directory, sorted, less what ignore files exclude and what may not be read."""
        ...

    def stamp(self, path: str) -> Stamp | None:
        """What changes whenever the content of a regular file does, by its canonical path; None for all else.

        It has the shape of `stamp_of`: the fourth number is the size. The file is not read.
        """
        ...

    def apply(self, changes: Sequence[FileChange]) -> None:
        """Writes all of the changes or none. ToolFailed if a file is no longer as `before` says."""
        ...

    def may_write(self, path: str) -> bool:
        """Whether no guard objects to writing a canonical path."""
        ...

    def check_run(self, command: str) -> None:
        """ToolDenied if a guard objects to a shell command."""
        ...


# Files and directories that are there, or gone, on top of a tree on disk without being written to it.


OverlaidKind = Literal["file", "directory", "absent"]
NEW_FILE_MODE = 0o644
_NAME_MAX = 255


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds. No mode means that it is new, and gets the mode of new files."""

    data: bytes
    mode: int | None

    @property
    def effective_mode(self) -> int:
        return NEW_FILE_MODE if self.mode is None else self.mode


@dataclass(frozen=True)
class OverlayLayer:
    """What hides the disk, by canonical path. It does not change: a later state is another layer."""

    files: Mapping[str, Content | None] = field(default_factory=dict)
    """Files with their content; None for one that is gone."""
    directories: frozenset[str] = frozenset()
    """Directories that are not on disk. Like real ones, they outlive the files in them."""

    def kind(self, path: str) -> OverlaidKind | None:
        """What is at a path; None where the disk decides. OSError for a name that no directory could hold."""
        if path in self.directories:
            return "directory"
        if path in self.files:
            return "absent" if self.files[path] is None else "file"
        folder, _, name = path.rpartition("/")
        if folder in self.directories:
            check_name(name)
        return None

    def content(self, path: str) -> Content | None:
        """The file that is laid at a path, if one is."""
        return self.files.get(path)

    def children(self, directory: str) -> Mapping[str, OverlaidKind]:
        """The names in a directory for which the disk does not decide."""
        return self._children.get(directory, {})

    @cached_property
    def _children(self) -> dict[str, dict[str, OverlaidKind]]:
        out: dict[str, dict[str, OverlaidKind]] = {}
        for path in (*self.files, *self.directories):
            kind = self.kind(path)
            if kind is not None:
                folder, _, name = path.rpartition("/")
                out.setdefault(folder, {})[name] = kind
        return out


NOTHING = OverlayLayer()


def ancestors(path: str) -> Iterator[str]:
    """The directories that a path is in, innermost first, the root not among them."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def check_name(name: str) -> None:
    """OSError, as from the disk, if a name is too long for a file."""
    if len(os.fsencode(name)) > _NAME_MAX:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
