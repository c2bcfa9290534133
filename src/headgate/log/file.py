"""The store's file: opened, moved aside if it cannot be, written again if it is deleted while it is open.

Opening costs the same whatever the file holds. A file that SQLite or Headgate cannot open is moved aside, and
a new one is started; what can be read of the old one is for `sqlite3 FILE .recover`.
"""

import fcntl
import os
import re
import sqlite3
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from headgate.errors import StoreError, describe_system
from headgate.log.database import PARTS, StoreDamaged, check_objects, connect, migrate, store_errors
from headgate.regular_files import PlantedFile, lock_within, open_own, read_own, remove_own_folder

WAIT_SECONDS = 1.0
"""How long a damaged store is waited for while other processes have it open."""


class StoreFile:
    """One connection to the file, and the lock that says that the file is in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._old: list[sqlite3.Connection] = []
        self.openings = 0
        """How often the file was opened."""
        self._lock = _open_lock(path)
        try:
            self.db, self.note = _open_or_begin(path, self._lock)
        except (StoreError, OSError):
            os.close(self._lock)
            raise
        self._keep(self.db)

    def is_lost(self) -> bool:
        """Whether the file was deleted, or another is in its place."""
        return _identity(self._path) != self._opened

    def follow(self) -> bool:
        """Opens another store that was put in its place. What else a command puts there is not opened."""
        if _identity(self._path) in (None, self._opened) or not _is_database(self._path):
            return False
        db = _open(self._path)
        lock = _open_lock(self._path)
        _share(self._path, lock)
        before, self._lock = self._lock, lock
        os.close(before)
        self._keep(db)
        return True

    def recreate(self) -> None:
        """Writes the file again from the open connection. Blocks."""
        try:
            with tempfile.TemporaryDirectory(prefix="headgate-back-", dir=self._path.parent) as folder:
                copy = Path(folder) / self._path.name
                with store_errors(copy):
                    self.db.execute("VACUUM INTO ?", (str(copy),))
                for part in PARTS:
                    remove_own_folder(_part(self._path, part))  # whatever a command has put there
                    _part(self._path, part).unlink(missing_ok=True)
                copy.replace(self._path)
        except OSError as error:
            raise StoreError(f"{self._path} was deleted and cannot be restored: {error.strerror}") from error
        if not self.follow():
            raise StoreError(f"{self._path} was deleted and cannot be opened again")

    def close(self) -> None:
        for connection in (self.db, *self._old):
            connection.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _keep(self, db: sqlite3.Connection) -> None:
        if db is not self.db:
            self._old.append(self.db)  # another thread may be reading from it just now
        self.db = db
        self._opened = _identity(self._path)
        self.openings += 1


def _open_or_begin(path: Path, lock: int) -> tuple[sqlite3.Connection, str]:
    """A connection, and a note if a damaged file was moved aside: only who has it open alone may do that."""
    _share(path, lock)
    try:
        return _open(path), ""
    except StoreDamaged as error:
        fcntl.flock(lock, fcntl.LOCK_UN)  # two that wait for each other would wait for nothing
        if not lock_within(lock, fcntl.LOCK_EX, WAIT_SECONDS):
            _share(path, lock)
            with suppress(StoreDamaged):
                return _open(path), ""  # those who use it had moved the damaged file aside before
            raise StoreDamaged(
                f"{path} is damaged, and other Headgate processes are using it: end them and run again"
            ) from error
    try:
        return _open(path), ""  # another process has just moved it aside
    except StoreDamaged:
        note = _set_aside(path)
        return _open(path), note
    finally:
        _share(path, lock)


def _open(path: Path) -> sqlite3.Connection:
    """A new file goes on with task ids after those in the reports: an id is never used twice."""
    db = connect(path)
    try:
        with store_errors(path), db:
            if migrate(db, path) and (last := _last_known_task(path)):
                db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('tasks', ?)", (last,))
            db.execute("SELECT 1 FROM sqlite_master, tasks LIMIT 1").fetchone()
            check_objects(db, path)
    except StoreError:
        db.close()
        raise
    return db


def _set_aside(path: Path) -> str:
    """Moves a damaged store aside and returns a note for people."""
    aside = _name_aside(path)
    try:
        for part in PARTS:
            if _part(path, part).exists():
                _part(path, part).rename(_part(aside, part))
        sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path} is damaged and cannot be moved aside: {error}") from error
    return (
        f"{path} was damaged and was moved aside as {aside.name}. A new one was started; the tasks in the old"
        f" one are not in it. To read them: sqlite3 {aside} .recover | sqlite3 recovered.db"
    )


def _name_aside(path: Path) -> Path:
    name = f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = [path.with_name(each) for each in (name, *(f"{name}-{number}" for number in range(2, 1000)))]
    return next(each for each in names if not any(_part(each, part).exists() for part in PARTS))


def _last_known_task(path: Path) -> int:
    """The highest task id that the reports name."""
    try:
        text = read_own(path.with_name("task_reports.jsonl")).decode("utf-8", "replace")
    except FileNotFoundError:
        return 0
    return max((int(number) for number in re.findall(r'"task_id":\s*"t(\d{1,12})"', text)), default=0)


def _open_lock(path: Path) -> int:
    """The file whose lock is shared by all who have the store open."""
    try:
        return open_own(_part(path, ".users"), os.O_RDWR | os.O_CREAT, 0o644)
    except PlantedFile:
        raise
    except OSError as error:
        raise StoreError(f"cannot open {describe_system(error, path)}") from error


def _share(path: Path, lock: int) -> None:
    """Says that the file is in use, after waiting for a process that moves it aside."""
    if not lock_within(lock, fcntl.LOCK_SH):
        raise StoreError(f"another process keeps {path} locked: end it and run again")


def _part(path: Path, part: str) -> Path:
    return path.with_name(path.name + part)


def sync_folder(path: Path) -> None:
    """Makes what was created, renamed or removed in a folder last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_database(path: Path) -> bool:
    """Whether it begins like one: to open anything else, SQLite could change the log that is beside it."""
    try:
        return read_own(path, most=16) == b"SQLite format 3\0"
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of its name; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
