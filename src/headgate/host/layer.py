"""Files and directories that are there, or gone, on top of a tree on disk without being written to it."""

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Laid = Literal["file", "directory", "absent"]
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
class Layer:
    """What hides the disk, by canonical path. It does not change: a later state is another layer."""

    files: Mapping[str, Content | None] = field(default_factory=dict)
    """Files with their content; None for one that is gone."""
    directories: frozenset[str] = frozenset()
    """Directories that are not on disk. Like real ones, they outlive the files in them."""

    def kind(self, path: str) -> Laid | None:
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

    def children(self, directory: str) -> Mapping[str, Laid]:
        """The names in a directory for which the disk does not decide."""
        return self._children.get(directory, {})

    @cached_property
    def _children(self) -> dict[str, dict[str, Laid]]:
        out: dict[str, dict[str, Laid]] = {}
        for path in (*self.files, *self.directories):
            kind = self.kind(path)
            if kind is not None:
                folder, _, name = path.rpartition("/")
                out.setdefault(folder, {})[name] = kind
        return out


NOTHING = Layer()


def ancestors(path: str) -> Iterator[str]:
    """The directories that a path is in, innermost first, the root not among them."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def check_name(name: str) -> None:
    """OSError, as from the disk, if a name is too long for a file."""
    if len(os.fsencode(name)) > _NAME_MAX:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
