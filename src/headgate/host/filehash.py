"""What a file in the repository is now: its hash, its mode, its bytes.

Only regular files are read, no symbolic link is followed on the way, and no more is read than was there when
the file was opened: neither a named pipe, nor a device, nor a file that grows keeps anybody waiting.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import FileIO

from headgate.core.pathtext import parse_path
from headgate.host.paths import Tree

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_CHUNK = 1 << 20


@contextmanager
def open_parent(tree: Tree, shown: str) -> Iterator[tuple[int, str]]:
    """The open directory that a file is in, and the file's name there. OSError if a symlink is in the way."""
    folder, _, name = parse_path(shown).rpartition("/")
    directory = tree.open_directory(folder)
    try:
        yield directory, name
    finally:
        os.close(directory)


def hash_at(tree: Tree, shown: str) -> str | None:
    """The hash of a file by its shown path; None if there is no file that could be read."""
    try:
        with open_parent(tree, shown) as (directory, name):
            return hash_in(directory, name)
    except OSError:
        return None  # its directory is not there


def mode_at(tree: Tree, shown: str) -> int | None:
    """The mode of a file by its shown path; None if there is no regular file."""
    try:
        with open_parent(tree, shown) as (directory, name):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def read_at(tree: Tree, shown: str, most: int) -> bytes | None:
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
