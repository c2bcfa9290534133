"""Opening Headgate's own files, which a command may have replaced with links, pipes or devices.

A file is opened by descriptor from the folders that belong to Headgate. No link is followed there, nothing
but a regular file is opened, and no call waits for a reader or a writer of a pipe.
"""

import errno
import fcntl
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.errors import HeadgateError

TEMPORARY = ".headgate-tmp-"
"""How the names of files and folders begin that exist for a moment only."""
LOCK_SECONDS = 30.0
"""How long a lock on a file is waited for."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_MAY_ALL = 0o700
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class PlantedFile(HeadgateError, OSError):
    """Something is where Headgate keeps a file or a folder, and Headgate did not put it there."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} is {what}, which Headgate never creates there: remove it.")


class OwnFolder:
    """A folder of Headgate's own. In it no link is followed, and only regular files are opened.

    Every call opens it again, because a command may have deleted it since.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def enter(self, folder: Path, create: int | None = None) -> Iterator[int]:
        """The descriptor of this folder or one in it. With the mode `create`, missing ones are made."""
        here = self.path.parent
        first, parts = len(here.parts), folder.parts
        if parts[:first] != here.parts:
            raise ValueError(f"{folder} is not in {here}")
        directory = os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for number, part in enumerate(parts[first:], first + 1):
                try:
                    inner = _open_folder(part, directory, create)
                except OSError as error:
                    raise _explain(error, Path(*parts[:number])) from error
                os.close(directory)
                directory = inner
            yield directory
        finally:
            os.close(directory)

    def open(self, path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """The descriptor of a file in it. PlantedFile if it is not a regular file."""
        with self.enter(path.parent) as directory:
            try:
                # It is emptied only after it is known to be a regular file.
                descriptor = os.open(path.name, (flags & ~os.O_TRUNC) | _SAFE, mode, dir_fd=directory)
            except OSError as error:
                raise _explain(error, path) from error
        try:
            _check(os.fstat(descriptor), path, writes=flags & (os.O_WRONLY | os.O_RDWR) != 0)
            if flags & os.O_TRUNC:
                os.ftruncate(descriptor, 0)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, path: Path, most: int = -1) -> bytes:
        """What a file holds, up to `most` bytes."""
        with os.fdopen(self.open(path), "rb") as file:
            return file.read(most)

    def write(self, path: Path, data: bytes) -> None:
        """Replaces what a file holds."""
        with os.fdopen(self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(data)

    def replace(self, path: Path, data: bytes) -> None:
        """Replaces what a file holds at once: whoever reads it sees all of the old text or all of the new."""
        new = path.with_name(f".{path.name}.new")
        self.write(new, data)
        with self.enter(path.parent) as directory:
            os.rename(new.name, path.name, src_dir_fd=directory, dst_dir_fd=directory)

    def make(self, folder: Path, mode: int = 0o777) -> None:
        """Makes a folder and those above it that are missing. PlantedFile if one is a link or a file."""
        with self.enter(folder, create=mode):
            pass

    def remove(self, folder: Path) -> None:
        """Removes a folder with all that is in it, as far as that is possible."""
        with suppress(OSError), self.enter(folder.parent) as directory:
            remove_tree(folder.name, directory)


def _open_folder(name: str, directory: int, create: int | None) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=directory)
    except FileNotFoundError:
        if create is None:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, create, dir_fd=directory)
    return os.open(name, _FOLDER, dir_fd=directory)


def open_own(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """The descriptor of a file in a folder of Headgate's own; see `OwnFolder`."""
    return OwnFolder(path.parent).open(path, flags, mode)


def read_own(path: Path, most: int = -1) -> bytes:
    """What a file in a folder of Headgate's own holds."""
    return OwnFolder(path.parent).read(path, most)


def remove_own_folder(path: Path) -> None:
    """Removes a folder of Headgate's own, wherever it is, as far as that is possible."""
    with suppress(OSError):
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            remove_tree(path.name, directory)
        finally:
            os.close(directory)


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A new folder that only this user can enter. It is gone with the block, whatever is in it."""
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))
    try:
        yield path
    finally:
        remove_own_folder(path)


def remove_tree(name: str, directory: int) -> None:
    """Removes a folder in an open one, however deep it is. OSError if something in it could not be removed.

    Each folder in it is first moved up: a call for each level would reach the limits on calls and open files.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)  # a link stays a link
    os.chmod(name, _OWNER_MAY_ALL, dir_fd=directory)
    top = os.open(name, _FOLDER, dir_fd=directory)
    try:
        pending = _empty(top, top)
        while pending:
            with suppress(OSError):  # the last call fails if something is left
                inner = os.open(pending[-1], _FOLDER, dir_fd=top)
                try:
                    pending[:0] = _empty(inner, top)
                finally:
                    os.close(inner)
                os.rmdir(pending[-1], dir_fd=top)
            pending.pop()
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=directory)


def _empty(folder: int, top: int) -> list[str]:
    """Removes the files of a folder, and moves the folders in it to the top. Returns their new names."""
    with os.scandir(folder) as scan:
        entries = list(scan)
    moved: list[str] = []
    for entry in entries:
        with suppress(OSError):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                continue
            # Without these rights it can be neither moved nor listed.
            os.chmod(entry.name, _OWNER_MAY_ALL, dir_fd=folder)
            new = TEMPORARY + secrets.token_hex(8)
            os.rename(entry.name, new, src_dir_fd=folder, dst_dir_fd=top)
            moved.append(new)
    return moved


def open_up_folders(*paths: Path) -> None:
    """Gives the owner back what a command took: entering folders, listing and writing. Outer ones first."""
    for path in paths:
        with suppress(OSError):  # gone, or another user's: whoever needs it says so
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode) and status.st_mode & _OWNER_MAY_ALL != _OWNER_MAY_ALL:
                path.chmod(stat.S_IMODE(status.st_mode) | _OWNER_MAY_ALL)


def check_own(path: Path) -> None:
    """PlantedFile if something else than a regular file with one name is at a path."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    _check(status, path, writes=True)


def lock_within(descriptor: int, kind: int, seconds: float = LOCK_SECONDS) -> bool:
    """Takes a lock on an open file; False if others keep it for longer than that."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        else:
            return True


def _check(status: os.stat_result, path: Path, *, writes: bool) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise PlantedFile(path, "a folder")
    if not stat.S_ISREG(status.st_mode):
        raise PlantedFile(path, "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a pipe or a device")
    if writes and status.st_nlink > 1:
        raise PlantedFile(path, "a second name of another file")


def _explain(error: OSError, path: Path) -> OSError:
    match error.errno:
        case errno.ELOOP:
            return PlantedFile(path, "a symbolic link")
        case errno.ENXIO:
            return PlantedFile(path, "a pipe or a device")
        case errno.ENOTDIR:
            return PlantedFile(path, "a link or a file")
        case errno.EISDIR:
            return PlantedFile(path, "a folder")
        case _:
            return type(error)(error.errno, error.strerror, str(path))
