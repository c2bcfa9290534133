"""A copy of the working tree, for trying something out in: what happens there stays there."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.errors import HeadgateError
from headgate.host.ignored import IgnoredPaths
from headgate.host.internal import INTERNAL
from headgate.host.workspace import FileChange, show_path

_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
_SMALL = 1_000_000
"""Ignored files up to this size are copied: settings, mostly. Larger ones are linked to."""


@contextmanager
def tree_copy(repo: Path, ignored: IgnoredPaths, changes: Sequence[FileChange] = ()) -> Iterator[Path]:
    """A folder with the tree as it is, and the changes made in it; gone with the block.

    git's own folder and caches are left out. What git ignores (an environment, installed packages) is linked
    to where it is a folder: it is large, and nothing that a task changes.
    """
    with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as temporary:
        # Programs tell their own folder by its real path.
        top = Path(os.path.realpath(temporary)) / repo.resolve().name
        top.mkdir()
        _copy(Path(os.path.realpath(repo)), top, "", ignored)
        for change in changes:
            _make(top, change)
        yield top


def _copy(source: Path, target: Path, path: str, ignored: IgnoredPaths) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            inner = f"{path}/{entry.name}" if path else entry.name
            if entry.name.lower() in INTERNAL or entry.name in _CACHES:
                continue
            here, there = source / entry.name, target / entry.name
            if entry.is_symlink():
                there.symlink_to(_target(here, inner, there))
            elif entry.is_dir():
                if ignored.directory(inner):
                    there.symlink_to(here.resolve(), target_is_directory=True)
                else:
                    there.mkdir()
                    _copy(here, there, inner, ignored)
            elif entry.is_file():
                if entry.stat().st_size > _SMALL and ignored.file(inner):
                    there.symlink_to(here.resolve())
                else:
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
    if not place.resolve().is_relative_to(top):
        raise HeadgateError(
            f"{show_path(change.path)} cannot be tried out in a copy: a link leads out of it."
        )
    if change.after is None:
        place.unlink(missing_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(change.after)
    if change.mode is not None:
        place.chmod(change.mode)
