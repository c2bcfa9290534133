"""Undoing what a command did to protected paths: who is asked, what is reported, how a path is put back."""

import asyncio
import contextlib
import errno
import os
import secrets
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from headgate.errors import HeadgateError
from headgate.guard.records import Record, RecordStore, kind_of
from headgate.process import uninterrupted
from headgate.regular_files import TEMPORARY, remove_tree
from headgate.tree import ConfinedTree

T = TypeVar("T")
Change = Literal["changed", "deleted", "created"]
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_ASIDE_FILES = 1000
_MAX_ASIDE_BYTES = 100_000_000
_OWNER_MAY_ALL = 0o700


@dataclass(frozen=True, slots=True)
class Restored:
    """One protected path that had been changed."""

    path: str
    """As it is shown."""
    change: Change
    reason: str
    """Why it is protected: `it is out of bounds for this task`."""
    problem: str = ""
    """Why it could not be put back; empty if it was."""
    between: bool = False
    """It happened after a command had ended: something that the command left running did it, or a person."""
    decides: bool = False
    """A verification in which it happened may have run something else than what is there now."""
    copy: str = field(default="", compare=False)
    """Where what was there is kept, if it is."""
    person: bool = False
    """A person may have done it as well: nobody can tell."""

    def sentence(self) -> str:
        """What happened, for the model."""
        done = "Removed" if self.change == "created" else "Restored"
        by = "it was {} while the command ran" if self.person else "the command had {} it"
        by = "it was {} between two commands" if self.between else by
        why = f"{self.reason}; {by.format(self.change)}"
        if self.problem:
            return f"Could not be {done.lower()}: {self.path} ({why}, and {self.problem})."
        return f"{done}: {self.path} ({why})."


class Protected(Protocol):
    """What the shell tool, and whoever is about to verify, asks. The calls block."""

    def begin(self) -> tuple[Restored, ...]:
        """Prepares for a command: the first time, takes note of everything as it is.

        Later, undoes what has changed since then. If a command was running when an earlier process died, what
        it changed is undone too.
        """
        ...

    def check_and_restore(self) -> tuple[Restored, ...]:
        """Undoes what has changed since the first `begin`. Nothing happens where none has been.

        A path that cannot be put back is in each answer.
        """
        ...

    def adopt(self) -> None:
        """Takes note of what a step that installs or configures has made. All else stays protected."""
        ...

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """The files of which nothing may change, as the last `begin` found them: read-only in a sandbox.

        `deciding` leaves out data, which tests may write.
        """
        ...

    def forget(self) -> None:
        """Removes what was kept, when the task has ended. What was moved aside stays."""
        ...


class Protection:
    """Several protections as one."""

    def __init__(self, parts: Sequence[Protected]) -> None:
        self._parts = tuple(parts)

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        return tuple(restored for part in self._parts for restored in part.begin())

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        return tuple(restored for part in self._parts for restored in part.check_and_restore())

    def adopt(self) -> None:
        """See Protected."""
        for part in self._parts:
            part.adopt()

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See Protected."""
        return tuple(path for part in self._parts for path in part.paths(deciding=deciding))

    def forget(self) -> None:
        """See Protected."""
        for part in self._parts:
            part.forget()


class ProtectionFailed(HeadgateError):
    """Protected files cannot be recorded or restored, so the task cannot go on."""


@asynccontextmanager
async def protected_while(protected: Protected | None, restored: list[Restored]) -> AsyncIterator[None]:
    """Whatever is done to protected files in here is undone, however it ends; `restored` receives what."""
    if protected is None:
        yield
        return
    try:
        restored += await _to_its_end(protected.begin)
        yield
    finally:
        restored += await _to_its_end(protected.check_and_restore)


async def protect_between(
    protected: Protected | None, restored: list[Restored], *, prepared: bool, more: bool
) -> None:
    """Between two of several commands: what follows must not run what the one before it has changed.

    `prepared`: that one was to install or configure. `more`: another one follows.
    """
    if protected is None:
        return
    if prepared:
        await _to_its_end(protected.adopt)
    if more:
        restored += await _to_its_end(protected.begin)


async def _to_its_end(work: Callable[[], T]) -> T:
    """Does it in a thread. What goes wrong is not taken for a failure of what runs: ProtectionFailed."""
    try:
        return await uninterrupted(asyncio.to_thread(work))
    except OSError as error:
        raise ProtectionFailed(str(error)) from error


# Putting a path back as it was recorded. Every step is a plain name in an open directory, as in `paths`.


class Restorer:
    """Writes what a store has kept. Each method raises OSError where the file system does not let it.

    Whoever changed a file meanwhile may have been a person: what stood in the way is moved to `aside` rather
    than removed, as long as it is not too much.
    """

    def __init__(self, tree: ConfinedTree, store: RecordStore, aside: Path) -> None:
        self._tree = tree
        self._store = store
        self._aside = aside
        self._moved = 0
        self.copies: dict[str, str] = {}
        """Where what was replaced is kept, by its path."""
        self._room = _MAX_ASIDE_BYTES

    def remove(self, path: str) -> bool:
        """Removes what a command made; False for a directory in which something has to stay."""
        with self._parent(path) as (directory, name):
            status = _look(directory, name)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                self._clear(path, directory, name, status)
            elif status is not None:
                try:
                    os.rmdir(name, dir_fd=directory)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    return False
        return True

    def remove_tree(self, path: str) -> bool:
        """Removes a directory of any depth."""
        with self._parent(path) as (directory, name):
            remove_tree(name, directory)
        return True

    def put(self, path: str, record: Record) -> bool:
        """Makes a path what the record says; False where that cannot be done for want of its content."""
        with self._parent(path) as (directory, name):
            match record.kind:
                case "directory":
                    self._put_directory(path, directory, name, record)
                case "link":
                    self._put_link(path, directory, name, record)
                case "file":
                    return self._put_file(path, directory, name, record)
                case "other":
                    return False
        return True

    def set_mode(self, path: str, record: Record) -> bool:
        """Gives a path its mode and owner back; its content is as it was."""
        with self._parent(path) as (directory, name):
            _set_mode(directory, name, record)
        return True

    def _put_directory(self, path: str, directory: int, name: str, record: Record) -> None:
        status = _look(directory, name)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            self._clear(path, directory, name, status)
            status = None
        if status is None:
            os.mkdir(name, 0o700, dir_fd=directory)
        _set_mode(directory, name, record)

    def _put_link(self, path: str, directory: int, name: str, record: Record) -> None:
        temporary = TEMPORARY + secrets.token_hex(8)
        os.symlink(record.content, temporary, dir_fd=directory)
        self._replace(path, directory, name, temporary)

    def _put_file(self, path: str, directory: int, name: str, record: Record) -> bool:
        temporary = TEMPORARY + secrets.token_hex(8)
        descriptor = os.open(temporary, _NEW, 0o600, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if not self._store.copy(record.content, file):
                    os.unlink(temporary, dir_fd=directory)
                    return False
                file.flush()
                if os.fstat(descriptor).st_uid != record.owner[0] or os.geteuid() == 0:
                    with contextlib.suppress(PermissionError):  # only root gives files away
                        os.fchown(descriptor, *record.owner)
                os.fchmod(descriptor, record.mode)
                os.utime(descriptor, ns=(record.modified, record.modified))
                os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            raise
        self._replace(path, directory, name, temporary)
        return True

    def _replace(self, path: str, directory: int, name: str, temporary: str) -> None:
        """Renames the new file over the old: a file in one step, a directory in two."""
        try:
            status = _look(directory, name)
            if status is not None and stat.S_ISDIR(status.st_mode):
                self._clear(path, directory, name, status)
            elif status is not None:
                self._link_aside(path, directory, name, status)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.unlink(temporary, dir_fd=directory)
            raise

    def _clear(self, path: str, directory: int, name: str, status: os.stat_result) -> None:
        """Takes away whatever has the name: aside if it is worth keeping, and off the disk otherwise."""
        place = self._place_aside(path, status)
        if place is not None:
            with contextlib.suppress(OSError):  # another file system, or one that says no: it is removed
                os.rename(name, place, src_dir_fd=directory)
                self.copies[path] = str(place)
                return
        if stat.S_ISDIR(status.st_mode):
            remove_tree(name, directory)
        else:
            os.unlink(name, dir_fd=directory)

    def _link_aside(self, path: str, directory: int, name: str, status: os.stat_result) -> None:
        place = self._place_aside(path, status)
        if place is not None:
            with contextlib.suppress(OSError):  # no links here: restoring matters more
                os.link(name, place, src_dir_fd=directory, follow_symlinks=False)
                self.copies[path] = str(place)

    def _place_aside(self, path: str, status: os.stat_result) -> Path | None:
        size = status.st_size if kind_of(status) == "file" else 0
        worthless = kind_of(status) in ("link", "other") or (kind_of(status) == "file" and not size)
        if worthless or self._moved >= _MAX_ASIDE_FILES or size > self._room:
            return None
        self._room -= size
        self._moved += 1
        # A folder for each: what was moved before may hold links, and no path may lead through those.
        while (folder := self._aside / f"{self._moved:04}").exists():
            self._moved += 1
        place = folder / path
        place.parent.mkdir(parents=True, mode=0o700)
        return place

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that a path is in, open, and writable for as long as it is used."""
        parent, _, name = path.rpartition("/")
        descriptor = self._tree.open_directory(parent)
        try:
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
            if mode & _OWNER_MAY_ALL != _OWNER_MAY_ALL:
                os.fchmod(descriptor, mode | _OWNER_MAY_ALL)
            try:
                yield descriptor, name
            finally:
                if mode & _OWNER_MAY_ALL != _OWNER_MAY_ALL:
                    os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def _look(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _set_mode(directory: int, name: str, record: Record) -> None:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if (status.st_uid, status.st_gid) != record.owner:
        with contextlib.suppress(PermissionError):  # only root gives files away
            os.chown(name, *record.owner, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        os.chmod(name, record.mode, dir_fd=directory)
