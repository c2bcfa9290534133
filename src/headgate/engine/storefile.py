"""The store's file as one process has it open, and what happens if it is deleted or replaced meanwhile.

SQLite goes on with the file that it opened, so nothing is lost as long as one process has it open.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from headgate.engine.database import store_errors
from headgate.engine.pages import MAGIC
from headgate.engine.recovery import Recovery, open_store
from headgate.errors import StoreError


class StoreFile:
    """One connection, and the share in the file that goes with it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._old: list[sqlite3.Connection] = []
        self.recovery: Recovery | None = None
        self.openings = 0
        """How often the file was opened."""
        self._open()

    def is_lost(self) -> bool:
        """Whether the file was deleted, or another is in its place."""
        return _identity(self._path) != self._opened

    def is_replaced(self) -> bool:
        """Whether another database is in its place; what else a command puts there is not for us to open."""
        return _identity(self._path) not in (None, self._opened) and _is_database(self._path)

    def reopen(self) -> None:
        """Goes on with the file that is in its place now."""
        self._share.leave()
        self._old.append(self.db)  # another thread may be reading from it just now
        self._open()

    def put_back(self) -> None:
        """Writes the file again as it is open here. Blocks."""
        copy = self._part(".back")
        try:
            copy.unlink(missing_ok=True)
            with store_errors(copy), closing(sqlite3.connect(copy)) as new:
                self.db.backup(new)
            for part in ("-wal", "-shm"):
                self._part(part).unlink(missing_ok=True)
            copy.replace(self._path)
        except OSError as error:
            raise StoreError(f"{self._path} was deleted and cannot be restored: {error.strerror}") from error
        self.reopen()

    def close(self) -> None:
        for connection in (self.db, *self._old):
            connection.close()
        self._share.leave()

    def _open(self) -> None:
        self.db, self._share, recovery = open_store(self._path)
        self.recovery = self.recovery or recovery
        self._opened = _identity(self._path)
        self.openings += 1

    def _part(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of its name; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
