"""One process at a time works in a repository; the lock ends with the process that holds it."""

import fcntl
import os
from pathlib import Path
from typing import IO


class FileLock:
    """An advisory lock on a file. The holder's process id stands in it, for people."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def try_acquire(self) -> bool:
        """Takes the lock if nobody has it."""
        file = os.fdopen(
            os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), "r+b"
        )
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()).encode())
        file.flush()
        self._file = file
        return True

    def is_held(self) -> bool:
        """Whether somebody has the lock now."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def release(self) -> None:
        if self._file:
            self._file.truncate(0)
            self._file.close()
            self._file = None

    def holder(self) -> str:
        """The process id that the holder left, or nothing."""
        return self.path.read_text(errors="replace").strip() if self.path.exists() else ""
