"""Writing files so that a reader sees the old content or the new, and several files together or none.

A batch works on names in directories that the caller holds open. New content goes to a temporary file in the
target's directory, reaches the disk, and is renamed into place; what was there stays linked under another
temporary name until all is done, so undoing needs no space and no luck.
"""

import contextlib
import os
import secrets
import shutil
import stat
from dataclasses import dataclass
from types import TracebackType

from headgate.workspace.ignore import TEMPORARY
from headgate.workspace.workspace import NEW_FILE_MODE

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Fingerprint = tuple[int, int, int, int, int]


class FileMoved(OSError):
    """A file is not as it was when its change was prepared."""


@dataclass(slots=True)
class _Step:
    label: str
    directory: int
    name: str
    seen: Fingerprint | None
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
            with contextlib.suppress(FileExistsError):
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
        step = _Step(label, directory, name, old and file_fingerprint(old), temporary)
        descriptor = os.open(temporary, _NEW, mode if old is None else 0o600, dir_fd=directory)
        self._steps.append(step)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                _take_over(file.fileno(), old)
            if exact_mode is not None:
                os.fchmod(file.fileno(), exact_mode)
            os.fsync(file.fileno())

    def delete(self, label: str, directory: int, name: str, old: os.stat_result) -> None:
        """Prepares the removal of a file."""
        self._steps.append(_Step(label, directory, name, file_fingerprint(old), None))

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
                with contextlib.suppress(OSError):
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
            with contextlib.suppress(OSError):
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


def file_fingerprint(status: os.stat_result) -> Fingerprint:
    """What changes when a file's content is changed or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _temporary_name() -> str:
    return TEMPORARY + secrets.token_hex(8)


def _look(directory: int, name: str) -> Fingerprint | None:
    try:
        return file_fingerprint(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _remove(directory: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _take_over(descriptor: int, old: os.stat_result) -> None:
    if hasattr(os, "fchown") and (os.geteuid(), os.getegid()) != (old.st_uid, old.st_gid):
        # Only root gives files away; others own what they write.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


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
