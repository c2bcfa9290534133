"""The store's file: how it is opened, which tables it has, and what its errors are called."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.errors import StoreError


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


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_first_schema, _queue_and_control]
"""Append only: the number of functions applied is the file's schema version."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that any number of processes may write."""
    with store_errors(path):
        db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            # Larger pages than usual: most rows are a kilobyte or more, and a page holds only whole ones.
            db.execute("PRAGMA page_size = 8192")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            db.close()
            raise
    return db


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Brings the tables up to date, within the caller's transaction."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer Headgate (schema {version}): upgrade Headgate to read it"
        )
    for step in MIGRATIONS[version:]:
        step(db)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into StoreErrors that say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(explain(path, error)) from error


def explain(path: Path, error: Exception) -> str:
    """What is wrong with the file, in a sentence."""
    match str(error):
        case text if "disk is full" in text or "disk I/O" in text:
            return f"cannot write {path}: {text}; free some space and run again"
        case text if "not a database" in text or "malformed" in text:
            return f"{path} is damaged ({text}): move it aside and run again"
        case text if "unable to open" in text or "readonly" in text:
            return f"cannot open {path}: {text}; check the permissions of its folder"
        case text:
            return f"{path}: {text}"
