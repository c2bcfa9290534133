"""Writing files so that a reader sees the old content or the new, and several files together or none.

A batch works on names in directories that the caller holds open. New content goes to a temporary file in the
target's directory, reaches the disk, and is renamed into place; what was there stays linked under another
temporary name until all is done, so undoing needs no space and no luck. By these names the next process
settles what a killed one did not finish.
"""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path
from types import TracebackType

from headgate.core import OWN_FOLDER, FileHashes, parse_path
from headgate.file_stamps import Stamp, stamp_of
from headgate.first_use import dataclass, regex
from headgate.regular_files import TEMPORARY, remove_tree
from headgate.tree.paths import ConfinedTree
from headgate.tree.workspace import NEW_FILE_MODE

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CHUNK = 1 << 20
_TEMPORARY_NAME = regex(re.escape(TEMPORARY) + "[0-9a-f]{16}")


class FileMoved(OSError):
    """A file is not as it was when its change was prepared."""


@dataclass(slots=True)
class _Step:
    label: str
    directory: int
    name: str
    seen: Stamp | None
    temporary: str | None
    backup: str | None = None
    is_directory: bool = False
    """A directory in the place of a file that goes: what is temporary or kept is its other name."""


class WriteBatch:
    """Changes prepared one by one and committed together; leaving the block undoes what was not."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._made: list[tuple[int, str]] = []
        self._opened: list[int] = []
        self._committed = False
        self.stranded: list[str] = []
        """Labels of files that could not be put back. Empty unless the disk itself fails."""

    def __enter__(self) -> "WriteBatch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            self._undo()
        for descriptor in self._opened:
            os.close(descriptor)
        self._opened.clear()

    def make_directories(self, directory: int, names: tuple[str, ...]) -> int:
        """The directory at the end of the names, each made where it is missing."""
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
                self._made.append((directory, name))
            directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            self._opened.append(directory)
        return directory

    def replace_by_directory(self, label: str, directory: int, name: str) -> int:
        """Prepares a directory in the place of a file whose removal was prepared before; returns it, open."""
        temporary = _temporary_name()
        os.mkdir(temporary, dir_fd=directory)
        self._made.append((directory, temporary))
        made = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        self._opened.append(made)
        self._steps.append(_Step(label, directory, name, None, temporary, is_directory=True))
        return made

    def write(
        self,
        label: str,
        directory: int,
        name: str,
        data: bytes,
        *,
        mode: int = NEW_FILE_MODE,
        old: os.stat_result | None,
        exact_mode: int | None = None,
    ) -> None:
        """Prepares new content; `old` is the file it replaces, whose mode and owner it takes over.

        `mode`, less the umask, is for a new file; `exact_mode` is for a new one and an old one alike.
        """
        temporary = _temporary_name()
        step = _Step(label, directory, name, old and stamp_of(old), temporary)
        descriptor = os.open(temporary, _NEW, mode if old is None else 0o600, dir_fd=directory)
        self._steps.append(step)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                _take_over(file.fileno(), old)
                _give_later_time(file.fileno(), old)
            if exact_mode is not None:
                os.fchmod(file.fileno(), exact_mode)
            os.fsync(file.fileno())

    def delete(self, label: str, directory: int, name: str, old: os.stat_result) -> None:
        """Prepares the removal of a file."""
        self._steps.append(_Step(label, directory, name, stamp_of(old), None))

    def commit(self) -> None:
        """Puts everything in place. On any error, leaving the block puts everything back."""
        for step in self._steps:
            self._put_in_place(step)
        for directory in {step.directory for step in self._steps} | {parent for parent, _ in self._made}:
            _sync_directory(directory)
        self._committed = True
        for step in self._steps:
            if step.backup is not None and not step.is_directory:
                # The change is made; a leftover name is hidden from tools and worth no failure.
                with suppress(OSError):
                    os.unlink(step.backup, dir_fd=step.directory)

    def _put_in_place(self, step: _Step) -> None:
        if _look(step.directory, step.name) != step.seen:
            raise FileMoved(f"{step.label} has changed in the meantime")
        if step.seen is not None:
            step.backup = _temporary_name()
            if step.temporary is None:
                os.rename(step.name, step.backup, src_dir_fd=step.directory, dst_dir_fd=step.directory)
            else:
                _keep(step.directory, step.name, step.backup)
        if step.temporary is not None:
            os.rename(step.temporary, step.name, src_dir_fd=step.directory, dst_dir_fd=step.directory)
            if step.is_directory:
                step.backup = step.temporary
            step.temporary = None

    def _undo(self) -> None:
        for step in reversed(self._steps):
            try:
                self._undo_step(step)
            except OSError:
                self.stranded.append(step.label)
        for directory, name in reversed(self._made):
            # Not empty: someone else has put something there, so it stays.
            with suppress(OSError):
                os.rmdir(name, dir_fd=directory)

    def _undo_step(self, step: _Step) -> None:
        if step.is_directory:
            if step.backup is not None:
                os.rename(step.name, step.backup, src_dir_fd=step.directory, dst_dir_fd=step.directory)
        elif step.temporary is not None:
            _remove(step.directory, step.temporary)
            if step.backup is not None:
                _remove(step.directory, step.backup)
        elif step.backup is not None:
            if _look(step.directory, step.backup) is not None:
                os.rename(step.backup, step.name, src_dir_fd=step.directory, dst_dir_fd=step.directory)
        elif step.seen is None:
            _remove(step.directory, step.name)


def _temporary_name() -> str:
    return TEMPORARY + secrets.token_hex(8)


def _look(directory: int, name: str) -> Stamp | None:
    try:
        return stamp_of(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _take_over(descriptor: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown") and (os.geteuid(), os.getegid()) != (old.st_uid, old.st_gid):
        # Only root gives files away; others own what they write.
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _give_later_time(descriptor: int, old: os.stat_result) -> None:
    """Gives a file that replaces one of the same size and the same second the next second.

    Python and other compilers compare only these two, and would run the old code.
    """
    new, second = os.fstat(descriptor), 10**9
    if new.st_size == old.st_size and new.st_mtime_ns // second <= old.st_mtime_ns // second:
        os.utime(descriptor, ns=(new.st_atime_ns, (old.st_mtime_ns // second + 1) * second))


def _keep(directory: int, name: str, backup: str) -> None:
    """A second name for the file; a copy where the file system or its rules allow no links."""
    try:
        os.link(name, backup, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        target = os.open(backup, _NEW, 0o600, dir_fd=directory)
        with os.fdopen(source, "rb") as old, os.fdopen(target, "wb") as copy:
            shutil.copyfileobj(old, copy)
            _take_over(copy.fileno(), os.fstat(source))


def _sync_directory(directory: int) -> None:
    # The caller's descriptor may be one for walking only, which cannot be synced.
    try:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except PermissionError:
        return  # a directory that cannot be listed cannot be synced; the rename itself stands
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Files by their shown paths, as they are now.


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
            return file.read(size) if size <= most else None
    except OSError:
        return None


def hash_in(directory: int, name: str) -> str | None:
    """The hash of a file in an open directory; None if there is none that could be read."""
    try:
        with _open(directory, name) as (file, left):
            digest = sha256()
            while left > 0 and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                digest.update(chunk)
            return digest.hexdigest()
    except OSError:
        return None


@contextmanager
def _open(directory: int, name: str) -> Iterator[tuple[FileIO, int]]:
    """A regular file, open, and its size. OSError if it is none."""
    with FileIO(os.open(name, _READ, dir_fd=directory)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{name} is not a regular file")
        yield file, status.st_size


# Writes that a killed process did not finish, and what they leave in the tree.


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
        return False  # something else is in the way by now
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
            with suppress(OSError):
                if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                    remove_tree(name, directory)
                else:
                    os.unlink(name, dir_fd=directory)
                removed += 1
    return removed


def _put_back(directory: int, name: str, kept: str | None) -> None:
    """Gives a name what it had before: the file that is kept under another, or nothing."""
    if kept is None:
        os.unlink(name, dir_fd=directory)
        return
    with suppress(FileNotFoundError, NotADirectoryError):
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


def _kept_as(tree: ConfinedTree, change: FileHashes, taken: Container[str | None]) -> str | None:
    """The temporary name, not taken yet, under which a file is still there as it was before a change."""
    if change.before is None:
        return None
    with open_parent(tree, change.path) as (directory, _), os.scandir(directory) as scan:
        names = sorted(entry.name for entry in scan if _TEMPORARY_NAME.fullmatch(entry.name))
        free = (name for name in names if name not in taken)
        return next((name for name in free if hash_in(directory, name) == change.before), None)
