"""Opening the store's file, and what happens to a damaged one: it is set aside and its tasks are recovered.

Opening costs the same whatever the file holds. Only where there is a reason (its first bytes are odd, SQLite
refuses it, or some process met damage and left a note) is the whole of it checked, on a copy.
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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import orjson

from headgate.engine.store.database import (
    MIGRATIONS,
    RowUnknown,
    StoreDamaged,
    connect,
    decode_event,
    decode_task,
    migrate,
    store_errors,
    suspicion,
)
from headgate.engine.store.pages import MAGIC
from headgate.engine.store.salvage import Salvage, salvage
from headgate.errors import StoreError

WAIT_SECONDS = 1.0
"""How long a damaged store is waited for while other processes have it open."""
PLAUSIBLE_VERSION = len(MIGRATIONS) + 1000
"""A higher one was not written by a newer Headgate, but by an accident."""
_PARTS = ("", "-wal", "-shm")
"""The files of a database, by what is added to its name."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What was done with a damaged store."""

    note: str
    """One sentence or two for people."""
    ended: tuple[str, ...] = ()
    """Tasks that were under way and ended INFRA_ERROR, because part of their log is lost."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A recovery that is ready: written down before the first file is moved, so that a crash loses none."""

    aside: str
    note: str
    ended: tuple[str, ...]


class Share:
    """A share in a store: many processes may have one; who sets the file aside must be alone."""

    _here: ClassVar[Counter[Path]] = Counter()
    """How many there are in this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path.with_name(path.name + ".users"), flags, 0o644)
        except OSError as error:
            raise StoreError(f"cannot open {path}: {error.strerror}; check its folder") from error
        self._here[path] += 1

    @property
    def only_one_here(self) -> bool:
        return self._here[self._path] == 1

    def join(self) -> None:
        """Waits while another process sets the file aside."""
        fcntl.flock(self._file, fcntl.LOCK_SH)

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


def open_store(path: Path) -> tuple[sqlite3.Connection, Share, Recovery | None]:
    """A connection to a sound store with its tables up to date, and what had to be done for it."""
    with ExitStack() as stack:
        share = Share(path)
        stack.callback(share.leave)
        db, recovery = _open_shared(path, share)
        stack.pop_all()
    return db, share, recovery


def _open_shared(path: Path, share: Share) -> tuple[sqlite3.Connection, Recovery | None]:
    recovery: Recovery | None = None
    deadline, mended = time.monotonic() + WAIT_SECONDS, False
    while True:
        share.join()
        damage = StoreDamaged(f"{path} is damaged")
        if mended or not _is_suspect(path, share.only_one_here):
            try:
                return _open(path), recovery
            except StoreDamaged as error:
                damage = error
        if mended:
            raise damage
        if share.try_alone():
            recovery, mended = _mend(path), True
        elif time.monotonic() > deadline:
            raise StoreDamaged(
                f"{path} is damaged, and other Headgate processes are using it: end them and run again"
            )
        else:
            time.sleep(0.02)


def _open(path: Path) -> sqlite3.Connection:
    db = connect(path)
    try:
        with store_errors(path), db:
            migrate(db, path)
            db.execute("SELECT 1 FROM sqlite_master, tasks LIMIT 1").fetchone()
    except StoreError:
        db.close()
        raise
    return db


def _is_suspect(path: Path, may_read: bool) -> bool:
    """Whether there is a reason to look closer.

    A process that has the database open must not open and close the file by itself: on POSIX systems that
    drops the locks that SQLite holds on it.
    """
    if suspicion(path).exists():
        return True
    if not may_read or path.is_dir():
        return False
    wal = path.with_name(path.name + "-wal")
    logged = wal.exists() and wal.stat().st_size > 0
    size = path.stat().st_size if path.exists() else 0
    if size == 0:
        # SQLite would take it for a new one and throw the log away.
        return logged or (path.exists() and _last_known_task(path) > 0)
    try:
        with path.open("rb") as file:
            return _is_odd(file.read(100), size, logged)
    except PermissionError:
        return False  # SQLite says it better


def _is_odd(header: bytes, size: int, logged: bool) -> bool:
    if len(header) < 100 or not header.startswith(MAGIC):
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


def _mend(path: Path) -> Recovery | None:
    """Finishes a recovery, begins one, or finds that the store is sound. Nobody else has it open."""
    try:
        plan = _read_plan(path)
        if plan is None:
            if _is_sound(path):
                suspicion(path).unlink(missing_ok=True)
                return None
            plan = _prepare(path)
        _swap(path, plan)
    except OSError as error:
        raise StoreError(f"{path} is damaged and cannot be moved aside: {error}") from error
    return Recovery(plan.note, plan.ended)


def _read_plan(path: Path) -> _Plan | None:
    """The recovery that another process had ready when it was cut short."""
    try:
        plan = orjson.loads(suspicion(path).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return _Plan(plan["aside"], plan["note"], tuple(plan["ended"]))


def _is_sound(path: Path) -> bool:
    """Whether SQLite and Headgate can read all of it; found out on a copy, which SQLite may change."""
    if not path.exists():
        return False
    with tempfile.TemporaryDirectory(prefix="headgate-check-", dir=path.parent) as folder:
        copy = Path(folder) / path.name
        for part in _PARTS[:2]:
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
                for _ in db.execute("SELECT content FROM bodies"):
                    pass  # reading it is the test
                return bool(found == "ok")
        except StoreDamaged:
            return False
        except StoreError as error:
            raise StoreError(str(error).replace(str(copy), str(path))) from error


def _prepare(path: Path) -> _Plan:
    """Writes the new store, completely, beside the damaged one."""
    new = _part(path, ".new")
    for part in _PARTS:
        _part(new, part).unlink(missing_ok=True)
    now = time.time()
    result = salvage(path, new, _last_known_task(path), now)
    aside = _name_aside(path, now)
    plan = _Plan(aside, _describe(path, aside, result), result.ended)
    draft = _part(suspicion(path), ".new")
    with draft.open("wb") as file:
        file.write(orjson.dumps(asdict(plan)))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(suspicion(path))
    _sync(path.parent)
    return plan


def _swap(path: Path, plan: _Plan) -> None:
    """Moves the damaged files aside and the new one into their place; may be done again after a crash."""
    new = _part(path, ".new")
    if new.exists():
        for part in _PARTS:
            if _part(path, part).exists():
                _part(path, part).rename(_part(path.with_name(plan.aside), part))
        new.rename(path)
        _sync(path.parent)
    suspicion(path).unlink(missing_ok=True)


def _name_aside(path: Path, now: float) -> str:
    name = f"{path.name}.damaged-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
    names = [name, *(f"{name}-{number}" for number in range(2, 1000))]
    return next(
        each for each in names if not any(_part(path.with_name(each), part).exists() for part in _PARTS)
    )


def _describe(path: Path, aside: str, result: Salvage) -> str:
    tasks = "1 task was" if result.kept == 1 else f"{result.kept or 'No'} tasks were"
    lost = f"; at most {result.lost} could not be read" if result.lost else ""
    ended = f", and {', '.join(result.ended)} had to be ended" if result.ended else ""
    return f"{path} was damaged and was moved aside as {aside}. {tasks} recovered{ended}{lost}."


def _last_known_task(path: Path) -> int:
    """The highest task id that the reports name: an id is never used twice, whatever became of the store."""
    reports = path.with_name("task_reports.jsonl")
    text = reports.read_text(errors="replace") if reports.exists() else ""
    return max((int(number) for number in re.findall(r'"task_id":\s*"t(\d{1,12})"', text)), default=0)


def _part(path: Path, part: str) -> Path:
    return path.with_name(path.name + part)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The store's file as one process has it open, and what happens if it is deleted or replaced meanwhile.


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
