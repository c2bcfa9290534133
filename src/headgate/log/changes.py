"""Changes to the tables: where a task stands in the queue, and events, which one thread commits.

All of it happens within one transaction, so that what is checked still holds when it is written. What
concurrent runs hand to the thread while it commits goes into one transaction.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from headgate.core import (
    FINAL_STATES,
    MOST_WAITING,
    Body,
    Event,
    ImpossibleTransition,
    PersonSpoke,
    ReplyReceived,
    RewriteFinished,
    RewriteRefused,
    Standing,
    TaskState,
    check_transition,
)
from headgate.errors import ConfigError, StoreError
from headgate.first_use import dataclass
from headgate.log.database import IS_REWRITE, check_objects, connect, explain_store_error

CancelOutcome = Literal["removed", "returned", "asked", "settled", "unknown"]
"""What asking for a cancellation came to: a queued task was removed, or returned to PROPOSED; the process
that runs it was asked; there is nothing to cancel; there is no such task."""


class LineWaits(Exception):
    """A person has said something that the end of the task does not tell of: it has to be looked at first."""


KEPT_STUCK = 10
"""The latest tasks that got stuck whose conversations are kept."""
OF_TASK = "(SELECT seq FROM events WHERE task = ?)"
IN_QUEUE = "WHERE state = 'QUEUED' ORDER BY place"
TAIL = "(SELECT COALESCE(MAX(place), 0) + 1 FROM tasks WHERE state = 'QUEUED')"
ROW = (
    "n, state, created, spec, CASE state WHEN 'QUEUED' THEN (SELECT COUNT(*) FROM tasks AS other"
    " WHERE other.state = 'QUEUED' AND other.place <= tasks.place) END, applying,"
    f" 't' || n IN (SELECT task FROM events WHERE {IS_REWRITE} AND kind = 'undo_finished')"
)


def join(db: sqlite3.Connection, created: float) -> int:
    """A new, still empty row at the queue's end; returns its number."""
    row = db.execute(
        f"INSERT INTO tasks (state, created, spec, place) VALUES ('QUEUED', ?, '', {TAIL}) RETURNING n",
        (created,),
    ).fetchone()
    return int(row[0])


def cancel(db: sqlite3.Connection, number: int, at: float) -> CancelOutcome:
    match standing(db, number):
        case "QUEUED":
            move(db, number, "GONE")
            return "removed"
        case "QUEUED_TO_APPLY":
            move(db, number, "PROPOSED")
            return "returned"
        case "RUNNING":
            db.execute("INSERT OR REPLACE INTO control VALUES (?, 'cancel', ?)", (number, at))
            return "asked"
        case "GONE":
            return "unknown"
        case _:
            return "settled"


def say(db: sqlite3.Connection, number: int, text: str, at: float) -> bool:
    """Keeps a line for a task until it is read; False if nobody will read it any more."""
    if standing(db, number) not in ("QUEUED", "QUEUED_TO_APPLY", "RUNNING"):
        return False
    (waiting,) = db.execute("SELECT COUNT(*) FROM said WHERE task = ?", (number,)).fetchone()
    if waiting >= MOST_WAITING:
        raise ConfigError(f"{waiting} lines wait for task t{number}: wait until it has read them.")
    db.execute("INSERT INTO said (task, text, at) VALUES (?, ?, ?)", (number, text, at))
    return True


def _check_lines(db: sqlite3.Connection, number: int, last: int) -> None:
    """LineWaits if a line came after the last one that is known of."""
    newer = db.execute("SELECT 1 FROM said WHERE task = ? AND n > ?", (number, last)).fetchone()
    if newer:
        raise LineWaits(f"t{number}")


def count_attempt(db: sqlite3.Connection, number: int) -> None:
    """Counts one more attempt at the running task."""
    db.execute("UPDATE tasks SET attempts = attempts + 1 WHERE n = ?", (number,))


def note_progress(db: sqlite3.Connection, number: int) -> None:
    """The task has made progress: attempts are counted from 1 again."""
    db.execute("UPDATE tasks SET attempts = 1 WHERE n = ? AND attempts > 1", (number,))


def standing(db: sqlite3.Connection, number: int) -> Standing:
    row = db.execute("SELECT state, applying FROM tasks WHERE n = ?", (number,)).fetchone()
    if row is None:
        return "GONE"
    state: TaskState = row[0]
    return "QUEUED_TO_APPLY" if state == "QUEUED" and row[1] else state


def move(db: sqlite3.Connection, number: int, new: Standing) -> None:
    """Changes where a task stands, within the caller's transaction."""
    old = standing(db, number)
    if new == old == "RUNNING":
        return  # it runs on after a crash
    if new == "QUEUED":
        new = "QUEUED_TO_APPLY"  # the only way back into the queue
    check_transition(f"t{number}", old, new)
    db.execute("DELETE FROM control WHERE n = ?", (number,))
    if new == "GONE" or new in FINAL_STATES:
        db.execute("DELETE FROM said WHERE task = ?", (number,))
    if new == "GONE":
        task = f"t{number}"
        db.execute(f"DELETE FROM bodies WHERE seq IN {OF_TASK}", (task,))
        db.execute("DELETE FROM events WHERE task = ?", (task,))
        db.execute("DELETE FROM tasks WHERE n = ?", (number,))
    elif new == "QUEUED_TO_APPLY":
        db.execute(f"UPDATE tasks SET state = 'QUEUED', applying = 1, place = {TAIL} WHERE n = ?", (number,))
    else:
        # A proposal that is being applied stays marked as one while it runs.
        db.execute(
            "UPDATE tasks SET state = ?, place = NULL, applying = applying AND ? = 'RUNNING', attempts = 1,"
            " pin = CASE WHEN ? THEN '' ELSE pin END WHERE n = ?",
            (new, new, new in FINAL_STATES, number),
        )


def number_of(task_id: str) -> int:
    """The number of a task, which its id ends with."""
    return int(task_id.removeprefix("t"))


_REWRITTEN = (RewriteFinished, RewriteRefused)
"""With these, what was to be written is no longer needed."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is not in the log yet, and what a model wrote or read with it."""

    path: str
    turn: int
    at: float
    body: Body
    content: str | None = None


@dataclass(frozen=True, slots=True)
class _Write:
    task: str
    entries: Sequence[tuple[Draft, str]]
    """Each with its body as JSON, encoded by whoever hands it in."""
    state: TaskState | None
    keep_bodies: bool
    last_line: int | None
    """The last line of a person that the writer knows of; None if that does not matter."""
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[list[Event]]"

    def settle(self, result: list[Event] | Exception) -> None:
        """Tells whoever waits for it, in the loop of theirs, how it ended."""
        self.loop.call_soon_threadsafe(_settle, self.done, result)


class EventWriter:
    """A thread with a connection for writing. It starts with the first write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._schema: int | None = None
        """The version of the schema whose objects were checked."""

    def stop(self) -> None:
        """Waits until everything is committed, and ends the thread."""
        if self._thread:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def enqueue(
        self,
        task: str,
        drafts: Sequence[Draft],
        state: TaskState | None,
        *,
        keep_bodies: bool,
        last_line: int | None = None,
    ) -> "asyncio.Future[list[Event]]":
        """Hands events to the thread; see `Store.append`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="headgate-store", daemon=True)
            self._thread.start()
        encoded = [(draft, draft.body.model_dump_json(exclude_defaults=True)) for draft in drafts]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Event]] = loop.create_future()
        self._queue.put(_Write(task, encoded, state, keep_bodies, last_line, loop, done))
        return done

    def _write_all(self) -> None:
        try:
            db = connect(self._path)
        except (StoreError, OSError) as error:
            self._refuse_all(error)
            return
        self._schema = None
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

    def _refuse_all(self, error: Exception) -> None:
        while (write := self._queue.get()) is not None:
            write.settle(error)

    def _commit(self, db: sqlite3.Connection, batch: list[_Write]) -> None:
        results: list[list[Event] | ImpossibleTransition | LineWaits] = []
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")
                # What the connection knows of the schema is read again when this number is another.
                (schema,) = db.execute("PRAGMA schema_version").fetchone()
                if schema != self._schema:
                    check_objects(db, self._path)
                    self._schema = schema
                for write in batch:
                    try:
                        results.append(_insert(db, write))
                    except (ImpossibleTransition, LineWaits) as why:  # nothing of it was inserted before
                        results.append(why)
        except (sqlite3.Error, UnicodeError, StoreError) as error:
            failure = error if isinstance(error, StoreError) else explain_store_error(self._path, error)
            for write in batch:
                write.settle(failure)
            return
        for write, result in zip(batch, results, strict=True):
            write.settle(result)


def _insert(db: sqlite3.Connection, write: _Write) -> list[Event]:
    if write.last_line is not None:
        _check_lines(db, number_of(write.task), write.last_line)
    if write.state:
        move(db, number_of(write.task), write.state)
    events = []
    for entry, body in write.entries:
        row = (write.task, entry.path, entry.turn, entry.at, entry.body.kind_in_log, body)
        seq = db.execute(
            "INSERT INTO events (task, path, turn, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)", row
        ).lastrowid
        assert seq is not None
        if entry.content is not None:
            db.execute("INSERT INTO bodies VALUES (?, ?)", (seq, entry.content))
        if isinstance(entry.body, PersonSpoke):
            db.execute("DELETE FROM said WHERE n = ?", (entry.body.number,))
        events.append(Event(seq, write.task, entry.path, entry.turn, entry.at, entry.body))
    if any(isinstance(entry.body, ReplyReceived) for entry, _ in write.entries):
        note_progress(db, number_of(write.task))
    if any(isinstance(entry.body, _REWRITTEN) for entry, _ in write.entries):
        begun = f"SELECT seq FROM events WHERE task = ? AND {IS_REWRITE}"
        db.execute(f"DELETE FROM bodies WHERE seq IN ({begun})", (write.task,))
    if write.state == "STUCK":
        _forget_stuck(db)
    elif write.state in FINAL_STATES and not write.keep_bodies:
        db.execute(f"DELETE FROM bodies WHERE seq IN {OF_TASK}", (write.task,))
    return events


def _forget_stuck(db: sqlite3.Connection) -> None:
    """Deletes the conversations of tasks that got stuck, except the latest and those that keep theirs."""
    db.execute(
        "DELETE FROM bodies WHERE seq IN (SELECT seq FROM events WHERE task IN"
        " (SELECT 't' || n FROM tasks WHERE state = 'STUCK' ORDER BY n DESC LIMIT -1 OFFSET ?)"
        " AND NOT EXISTS (SELECT 1 FROM events AS begun WHERE begun.task = events.task"
        " AND begun.kind = 'task_started' AND json_extract(begun.body, '$.config.keep_conversations')))",
        (KEPT_STUCK,),
    )


def _settle(future: "asyncio.Future[list[Event]]", result: list[Event] | Exception) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
