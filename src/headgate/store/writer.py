"""Writing events: one thread commits what runs hand it.

What concurrent runs hand it while it commits goes into one transaction.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from headgate.core import FINAL_STATES, AnyBody, Event, ImpossibleTransition, ReplyReceived, TaskState
from headgate.errors import StoreError
from headgate.store import queue
from headgate.store.database import connect, explain_store_error


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is not in the log yet, and what a model wrote or read with it."""

    path: str
    turn: int
    at: float
    body: AnyBody
    content: str | None = None


@dataclass(frozen=True, slots=True)
class _Write:
    task: str
    entries: Sequence[tuple[Draft, str]]
    """Each with its body as JSON, encoded by whoever hands it in."""
    state: TaskState | None
    keep_bodies: bool
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[list[Event]]"


class EventWriter:
    """A thread with a connection for writing. It starts with the first write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: SimpleQueue[_Write | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def stop(self) -> None:
        """Waits until everything is committed, and ends the thread."""
        if self._thread:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def enqueue(
        self, task: str, drafts: Sequence[Draft], state: TaskState | None, *, keep_bodies: bool
    ) -> "asyncio.Future[list[Event]]":
        """Hands events to the thread; see `Store.enqueue`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="headgate-store", daemon=True)
            self._thread.start()
        encoded = [
            (draft, draft.body.model_dump_json(exclude_defaults=True, exclude={"kind"})) for draft in drafts
        ]
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Event]] = loop.create_future()
        self._queue.put(_Write(task, encoded, state, keep_bodies, loop, done))
        return done

    def _write_all(self) -> None:
        try:
            db = connect(self._path)
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
        results: list[list[Event] | ImpossibleTransition] = []
        try:
            with db:
                db.execute("BEGIN IMMEDIATE")
                for write in batch:
                    try:
                        results.append(_insert(db, write))
                    except ImpossibleTransition as bug:  # raised before anything of this write was inserted
                        results.append(bug)
        except (sqlite3.Error, UnicodeError) as error:
            failure = explain_store_error(self._path, error)
            for write in batch:
                write.loop.call_soon_threadsafe(_fail, write.done, failure)
            return
        for write, result in zip(batch, results, strict=True):
            if isinstance(result, ImpossibleTransition):
                write.loop.call_soon_threadsafe(_fail, write.done, result)
            else:
                write.loop.call_soon_threadsafe(_succeed, write.done, result)


def _insert(db: sqlite3.Connection, write: _Write) -> list[Event]:
    if write.state:
        queue.move(db, queue.number_of(write.task), write.state)
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
    if any(isinstance(entry.body, ReplyReceived) for entry, _ in write.entries):
        queue.note_progress(db, queue.number_of(write.task))
    if write.state in FINAL_STATES and not write.keep_bodies:
        db.execute(f"DELETE FROM bodies WHERE seq IN {queue.OF_TASK}", (write.task,))
    return events


def _succeed(future: "asyncio.Future[list[Event]]", events: list[Event]) -> None:
    if not future.done():
        future.set_result(events)


def _fail(future: "asyncio.Future[list[Event]]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
