"""Writes that a killed process did not finish: what a file is now, and what is left in the tree."""

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from io import FileIO
from pathlib import Path

from headgate.core import OWN_FOLDER, FileHashes, parse_path
from headgate.workspace.ignore import TEMPORARY
from headgate.workspace.paths import ConfinedTree

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CHUNK = 1 << 20


@contextmanager
def open_parent(tree: ConfinedTree, shown: str) -> Iterator[tuple[int, str]]:
    """The open directory that a file is in, and the file's name there. OSError if a symlink is in the way."""
    folder, _, name = parse_path(shown).rpartition("/")
    directory = tree.open_directory(folder)
    try:
        yield directory, name
    finally:
        os.close(directory)


def hash_at(tree: ConfinedTree, shown: str) -> str | None:
    """The hash of a file by its shown path; None if there is no file that could be read."""
    try:
        with open_parent(tree, shown) as (directory, name):
            return hash_in(directory, name)
    except OSError:
        return None  # its directory is not there


def mode_at(tree: ConfinedTree, shown: str) -> int | None:
    """The mode of a file by its shown path; None if there is no regular file."""
    try:
        with open_parent(tree, shown) as (directory, name):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def read_at(tree: ConfinedTree, shown: str, most: int) -> bytes | None:
    """A file's content; None if there is no file that could be read, or more than `most` bytes of it."""
    try:
        with open_parent(tree, shown) as (directory, name), _open(directory, name) as (file, size):
            return b"".join(_chunks(file, size)) if size <= most else None
    except OSError:
        return None


def hash_in(directory: int, name: str) -> str | None:
    """The hash of a file in an open directory; None if there is none that could be read."""
    digest = sha256()
    try:
        with _open(directory, name) as (file, size):
            for chunk in _chunks(file, size):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()


@contextmanager
def _open(directory: int, name: str) -> Iterator[tuple[FileIO, int]]:
    """A regular file, open, and its size. OSError if it is none."""
    with FileIO(os.open(name, _READ, dir_fd=directory)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{name} is not a regular file")
        yield file, status.st_size


def _chunks(file: FileIO, left: int) -> Iterator[bytes]:
    while left > 0 and (chunk := file.read(min(_CHUNK, left))):
        left -= len(chunk)
        yield chunk


# Writes that a killed process did not finish, and what they leave in the tree.


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
    tree = ConfinedTree(repo)
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


def _kept_as(tree: ConfinedTree, change: FileHashes, taken: Container[str | None]) -> str | None:
    """The temporary name, not taken yet, under which a file is still there as it was before a change."""
    if change.before is None:
        return None
    with open_parent(tree, change.path) as (directory, _), os.scandir(directory) as scan:
        names = sorted(entry.name for entry in scan if _TEMPORARY_NAME.fullmatch(entry.name))
        free = (name for name in names if name not in taken)
        return next((name for name in free if hash_in(directory, name) == change.before), None)
