"""The store: tasks, events and their contents in one SQLite file that any number of processes may open.

An event is committed before anyone is told of it. One thread writes; what concurrent runs hand it meanwhile
goes into one transaction. A turn costs the bytes that are new: nothing is ever rewritten.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import orjson

from headgate.core.events import BODY, AnyBody, Event
from headgate.core.task import FINAL_STATES, Task, TaskState
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


MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_first_schema]
"""Append only: the number of functions applied is the file's schema version."""

_OF_TASK = "(SELECT seq FROM events WHERE task = ?)"


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is not in the log yet, and what a model wrote or read with it."""

    path: str
    turn: int
    at: float
    body: AnyBody
    content: str | None = None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task and where it stands."""

    task: Task
    state: TaskState
    created: float


@dataclass(frozen=True, slots=True)
class _Write:
    task: str
    entries: Sequence[tuple[Draft, str]]
    """Each with its body as JSON, encoded by whoever hands it in."""
    state: TaskState | None
    keep_bodies: bool
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[list[Event]]"


class Store:
    """One connection for reading, and a thread with one for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = _connect(path)
        try:
            with _store_errors(path), self._db:
                _migrate(self._db, path)
        except StoreError:
            self._db.close()
            raise
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._writer: threading.Thread | None = None

    def close(self) -> None:
        if self._writer:
            self._queue.put(None)
            self._writer.join()
            self._writer = None
        self._db.close()

    def add_task(self, make: Callable[[str], Task], created: float) -> Task:
        """Stores a new task as QUEUED. `make` is given the id."""
        with _store_errors(self.path), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            row = self._db.execute(
                "INSERT INTO tasks (state, created, spec) VALUES ('QUEUED', ?, '') RETURNING n", (created,)
            ).fetchone()
            task = make(f"t{row[0]}")
            self._db.execute("UPDATE tasks SET spec = ? WHERE n = ?", (task.model_dump_json(), row[0]))
        return task

    def forget(self, task: Task) -> None:
        """Removes a task that has not started, as if it had never been submitted."""
        with _store_errors(self.path):
            self._db.execute("DELETE FROM tasks WHERE n = ? AND state = 'QUEUED'", (_number(task.id),))

    def task(self, task_id: str) -> TaskRow | None:
        number = task_id.removeprefix("t")
        if not (number.isascii() and number.isdigit()) or len(number) > 18:
            return None
        rows = self._tasks("WHERE n = ?", (int(number),))
        return rows[0] if rows else None

    def tasks(self) -> list[TaskRow]:
        """Every task, oldest first."""
        return self._tasks("ORDER BY n", ())

    def latest(self) -> TaskRow | None:
        rows = self._tasks("ORDER BY n DESC LIMIT 1", ())
        return rows[0] if rows else None

    def _tasks(self, where: str, values: tuple[Any, ...]) -> list[TaskRow]:
        with _store_errors(self.path):
            rows = self._db.execute(f"SELECT state, created, spec FROM tasks {where}", values).fetchall()
        return [TaskRow(Task.model_validate_json(spec), state, created) for state, created, spec in rows]

    def events(self, task: str | None = None, after: int = 0) -> list[Event]:
        """Events in order, of one task or of all, after a sequence number."""
        where, values = ("task = ? AND ", (task, after)) if task else ("", (after,))
        with _store_errors(self.path):
            rows = self._db.execute(
                f"SELECT seq, task, path, turn, at, kind, body FROM events WHERE {where}seq > ? ORDER BY seq",
                values,
            ).fetchall()
        return [_event(row) for row in rows]

    def contents(self, task: str) -> dict[int, str]:
        """What models wrote and read, by the event's sequence number. Gone when the task has ended."""
        with _store_errors(self.path):
            rows = self._db.execute(
                f"SELECT seq, content FROM bodies WHERE seq IN {_OF_TASK}", (task,)
            ).fetchall()
        return dict(rows)

    async def follow(
        self, task: str | None = None, after: int = 0, every: float = 0.2
    ) -> AsyncIterator[Event]:
        """Yields events as any process commits them, for ever."""
        version = -1
        while True:
            with _store_errors(self.path):
                seen = self._db.execute("PRAGMA data_version").fetchone()[0]
            if seen != version:
                version = seen
                for event in self.events(task, after):
                    after = event.seq
                    yield event
            await asyncio.sleep(every)

    async def append(
        self, task: str, drafts: Sequence[Draft], state: TaskState | None = None, *, keep_bodies: bool = True
    ) -> list[Event]:
        """Commits events and returns them with their numbers; see `enqueue`."""
        return await self.enqueue(task, drafts, state, keep_bodies=keep_bodies)

    def enqueue(
        self, task: str, drafts: Sequence[Draft], state: TaskState | None = None, *, keep_bodies: bool = True
    ) -> "asyncio.Future[list[Event]]":
        """Commits events, and a change of the task's state with them; returns them with their numbers.

        A state that ends the task deletes its conversation unless it is to be kept.
        """
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name="headgate-store", daemon=True)
            self._writer.start()
        encoded = [
            (draft, draft.body.model_dump_json(exclude_defaults=True, exclude={"kind"})) for draft in drafts
        ]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Event]] = loop.create_future()
        self._queue.put(_Write(task, encoded, state, keep_bodies, loop, done))
        return done

    def _write_all(self) -> None:
        try:
            db = _connect(self.path)
        except StoreError as error:
            self._refuse_all(error)
            return
        with closing(db):
            while (first := self._queue.get()) is not None:
                batch, stop = [first], False
                while not self._queue.empty() and not stop:
                    following = self._queue.get()
                    stop = following is None
                    if following is not None:
                        batch.append(following)
                self._commit(db, batch)
                if stop:
                    return

    def _refuse_all(self, error: StoreError) -> None:
        while (write := self._queue.get()) is not None:
            write.loop.call_soon_threadsafe(_fail, write.done, error)

    def _commit(self, db: sqlite3.Connection, batch: list[_Write]) -> None:
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")
                results = [_insert(db, write) for write in batch]
        except (sqlite3.Error, UnicodeError) as error:
            failure = StoreError(_sentence(self.path, error))
            for write in batch:
                write.loop.call_soon_threadsafe(_fail, write.done, failure)
            return
        for write, events in zip(batch, results, strict=True):
            write.loop.call_soon_threadsafe(_succeed, write.done, events)


def _encode(body: AnyBody) -> str:
    return body.model_dump_json(exclude_defaults=True, exclude={"kind"})


def _insert(db: sqlite3.Connection, write: _Write) -> list[Event]:
    events = []
    for entry, body in write.entries:
        row = (write.task, entry.path, entry.turn, entry.at, entry.body.kind, body)
        seq = db.execute(
            "INSERT INTO events (task, path, turn, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)", row
        ).lastrowid
        assert seq is not None
        if entry.content is not None:
            db.execute("INSERT INTO bodies VALUES (?, ?)", (seq, entry.content))
        events.append(Event(seq, write.task, entry.path, entry.turn, entry.at, entry.body))
    if write.state:
        db.execute("UPDATE tasks SET state = ? WHERE n = ?", (write.state, _number(write.task)))
    if write.state in FINAL_STATES and not write.keep_bodies:
        db.execute(f"DELETE FROM bodies WHERE seq IN {_OF_TASK}", (write.task,))
    return events


def _number(task_id: str) -> int:
    return int(task_id.removeprefix("t"))


def _event(row: tuple[Any, ...]) -> Event:
    seq, task, path, turn, at, kind, body = row
    return Event(seq, task, path, turn, at, BODY.validate_python({**orjson.loads(body), "kind": kind}))


def _succeed(future: "asyncio.Future[list[Event]]", events: list[Event]) -> None:
    if not future.done():
        future.set_result(events)


def _fail(future: "asyncio.Future[list[Event]]", error: StoreError) -> None:
    if not future.done():
        future.set_exception(error)


def _connect(path: Path) -> sqlite3.Connection:
    with _store_errors(path):
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


def _migrate(db: sqlite3.Connection, path: Path) -> None:
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
def _store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(_sentence(path, error)) from error


def _sentence(path: Path, error: Exception) -> str:
    match str(error):
        case text if "disk is full" in text or "disk I/O" in text:
            return f"cannot write {path}: {text}; free some space and run again"
        case text if "not a database" in text or "malformed" in text:
            return f"{path} is damaged ({text}): move it aside and run again"
        case text if "unable to open" in text or "readonly" in text:
            return f"cannot open {path}: {text}; check the permissions of its folder"
        case text:
            return f"{path}: {text}"
