"""Writes that a killed process did not finish, and what they leave in the tree.

A single file is always the old one or the new one. Several that belong together may be some of each; what was
there before then still has a temporary name, so the change can be taken back as a whole.
"""

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from headgate.core.events import FileHashes
from headgate.core.settings import OWN_FOLDER
from headgate.host.filehash import hash_at, hash_in, open_parent
from headgate.host.ignore import TEMPORARY
from headgate.host.paths import Tree

_TEMPORARY_NAME = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{16}")


def settle_writes(repo: Path, begun: Iterable[Sequence[FileHashes]]) -> None:
    """Leaves no trace of writes that were cut short: each is as good as never begun, or done.

    Only for who holds the repository's lock, and when what was left running is gone. `begun` has the changes
    of every write that was begun and whose end nobody recorded.
    """
    for changes in begun:
        undo_half_written(repo, changes)
    remove_temporaries(repo)


def undo_half_written(repo: Path, changes: Sequence[FileHashes]) -> bool:
    """Takes back a change of several files that was cut short when some of them had been replaced.

    What was there before is still linked under a temporary name. True if every file is now as it was before;
    False if there was nothing to take back, or if somebody else has changed a file meanwhile.
    """
    tree = Tree(repo)
    changes = [change for change in changes if change.before != change.after]
    now = {change.path: hash_at(tree, change.path) for change in changes}
    done = [change for change in changes if now[change.path] != change.before]
    if len(done) in (0, len(changes)) or any(now[change.path] != change.after for change in done):
        return False
    kept: dict[str, str | None] = {}
    for change in done:
        kept[change.path] = _kept_as(tree, change, kept.values())
        if kept[change.path] is None and change.before is not None:
            return False
    try:
        # A file may have given way to a directory: what is inside goes first.
        for change in sorted(done, key=lambda change: change.path, reverse=True):
            with open_parent(tree, change.path) as (directory, name):
                _put_back(directory, name, kept[change.path])
                os.fsync(directory)
    except OSError:
        return (
            False  # something else is in the way by now: whoever goes on finds neither the one nor the other
        )
    return True


def remove_temporaries(repo: Path) -> int:
    """Removes the temporary files that writes which were cut short left in a repository; returns how many.

    Only for who holds the repository's lock, and after `undo_half_written`: what was there before a write
    may be nowhere else. Repositories inside this one that Headgate works in are left alone.
    """
    removed = 0
    top = os.path.realpath(repo)
    for folder, folders, files, directory in os.fwalk(top):
        if folder != top and OWN_FOLDER in folders:
            folders.clear()
            continue
        if folder.endswith("/.git"):
            folders[:] = [name for name in folders if name != "objects"]  # large, and only git writes there
        for name in filter(_TEMPORARY_NAME.fullmatch, (*files, *folders)):
            # Where the directory is not ours to write in it stays; tools do not see it.
            with contextlib.suppress(OSError):
                _remove(directory, name)
                removed += 1
    return removed


def _put_back(directory: int, name: str, kept: str | None) -> None:
    """Gives a name what it had before: the file that is kept under another, or nothing."""
    if kept is None:
        os.unlink(name, dir_fd=directory)
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _remove_empty(directory, name)
    os.rename(kept, name, src_dir_fd=directory, dst_dir_fd=directory)


def _remove_empty(directory: int, name: str) -> None:
    """Removes a directory with nothing in it but empty ones and temporary files; OSError otherwise."""
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        with os.scandir(inner) as scan:
            entries = list(scan)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove_empty(inner, entry.name)
            elif _TEMPORARY_NAME.fullmatch(entry.name):
                os.unlink(entry.name, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=directory)


def _remove(directory: int, name: str) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def _kept_as(tree: Tree, change: FileHashes, taken: Container[str | None]) -> str | None:
    """The temporary name, not taken yet, under which a file is still there as it was before a change."""
    if change.before is None:
        return None
    with open_parent(tree, change.path) as (directory, _), os.scandir(directory) as scan:
        names = sorted(entry.name for entry in scan if _TEMPORARY_NAME.fullmatch(entry.name))
        free = (name for name in names if name not in taken)
        return next((name for name in free if hash_in(directory, name) == change.before), None)
