"""The database of the store: connections, tables and their migrations, and SQLite errors in plain words."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, get_args

import orjson
from pydantic import ValidationError

from headgate.core import (
    Event,
    RewriteFinished,
    RewriteRefused,
    RewriteStarted,
    Task,
    TaskState,
    read_body,
)
from headgate.errors import StoreError
from headgate.regular_files import check_own

BUSY_MILLISECONDS = 30_000
"""How long a write waits for other processes."""
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_DAMAGE_WORDS = (
    "malformed",
    "not a database",
    "unsupported file format",
    "Could not decode to UTF-8",
    # The tables are Headgate's own: what they lack, or have already, was not written so.
    "no such table",
    "no such column",
    "already exists",
    "duplicate column",
)


_REWRITES = (RewriteStarted, RewriteFinished, RewriteRefused)
IS_REWRITE = f"kind IN {tuple(kind for body in _REWRITES for kind in body.kinds_in_log())}"
"""For queries: in these words, SQLite knows that the index of such events has them all."""


class RowDamaged(Exception):
    """A row holds what Headgate never writes."""


class RowUnknown(Exception):
    """A row is well-formed and still not understood: a newer Headgate may have written it."""


class StoreTampered(StoreError):
    """The store's file holds objects that Headgate never creates, such as triggers and views."""


class StoreDamaged(StoreError):
    """The store's file does not hold what Headgate wrote. See `file` for what comes of it."""


def _first_schema(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE tasks (n INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL, created REAL NOT NULL,"
        " spec TEXT NOT NULL)"
    )
    db.execute(
        "CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, task TEXT NOT NULL, path TEXT NOT NULL,"
        " turn INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL)"
    )
    db.execute("CREATE INDEX events_of_task ON events (task, seq)")
    db.execute("CREATE TABLE bodies (seq INTEGER PRIMARY KEY, content TEXT NOT NULL)")


def _queue_and_control(db: sqlite3.Connection) -> None:
    """`place` orders the queue and is NULL outside it; `applying` marks a proposal that was queued again."""
    db.execute("ALTER TABLE tasks ADD COLUMN place INTEGER")
    db.execute("ALTER TABLE tasks ADD COLUMN applying INTEGER NOT NULL DEFAULT 0")
    db.execute("UPDATE tasks SET place = n WHERE state = 'QUEUED'")
    db.execute("CREATE INDEX queued_tasks ON tasks (place) WHERE state = 'QUEUED'")
    db.execute("CREATE TABLE control (n INTEGER PRIMARY KEY, action TEXT NOT NULL, at REAL NOT NULL)")


def _attempts(db: sqlite3.Connection) -> None:
    """`attempts` counts the attempts at a task since its last progress: a crash leads to one more."""
    db.execute("ALTER TABLE tasks ADD COLUMN attempts INTEGER NOT NULL DEFAULT 1")


def _pins(db: sqlite3.Connection) -> None:
    """`pin` is what a task was submitted with (see `config.pinning`), until it has ended."""
    db.execute("ALTER TABLE tasks ADD COLUMN pin TEXT")


def _memories(db: sqlite3.Connection) -> None:
    """`key` stands for the normal form of the text; `tags` have spaces between them."""
    db.execute(
        "CREATE TABLE memories (n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE,"
        " text TEXT NOT NULL, tags TEXT NOT NULL, task TEXT NOT NULL, at REAL NOT NULL)"
    )


def _said(db: sqlite3.Connection) -> None:
    """Lines of people that wait to be read by a task, whose number is in `task`."""
    db.execute(
        "CREATE TABLE said (n INTEGER PRIMARY KEY AUTOINCREMENT, task INTEGER NOT NULL, text TEXT NOT NULL,"
        " at REAL NOT NULL)"
    )
    db.execute("CREATE INDEX said_to_task ON said (task, n)")


def _rewrites(db: sqlite3.Connection) -> None:
    """Finds the few tasks that were undone or merged without a look at every event."""
    db.execute(
        "CREATE INDEX rewrite_events ON events (seq, task, kind) WHERE"
        " kind IN ('undo_started', 'undo_finished', 'undo_refused',"
        " 'merge_started', 'merge_finished', 'merge_refused')"
    )


def _applied(db: sqlite3.Connection) -> None:
    """Proposals that are applied are among the rewrites."""
    db.execute("DROP INDEX rewrite_events")
    db.execute(f"CREATE INDEX rewrite_events ON events (seq, task, kind) WHERE {IS_REWRITE}")


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [
    _first_schema,
    _queue_and_control,
    _attempts,
    _pins,
    _memories,
    _said,
    _rewrites,
    _applied,
]
"""Append only: the number of functions applied is the file's schema version."""

PARTS = ("", "-wal", "-shm")
"""The files of a database, by what is added to its name."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that any number of processes may write."""
    check_parts(path)
    with store_errors(path):
        db = sqlite3.connect(
            path, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            # Larger pages than usual: most rows are a kilobyte or more, and a page holds only whole ones.
            db.execute("PRAGMA page_size = 8192")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            # After 64 pages the log is written from its start again. To sync that is quicker than to sync a
            # file that grows: a commit costs 10 to 15 % less.
            db.execute("PRAGMA wal_autocheckpoint = 64")
            # What is deleted is gone, not merely free: that was promised of a cancelled task.
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA trusted_schema = OFF")
        except (sqlite3.Error, UnicodeDecodeError):  # the latter: a message that quotes what was damaged
            db.close()
            raise
    try:
        check_parts(path)  # SQLite follows links: one may have come in between
    except OSError:
        db.close()
        raise
    return db


def check_parts(path: Path) -> None:
    """PlantedFile if a file of the database is a link or no regular file."""
    for part in (*PARTS, "-journal"):
        check_own(path.with_name(path.name + part))


@cache
def _known_objects(version: int) -> frozenset[tuple[Any, ...]]:
    """The tables and indexes of a store with so many migrations, and how they were created."""
    with closing(sqlite3.connect(":memory:")) as db:
        for step in MIGRATIONS[:version]:
            step(db)
        return frozenset(db.execute(_OBJECTS))


_OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def check_objects(db: sqlite3.Connection, path: Path, version: int | None = None) -> None:
    """StoreTampered if the database has objects that Headgate did not create: they could change any row.

    It is asked within each transaction that writes, because a command can add them at any time.
    """
    unknown = set(db.execute(_OBJECTS)) - _known_objects(len(MIGRATIONS) if version is None else version)
    if unknown:
        kind, name = sorted((str(row[0]), str(row[1])) for row in unknown)[0]
        raise StoreTampered(
            f"{path} holds the {kind} {name[:40]!r}, which Headgate did not create: a command may have"
            " changed what is stored. Move the file away and run again"
        )


def migrate(db: sqlite3.Connection, path: Path) -> bool:
    """Brings the tables up to date, within the caller's transaction; True if there were none."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == len(MIGRATIONS):
        return False
    db.execute("BEGIN IMMEDIATE")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer Headgate (schema {version}): upgrade Headgate to read it"
        )
    check_objects(db, path, version)
    for step in MIGRATIONS[version:]:
        step(db)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    return bool(version == 0)


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turns SQLite's errors, and those of rows that make no sense, into StoreErrors that say what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, RowDamaged, RowUnknown) as error:
        raise explain_store_error(path, error) from error


def explain_store_error(path: Path, error: Exception) -> StoreError:
    """What is wrong with the file, in a sentence; damage is a StoreDamaged."""
    text = str(error)
    if isinstance(error, RowUnknown):
        return StoreError(
            f"this version of Headgate cannot read {text} in {path}: upgrade it, or move the file aside"
        )
    if _is_damage(error):
        text = text.partition(" with text ")[0]  # what could not be decoded is for nobody
        return StoreDamaged(
            f"{path} is damaged ({text}): move it away and run again; sqlite3 FILE .recover reads the rest"
        )
    if "disk is full" in text or "disk I/O" in text:
        return StoreError(f"cannot write {path}: {text}; free some space and run again")
    if "unable to open" in text or "readonly" in text:
        return StoreError(f"cannot open {path}: {text}; check the permissions of its folder")
    return StoreError(f"{path}: {text}")


def _is_damage(error: Exception) -> bool:
    if not isinstance(error, sqlite3.Error):
        return isinstance(error, RowDamaged | UnicodeDecodeError)
    # Errors that the module raises itself, such as those for bad UTF-8, have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in _DAMAGE_CODES or any(words in str(error) for words in _DAMAGE_WORDS)


# What the store's rows mean: tasks and events out of columns.


STATES: frozenset[TaskState] = frozenset(get_args(TaskState))


def decode_task(number: Any, state: Any, created: Any, spec: Any) -> Task:
    """The task in a row of `tasks`."""
    if state not in STATES or not isinstance(created, float | int):
        raise RowDamaged(f"task t{number} is in no known state")
    try:
        task = Task.model_validate(_load(spec, f"task t{number}"))
    except ValidationError as error:
        raise RowUnknown(f"task t{number}") from error
    if task.id != f"t{number}":
        raise RowDamaged(f"task t{number} has another id")
    return task


def decode_event(row: tuple[Any, ...]) -> Event:
    """The event in a row of `events`, its number first."""
    seq, task, path, turn, at, kind, body = row
    if not (isinstance(task, str) and isinstance(path, str) and isinstance(turn, int)):
        raise RowDamaged(f"event {seq} has values of a wrong type")
    if not (isinstance(at, float | int) and isinstance(kind, str)):
        raise RowDamaged(f"event {seq} has values of a wrong type")
    fields = _load(body, f"event {seq}")
    try:
        return Event(seq, task, path, turn, at, read_body(kind, fields))
    except ValidationError as error:
        raise RowUnknown(f"event {seq}") from error


def _load(text: Any, subject: str) -> dict[str, Any]:
    try:
        fields = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError) as error:
        raise RowDamaged(f"{subject} is not JSON") from error
    if not isinstance(fields, dict):
        raise RowDamaged(f"{subject} has no fields")
    return fields
