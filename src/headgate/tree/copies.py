"""A copy of the working tree, for trying something out in.

What is done there stays there, but for installed packages that git ignores: those folders are linked to.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from headgate.core import show_path
from headgate.errors import HeadgateError
from headgate.first_use import dataclass
from headgate.regular_files import remove_own_folder, temporary_folder
from headgate.tree.ignore import RESERVED, IgnoredPaths
from headgate.tree.workspace import FileChange

MOST_FILES = 20_000
MOST_BYTES = 500_000_000
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_INSTALLED = frozenset({".venv", "venv", "env", "node_modules", ".tox", ".nox", "vendor"})
"""What these hold is large and not a task's to change; they are linked to where git ignores them."""


def in_cache(path: str) -> bool:
    """Whether a file is what a program keeps for its next run, and rewrites whenever it runs."""
    return not _CACHES.isdisjoint(path.split("/"))


class CopyImpossible(HeadgateError):
    """The tree is too large to be copied, or a change has no place in a copy."""


@contextmanager
def tree_copy(repo: Path, ignored: IgnoredPaths, changes: Sequence[FileChange] = ()) -> Iterator[Path]:
    """A folder with the tree as it is, and the changes made in it; gone with the block.

    git's own folder and caches are left out, and what cannot be read. CopyImpossible if it is too much.
    """
    with temporary_folder(copy_prefix(repo)) as temporary:
        # Programs tell their own folder by its real path.
        top = temporary / repo.resolve().name
        top.mkdir()
        _Copying(ignored).copy(Path(os.path.realpath(repo)), top, "")
        for change in changes:
            _make(top, change)
        yield top


def copy_prefix(repo: Path) -> str:
    """How the folders of a repository's copies begin, so that those of a dead process can be found."""
    place = os.path.realpath(repo).encode("utf-8", "surrogateescape")
    return f"headgate-trial-{sha256(place).hexdigest()[:12]}-"


def remove_copies(repo: Path) -> None:
    """Removes the copies that a process which is gone has left. Only for who holds the repository's lock."""
    for place in Path(tempfile.gettempdir()).glob(f"{copy_prefix(repo)}*"):
        if not place.is_symlink():
            remove_own_folder(place)


@dataclass
class _Copying:
    ignored: IgnoredPaths
    files: int = 0
    bytes: int = 0

    def copy(self, source: Path, target: Path, path: str) -> None:
        with suppress(PermissionError), os.scandir(source) as entries:
            for entry in entries:
                if entry.name.lower() not in RESERVED and entry.name not in _CACHES:
                    inner = f"{path}/{entry.name}" if path else entry.name
                    self._copy_entry(entry, source / entry.name, target / entry.name, inner)

    def _copy_entry(self, entry: os.DirEntry[str], here: Path, there: Path, inner: str) -> None:
        if entry.is_symlink():
            there.symlink_to(_target(here, inner, there))
        elif entry.is_dir():
            if entry.name in _INSTALLED and self.ignored.directory(inner):
                there.symlink_to(here.resolve(), target_is_directory=True)
                return
            there.mkdir()
            self.copy(here, there, inner)
        elif entry.is_file():
            self.files += 1
            self.bytes += entry.stat().st_size
            if self.files > MOST_FILES or self.bytes > MOST_BYTES:
                raise CopyImpossible("The tree is too large to copy for every answer.")
            with suppress(PermissionError):
                shutil.copy2(here, there)


def _target(here: Path, inner: str, there: Path) -> Path:
    """Where a link of the copy leads: into the copy if it led into the tree, else to the very same place."""
    depth = inner.count("/")
    root, top = here.parents[depth], there.parents[depth]
    target = here.readlink()
    place = Path(os.path.normpath(here.parent / target))
    if not place.is_relative_to(root):
        return place
    return top / place.relative_to(root) if target.is_absolute() else target


def _make(top: Path, change: FileChange) -> None:
    place = top / change.path
    if not place.parent.resolve().is_relative_to(top) or place.is_symlink():
        raise CopyImpossible(
            f"{show_path(change.path)} cannot be tried out in a copy: a symbolic link points outside it."
        )
    mode = change.mode if change.mode is not None else _mode_of(place)
    place.unlink(missing_ok=True)  # it may be one that only its folder lets be written
    if change.after is None:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(change.after)
    if mode is not None:
        place.chmod(mode)


def _mode_of(place: Path) -> int | None:
    try:
        return place.stat().st_mode & 0o7777
    except FileNotFoundError:
        return None
