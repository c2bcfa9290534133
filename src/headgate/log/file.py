"""The store's file: opened, moved aside if it is damaged, written again if it is deleted while it is open.

Opening costs the same whatever the file holds. Only where there is a reason (its first bytes are odd, SQLite
refuses it, or some process met damage and left a note) is the whole of it checked, on a copy. A damaged file
is moved aside, and a new one is started; what can be read of the old one is for `sqlite3 FILE .recover`.
"""

import fcntl
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from headgate.errors import StoreError, describe_system
from headgate.log.database import (
    MIGRATIONS,
    PARTS,
    RowUnknown,
    StoreDamaged,
    check_objects,
    check_parts,
    connect,
    damage_marker,
    decode_event,
    decode_task,
    migrate,
    store_errors,
)
from headgate.log.mark import SequenceMark
from headgate.regular_files import PlantedFile, lock_within, open_own, read_own

WAIT_SECONDS = 1.0
"""How long a damaged store is waited for while other processes have it open."""
PLAUSIBLE_VERSION = len(MIGRATIONS) + 1000
"""A higher one was not written by a newer Headgate, but by an accident."""
_MAGIC = b"SQLite format 3\0"


class StoreUse:
    """One use of the store's file. Many processes may use it; one that moves it aside must be alone."""

    _here: ClassVar[Counter[Path]] = Counter()
    """How many there are in this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = open_own(_part(path, ".users"), os.O_RDWR | os.O_CREAT, 0o644)
        except PlantedFile:
            raise
        except OSError as error:
            raise StoreError(f"cannot open {describe_system(error, path)}") from error
        self._here[path] += 1

    @property
    def only_one_here(self) -> bool:
        return self._here[self._path] == 1

    def join(self) -> None:
        """Waits while another process sets the file aside."""
        if not lock_within(self._file, fcntl.LOCK_SH):
            raise StoreError(f"another process keeps {self._path} locked: end it and run again")

    def try_alone(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            return False
        return True

    def leave(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._here[self._path] -= 1


def open_database(path: Path, mark: SequenceMark | None) -> tuple[sqlite3.Connection, StoreUse, str]:
    """A connection to a sound store with its tables up to date, and a note if a damaged one was set aside."""
    with ExitStack() as stack:
        use = StoreUse(path)
        stack.callback(use.leave)
        db, note = _open_shared(path, use, mark)
        stack.pop_all()
    return db, use, note


def _open_shared(path: Path, use: StoreUse, mark: SequenceMark | None) -> tuple[sqlite3.Connection, str]:
    note, checked = "", False
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        use.join()
        damage = StoreDamaged(f"{path} is damaged")
        if checked or not _is_suspect(path, use.only_one_here):
            try:
                return _open(path, mark), note
            except StoreDamaged as error:
                damage = error
        if checked:
            raise damage
        if use.try_alone():
            note, checked = _set_aside_if_damaged(path, mark), True
        elif time.monotonic() > deadline:
            raise StoreDamaged(
                f"{path} is damaged, and other Headgate processes are using it: end them and run again"
            )
        else:
            time.sleep(0.02)


def _open(path: Path, mark: SequenceMark | None = None) -> sqlite3.Connection:
    """A new file goes on with task ids after those in the reports: an id is never used twice."""
    if mark and not path.exists():
        mark.forget()
    noted = mark.read() if mark else (0, 0)  # first: what is committed meanwhile is noted after that
    db = connect(path)
    try:
        with store_errors(path), db:
            if migrate(db, path) and (last := _last_known_task(path)):
                db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('tasks', ?)", (last,))
            db.execute("SELECT 1 FROM sqlite_master, tasks LIMIT 1").fetchone()
            check_objects(db, path)
            if mark:
                mark.check(noted, db, path)
    except StoreError:
        db.close()
        raise
    return db


def _is_suspect(path: Path, may_read: bool) -> bool:
    """Whether there is a reason to look closer.

    A process that has the database open must not open and close the file by itself: on POSIX systems that
    drops the locks that SQLite holds on it.
    """
    check_parts(path)
    if os.path.lexists(damage_marker(path)):
        return True
    if not may_read:
        return False
    wal = _part(path, "-wal")
    logged = wal.exists() and wal.stat().st_size > 0
    size = path.stat().st_size if path.exists() else 0
    if size == 0:
        return logged  # SQLite would take it for a new one and throw the log away
    try:
        return _is_odd(read_own(path, most=100), size, logged)
    except PermissionError:
        return False  # SQLite says it better


def _is_odd(header: bytes, size: int, logged: bool) -> bool:
    if len(header) < 100 or not header.startswith(_MAGIC):
        return True
    page = int.from_bytes(header[16:18], "big")
    return (
        page < 512
        or page & (page - 1) != 0
        or (size % page != 0 and not logged)
        or (int.from_bytes(header[28:32], "big") * page > size and not logged)
        or header[18:24] not in (b"\1\1\0\x40\x20\x20", b"\2\2\0\x40\x20\x20")
        or int.from_bytes(header[44:48], "big") not in (0, 4)
        or _version(header) > PLAUSIBLE_VERSION
    )


def _version(header: bytes) -> int:
    return int.from_bytes(header[60:64], "big")


def _set_aside_if_damaged(path: Path, mark: SequenceMark | None) -> str:
    """Moves a damaged store aside and returns a note for people. Nobody else has it open."""
    try:
        there = any(_part(path, part).exists() for part in PARTS)
        note = "" if not there or _is_sound(path) else _set_aside(path)
        damage_marker(path).unlink(missing_ok=True)
        if note:
            _open(path, mark).close()  # whoever comes next finds a whole one
    except OSError as error:
        raise StoreError(f"{path} is damaged and cannot be moved aside: {error}") from error
    return note


def _set_aside(path: Path) -> str:
    aside = _name_aside(path)
    for part in PARTS:  # the file itself first: after a crash, a log without its file is set aside as well
        if _part(path, part).exists():
            _part(path, part).rename(_part(aside, part))
    sync_folder(path.parent)
    return (
        f"{path} was damaged and was moved aside as {aside.name}. A new one was started; the tasks in the old"
        f" one are not in it. To read them: sqlite3 {aside} .recover | sqlite3 recovered.db"
    )


def _is_sound(path: Path) -> bool:
    """Whether SQLite and Headgate can read all of it; found out on a copy, which SQLite may change."""
    if not path.exists():
        return False
    with tempfile.TemporaryDirectory(prefix="headgate-check-", dir=path.parent) as folder:
        copy = Path(folder) / path.name
        for part in PARTS[:2]:
            if _part(path, part).exists():
                shutil.copyfile(_part(path, part), _part(copy, part))
        size, logged = copy.stat().st_size, _part(copy, "-wal").exists()
        if size == 0 or (size % 512 and not logged):
            return False  # SQLite would take it for a new one, or put zeros where its end is missing
        if not logged and _version(copy.read_bytes()[:100]) > PLAUSIBLE_VERSION:
            return False
        try:
            with store_errors(copy), closing(_open(copy)) as db:
                found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
                for row in db.execute("SELECT n, state, created, spec FROM tasks"):
                    with suppress(RowUnknown):
                        decode_task(*row)
                for row in db.execute("SELECT seq, task, path, turn, at, kind, body FROM events"):
                    with suppress(RowUnknown):
                        decode_event(row)
                for _ in db.execute("SELECT content FROM bodies UNION ALL SELECT text FROM memories"):
                    pass  # reading it is the test
                return bool(found == "ok")
        except StoreDamaged:
            return False
        except StoreError as error:
            raise StoreError(str(error).replace(str(copy), str(path))) from error


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


def _part(path: Path, part: str) -> Path:
    return path.with_name(path.name + part)


def sync_folder(path: Path) -> None:
    """Makes what was created, renamed or removed in a folder last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class StoreFile:
    """One connection to the file, and the lock that says that the file is in use."""

    def __init__(self, path: Path, mark: SequenceMark | None = None) -> None:
        self._path = path
        self._mark = mark
        self._old: list[sqlite3.Connection] = []
        self.note = ""
        """What people have to be told: that a damaged file was set aside."""
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
        """Opens the file that is in its place now."""
        self._use.leave()
        self._old.append(self.db)  # another thread may be reading from it just now
        self._open()

    def recreate(self) -> None:
        """Writes the file again from the open connection. Blocks."""
        try:
            with tempfile.TemporaryDirectory(prefix="headgate-back-", dir=self._path.parent) as folder:
                copy = Path(folder) / self._path.name
                with store_errors(copy), closing(sqlite3.connect(copy)) as new:
                    self.db.backup(new)
                for part in ("-wal", "-shm"):
                    _part(self._path, part).unlink(missing_ok=True)
                copy.replace(self._path)
        except OSError as error:
            raise StoreError(f"{self._path} was deleted and cannot be restored: {error.strerror}") from error
        self.reopen()

    def close(self) -> None:
        for connection in (self.db, *self._old):
            connection.close()
        self._use.leave()

    def _open(self) -> None:
        self.db, self._use, note = open_database(self._path, self._mark)
        self.note = self.note or note
        self._opened = _identity(self._path)
        self.openings += 1


def _is_database(path: Path) -> bool:
    try:
        return read_own(path, most=len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of its name; None if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
