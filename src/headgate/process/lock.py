"""One process at a time works in a repository; the lock ends with the process that holds it."""

import fcntl
import os
import time
from pathlib import Path
from typing import IO


class FileLock:
    """An advisory lock on a file. The holder's process id stands in it, for people.

    A held lock can be handed to a child process without ever being free in between: the child is given the
    descriptor and adopts it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def try_acquire(self) -> bool:
        """Takes the lock if nobody has it. Somebody who only looks (`is_held`) does not count."""
        file = _open(self.path)
        while not _lock(file, fcntl.LOCK_EX):
            if not _lock(file, fcntl.LOCK_SH):
                file.close()
                return False
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.001)
        self._keep(file)
        return True

    def adopt(self, descriptor: int) -> bool:
        """Takes over the lock that a parent process handed on with an open file."""
        try:
            same = os.path.samestat(os.fstat(descriptor), self.path.stat())
        except OSError:
            return False
        if not same:
            return False
        os.set_inheritable(descriptor, False)
        file = os.fdopen(descriptor, "r+b")
        if not _lock(file, fcntl.LOCK_EX):
            file.close()
            return False
        self._keep(file)
        return True

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._file is not None

    def fileno(self) -> int:
        """The descriptor that a child process has to inherit to adopt the lock."""
        if self._file is None:
            raise ValueError("The lock is not held.")
        return self._file.fileno()

    def hand_over(self) -> None:
        """Lets go of a lock that a child process has inherited; it stays locked."""
        if self._file:
            self._file.close()
            self._file = None

    def is_held(self) -> bool:
        """Whether somebody has the lock now."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            return not _lock(file, fcntl.LOCK_SH)

    def release(self) -> None:
        if self._file:
            self._file.truncate(0)
            # A process that is just being forked may hold a copy of the descriptor; this frees them all.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None

    def holder(self) -> str:
        """The process id that the holder left, or nothing."""
        return self.path.read_text(errors="replace").strip() if self.path.exists() else ""

    def _keep(self, file: IO[bytes]) -> None:
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()).encode())
        file.flush()
        self._file = file


def _open(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), "r+b")


def _lock(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
