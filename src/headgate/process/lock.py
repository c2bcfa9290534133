"""One process at a time works in a repository; the lock ends with the process that holds it."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from headgate.regular_files import OwnFolder, PlantedFile, open_own, read_own


class FileLock:
    """An advisory lock on a file. The holder's process id stands in it, for people.

    A command can remove the file, and the next process would lock a new one. That is why a folder, which
    cannot be removed as easily, is locked with it where the file system lets folders be locked.

    A held lock can be handed to a child process without ever being free in between: the child is given the
    descriptors and adopts them.
    """

    def __init__(self, path: Path, folder: Path | None = None) -> None:
        self.path = path
        self._folder = folder
        self._file = -1
        self._folder_file = -1

    def try_acquire(self) -> bool:
        """Takes the lock if nobody has it. Somebody who only looks (`is_held`) does not count."""
        folder = self._open_folder()
        try:
            if folder >= 0 and not _take(folder):
                os.close(folder)
                return False
        except OSError:  # a network file system that does not lock folders
            os.close(folder)
            folder = -1
        file = self._take_file()
        if file < 0:
            if folder >= 0:
                os.close(folder)
            return False
        self._keep(file, folder)
        return True

    def adopt(self, file: int, folder: int = -1) -> bool:
        """Takes over the lock that a parent process handed on with open files."""
        given = [descriptor for descriptor in (file, folder) if descriptor >= 0]
        places = [self.path, self._folder or self.path.parent]
        if not all(_is_at(*pair) for pair in zip(given, places, strict=False)):
            return False
        for descriptor in given:
            os.set_inheritable(descriptor, False)
        if not all(map(_take, given)):
            for descriptor in given:
                os.close(descriptor)
            return False
        self._keep(file, folder)
        return True

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._file >= 0

    def is_still_held(self) -> bool:
        """Whether this process still keeps every other one from working.

        A command may have removed or replaced the file: then the file that is there now is locked, too. False
        if another process was faster.
        """
        if not self.held:
            return False
        if self._folder and self._folder_file >= 0 and not _is_at(self._folder_file, self._folder):
            return False
        if _is_at(self._file, self.path):
            return True
        OwnFolder(self.path.parent).make(self.path.parent)
        try:
            file = self._take_file()
        except PlantedFile:
            if self._folder_file < 0:
                raise
            self.path.unlink()  # the lock on the folder keeps every other process from working
            file = self._take_file()
        if file < 0:
            return False
        os.close(self._file)
        self._keep(file, self._folder_file)
        return True

    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that a child process has to inherit to adopt the lock."""
        if not self.held:
            raise ValueError("The lock is not held.")
        return (self._file,) if self._folder_file < 0 else (self._file, self._folder_file)

    def hand_over(self) -> None:
        """Lets go of a lock that a child process has inherited; it stays locked."""
        if self.held:
            for descriptor in self.descriptors():
                os.close(descriptor)
            self._file = self._folder_file = -1

    def is_held(self) -> bool:
        """Whether somebody has the lock now."""
        file, folder = -1, self._open_folder()
        try:
            with suppress(FileNotFoundError):
                file = open_own(self.path)
            if file >= 0 and not _lock(file, fcntl.LOCK_SH):
                return True
            with suppress(OSError):  # a network file system that does not lock folders
                return folder >= 0 and not _lock(folder, fcntl.LOCK_SH)
            return False
        finally:
            for descriptor in (file, folder):
                if descriptor >= 0:
                    os.close(descriptor)

    def release(self) -> None:
        if self.held:
            os.ftruncate(self._file, 0)
            for descriptor in self.descriptors():
                # A process that is just being forked may hold a copy of it; this frees them all.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            self.hand_over()

    def holder(self) -> str:
        """The process id that the holder left, or nothing."""
        try:
            return read_own(self.path, most=40).decode("ascii", "replace").strip()
        except OSError:
            return ""

    def _keep(self, file: int, folder: int) -> None:
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file, self._folder_file = file, folder

    def _take_file(self) -> int:
        """The descriptor of the locked file; -1 if somebody else has the lock."""
        while True:
            file = open_own(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            if not _take(file):
                os.close(file)
                return -1
            if _is_at(file, self.path):
                return file
            os.close(file)  # it was removed between opening and locking

    def _open_folder(self) -> int:
        """The folder's descriptor; -1 if there is none."""
        if self._folder is None:
            return -1
        try:
            return os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return -1


def _take(descriptor: int) -> bool:
    while not _lock(descriptor, fcntl.LOCK_EX):
        if not _lock(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(0.001)
    return True


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file or folder is the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
