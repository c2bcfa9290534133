"""Putting one path back as it was. Every step is a plain name in an open directory, as in `paths`."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.regular_files import TEMPORARY, remove_tree
from headgate.tree.paths import ConfinedTree

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_ASIDE_FILES = 1000
_MOST_ASIDE_BYTES = 100_000_000
_OWNER_MAY_ALL = 0o700


class Reverter:
    """Each method raises OSError where the file system does not let it.

    Whoever changed a file meanwhile may have been a person: what stood in the way is moved to `aside` rather
    than removed, as long as it is not too much.
    """

    def __init__(self, root: Path, aside: Path) -> None:
        self._tree, self._aside = ConfinedTree(root), aside
        self._moved, self._room = 0, _MOST_ASIDE_BYTES
        self.copies: dict[str, str] = {}
        """Where what was replaced is kept, by its path."""

    def remove(self, path: str, stays: Callable[[str], bool]) -> None:
        """Removes a file that was made, and empty folders above it until one `stays`."""
        with suppress(FileNotFoundError):
            with self._parent(path, makes=False) as (directory, name):
                self._clear(path, directory, name)
            while (path := path.rpartition("/")[0]) and not stays(path):
                with self._parent(path, makes=False) as (directory, name), suppress(OSError):
                    os.rmdir(name, dir_fd=directory)

    def put_link(self, path: str, target: str) -> None:
        """Makes a symbolic link again."""
        with self._parent(path) as (directory, name):
            temporary = TEMPORARY + secrets.token_hex(8)
            os.symlink(target, temporary, dir_fd=directory)
            self._replace(path, directory, name, temporary)

    def put_file(self, path: str, data: bytes, mode: int) -> None:
        """Makes a file again what it was."""
        with self._parent(path) as (directory, name):
            temporary = TEMPORARY + secrets.token_hex(8)
            descriptor = os.open(temporary, _NEW, 0o600, dir_fd=directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    _own_like(descriptor, directory)
                    os.fchmod(descriptor, mode)
                    os.fsync(descriptor)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)
                raise
            self._replace(path, directory, name, temporary)

    def _replace(self, path: str, directory: int, name: str, temporary: str) -> None:
        """Renames the new file over the old: a file in one step, a directory in two."""
        try:
            status = _look(directory, name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                self._clear(path, directory, name)
            elif status is not None and (place := self._place_aside(path, status)):
                with suppress(OSError):  # no links here: restoring matters more
                    os.link(name, place, src_dir_fd=directory, follow_symlinks=False)
                    self.copies[path] = str(place)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.unlink(temporary, dir_fd=directory)
            raise

    def _clear(self, path: str, directory: int, name: str) -> None:
        """Takes away whatever has the name: aside if it is worth keeping, and off the disk otherwise."""
        status = _look(directory, name)
        if status is None:
            return
        if place := self._place_aside(path, status):
            with suppress(OSError):  # another file system, or one that says no: it is removed
                os.rename(name, place, src_dir_fd=directory)
                self.copies[path] = str(place)
                return
        if stat.S_ISDIR(status.st_mode):
            remove_tree(name, directory)
        else:
            os.unlink(name, dir_fd=directory)

    def _place_aside(self, path: str, status: os.stat_result) -> Path | None:
        is_file = stat.S_ISREG(status.st_mode)
        size = status.st_size if is_file else 0
        worthless = not size if is_file else not stat.S_ISDIR(status.st_mode)
        if worthless or self._moved >= _MOST_ASIDE_FILES or size > self._room:
            return None
        self._room -= size
        self._moved += 1
        # A folder for each: what was moved before may hold links, and no path may lead through those.
        while (folder := self._aside / f"{self._moved:04}").exists():
            self._moved += 1
        place = folder / path
        place.parent.mkdir(parents=True, mode=0o700)
        return place

    @contextmanager
    def _parent(self, path: str, *, makes: bool = True) -> Iterator[tuple[int, str]]:
        """The directory that a path is in, open, and writable for as long as it is used.

        It is made where it is missing. What has its place, such as a link, is taken away first.
        """
        *above, name = path.split("/")
        directory = self._tree.open_directory("")
        walked: list[str] = []
        try:
            for part in above:
                walked.append(part)
                try:
                    inner = os.open(part, _FOLDER, dir_fd=directory)
                except OSError as error:
                    if not makes or error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                        raise
                    self._clear("/".join(walked), directory, part)
                    os.mkdir(part, dir_fd=directory)
                    inner = os.open(part, _FOLDER, dir_fd=directory)
                    _own_like(inner, directory)
                os.close(directory)
                directory = inner
            mode = stat.S_IMODE(os.fstat(directory).st_mode)
            if mode & _OWNER_MAY_ALL != _OWNER_MAY_ALL:
                os.fchmod(directory, mode | _OWNER_MAY_ALL)
            try:
                yield directory, name
            finally:
                if mode & _OWNER_MAY_ALL != _OWNER_MAY_ALL:
                    os.fchmod(directory, mode)
        finally:
            os.close(directory)


def _look(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _own_like(descriptor: int, directory: int) -> None:
    """Gives a file to whoever owns the directory: only root can, and has to."""
    if os.geteuid() == 0:
        status = os.fstat(directory)
        with suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
