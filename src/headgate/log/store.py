"""The store: tasks, events and their contents in one SQLite file that any number of processes may open.

An event is committed before any listener gets it. A turn costs only the new bytes: nothing is ever
rewritten.
"""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from headgate.core import Event, ImpossibleTransition, SaidLine, Task, TaskState
from headgate.first_use import dataclass
from headgate.log import changes
from headgate.log.changes import CancelOutcome, Draft, EventWriter
from headgate.log.database import (
    BUSY_MILLISECONDS,
    IS_REWRITE,
    RowDamaged,
    check_objects,
    decode_event,
    decode_task,
    store_errors,
)
from headgate.log.file import StoreFile

VACUUM_MILLISECONDS = 500
"""How long the clearing up after a cancelled task waits for others."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task and where it stands."""

    task: Task
    state: TaskState
    created: float
    position: int | None = None
    """The place in the queue, from 1; None for a task that is not in it."""
    applying: bool = False
    """It was a proposal and is queued, or runs, to be applied."""
    undone: bool = False
    """Its changes were taken back."""


class Store:
    """One connection for reading, tasks and the queue, and a thread with one for writing events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = StoreFile(path)
        self.owned = False
        """This process runs a task: its connection counts, whatever a command puts in the file's place."""
        self._writer = EventWriter(path)

    @property
    def notes(self) -> tuple[str, ...]:
        """What people have to be told about the opening: that a damaged file was set aside."""
        return (self._file.note,) if self._file.note else ()

    def close(self) -> None:
        self._writer.stop()
        self._file.close()

    def is_lost(self) -> bool:
        """Whether the file was deleted, or another is in its place."""
        return self._file.is_lost()

    def recreate(self) -> None:
        """Writes the deleted file again from the open connection. Blocks."""
        self._writer.stop()
        self._file.recreate()

    @property
    def db(self) -> sqlite3.Connection:
        """The connection, to the new file if another process has written the file again."""
        if not self.owned and self._file.follow():
            self._writer.stop()
        return self._file.db

    def add_task(self, make: Callable[[str], Task], created: float, pin: str = "") -> Task:
        """Stores a new task as QUEUED, behind all others, with its pin. `make` is given the id."""
        with self.writing() as db:
            number = changes.join(db, created)
            task = make(f"t{number}")
            values = (task.model_dump_json(), pin, number)
            db.execute("UPDATE tasks SET spec = ?, pin = ? WHERE n = ?", values)
        return task

    def pin_again(self, task: Task, pin: str) -> None:
        """Replaces a queued task's pin, and its fields; nothing changes if it has started since."""
        values = (task.model_dump_json(), pin, changes.number_of(task.id))
        with self.writing() as db:
            db.execute("UPDATE tasks SET spec = ?, pin = ? WHERE n = ? AND state = 'QUEUED'", values)

    def pin(self, task_id: str) -> str:
        """What a task was submitted with, as `config.pinning` wrote it; empty once the task has ended."""
        return str(self._value("SELECT pin FROM tasks WHERE n = :n", task_id) or "")

    def claim(self) -> Task | None:
        """Makes the first task in the queue RUNNING and returns it; only the holder of the lock may ask.

        At most one task runs: whatever was left RUNNING has to be ended before.
        """
        with self.writing() as db:
            running = db.execute("SELECT n FROM tasks WHERE state = 'RUNNING'").fetchone()
            head = db.execute(
                f"SELECT n, state, created, spec FROM tasks {changes.IN_QUEUE} LIMIT 1"
            ).fetchone()
            if head is None:
                return None
            if running is not None:
                raise ImpossibleTransition(f"Task t{head[0]} cannot start while t{running[0]} is RUNNING.")
            task = decode_task(*head)
            changes.move(db, head[0], "RUNNING")
        return task

    def count_attempt(self, task_id: str) -> None:
        """Counts one more attempt at a task that a crashed process left RUNNING."""
        with self.writing() as db:
            changes.count_attempt(db, changes.number_of(task_id))

    def attempts(self, task_id: str) -> int:
        """Attempts at the running task since its last progress: 1 if there was no crash in between."""
        return int(self._value("SELECT attempts FROM tasks WHERE n = :n", task_id) or 1)

    def failed_runs(self) -> set[str]:
        """The verification runs that the reports of tasks which ended STUCK or INFRA_ERROR refer to."""
        with store_errors(self.path):
            rows = self.db.execute(
                "SELECT body FROM tasks JOIN events ON task = 't' || n"
                " WHERE state IN ('STUCK', 'INFRA_ERROR') AND kind = 'verify_started'"
            ).fetchall()
            return {str(orjson.loads(body).get("run_id")) for (body,) in rows}

    def head(self) -> TaskRow | None:
        """The first task in the queue."""
        return next(iter(self._tasks(f"{changes.IN_QUEUE} LIMIT 1")), None)

    def running(self) -> TaskRow | None:
        """The task that is RUNNING; a crashed process leaves one behind."""
        return next(iter(self._tasks("WHERE state = 'RUNNING' LIMIT 1")), None)

    def count_ahead(self, task_id: str) -> int:
        """How many tasks have to end before a queued one starts; one that runs has none before it."""
        return int(
            self._value(
                "SELECT COUNT(*) FROM tasks WHERE n != :n AND (state = 'RUNNING'"
                " OR (state = 'QUEUED' AND place < (SELECT place FROM tasks WHERE n = :n)))",
                task_id,
            )
        )

    def cancel(self, task_id: str, at: float) -> CancelOutcome:
        """Cancels a queued task at once; asks for a running one to be cancelled, which its process sees."""
        row = self.task(task_id)
        if row is None:
            return "unknown"
        number = changes.number_of(row.task.id)
        with self.writing() as db:
            outcome = changes.cancel(db, number, at)
        if outcome == "removed":
            self.erase_freed_pages()
        return outcome

    def erase_freed_pages(self) -> None:
        """Writes every page again, because SQLite leaves a copy of a row that it moved in the old page.

        If other processes are in the way, this is left out: the row itself is deleted.
        """
        with store_errors(self.path):
            db = self.db
            db.execute(f"PRAGMA busy_timeout = {VACUUM_MILLISECONDS}")
            try:
                with suppress(sqlite3.OperationalError):  # busy, or no room for a copy
                    db.execute("VACUUM")
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                db.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")

    def is_cancelled(self, task_id: str) -> bool:
        """Whether somebody asked for the running task to be cancelled."""
        return self.control(task_id) == "cancel"

    def control(self, task_id: str) -> str:
        """What somebody asked of the running task: `cancel`, `conclude`, or nothing."""
        return str(self._value("SELECT action FROM control WHERE n = :n", task_id) or "")

    def conclude(self, task_id: str, at: float) -> bool:
        """Asks for a running task to be concluded with what there is; False if it does not run."""
        row = self.task(task_id)
        if row is None or row.state != "RUNNING":
            return False
        with self.writing() as db:
            db.execute(
                "INSERT OR IGNORE INTO control VALUES (?, 'conclude', ?)",
                (changes.number_of(row.task.id), at),
            )
        return True

    def say(self, task_id: str, text: str, at: float) -> bool:
        """Keeps a line for a task that is queued or runs; False if there is none such."""
        row = self.task(task_id)
        if row is None:
            return False
        with self.writing() as db:
            return changes.say(db, changes.number_of(row.task.id), text, at)

    def lines(self, task_id: str) -> list[SaidLine]:
        """What people have said to a task and nobody has read yet."""
        with store_errors(self.path):
            rows = self.db.execute(
                "SELECT n, text FROM said WHERE task = ? ORDER BY n", (changes.number_of(task_id),)
            ).fetchall()
        return [SaidLine(number, str(text)) for number, text in rows]

    def task(self, task_id: str) -> TaskRow | None:
        number = task_id.removeprefix("t")
        if not (number.isascii() and number.isdigit()) or len(number) > 18:
            return None
        return next(iter(self._tasks("WHERE n = ?", int(number))), None)

    def tasks(self) -> list[TaskRow]:
        """Every task, oldest first."""
        return self._tasks("ORDER BY n")

    def latest_tasks(self, states: Collection[TaskState], most: int = -1, skipped: int = 0) -> list[TaskRow]:
        """The tasks in these states, the latest first: after those to skip, the first `most` of them."""
        marks = ", ".join("?" * len(states))
        return self._tasks(
            f"WHERE state IN ({marks}) ORDER BY n DESC LIMIT ? OFFSET ?", *states, most, skipped
        )

    def retries(self, task_id: str) -> list[TaskRow]:
        """The tasks that try an ended one again, the latest first."""
        return self._tasks("WHERE json_extract(spec, '$.resumes') = ? ORDER BY n DESC", task_id)

    def last_event(self, *kinds: str) -> Event | None:
        """The latest event of these kinds."""
        marks = ", ".join("?" * len(kinds))
        with store_errors(self.path):
            row = self.db.execute(
                "SELECT seq, task, path, turn, at, kind, body FROM events"
                f" WHERE kind IN ({marks}) ORDER BY seq DESC LIMIT 1",
                kinds,
            ).fetchone()
            return decode_event(row) if row else None

    def open_rewrite(self) -> str:
        """The id of the task for which writing a diff was begun and not ended; empty if there is none."""
        with store_errors(self.path):
            row = self.db.execute(
                f"SELECT task, kind FROM events WHERE {IS_REWRITE} ORDER BY seq DESC LIMIT 1"
            ).fetchone()
        if row is None or not row[1].endswith("_started"):
            return ""
        # Earlier versions did not say of every proposal how it came out.
        is_over = row[1] == "apply_started" and getattr(self.task(row[0]), "state", "") != "RUNNING"
        return "" if is_over else str(row[0])

    def latest(self) -> TaskRow | None:
        return next(iter(self._tasks("ORDER BY n DESC LIMIT 1")), None)

    def _value(self, query: str, task_id: str) -> Any:
        """The one value that a query about a task finds; None if there is none."""
        with store_errors(self.path):
            row = self.db.execute(query, {"n": changes.number_of(task_id)}).fetchone()
        return row[0] if row else None

    def _tasks(self, where: str, *values: int | str) -> list[TaskRow]:
        with store_errors(self.path):
            rows = self.db.execute(f"SELECT {changes.ROW} FROM tasks {where}", values).fetchall()
            if len({row[0] for row in rows}) < len(rows):
                raise RowDamaged("a task is there twice")
            return [
                TaskRow(
                    decode_task(number, state, created, spec),
                    state,
                    created,
                    position,
                    bool(applying),
                    bool(undone),
                )
                for number, state, created, spec, position, applying, undone in rows
            ]

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that writes. Features that keep a table of their own in the store use it, too."""
        with store_errors(self.path), self.db as db:
            db.execute("BEGIN IMMEDIATE")
            check_objects(db, self.path)
            yield db

    def unsettled(self) -> list[tuple[str, TaskState]]:
        """The ids and states of the tasks that have not ended: those in the queue last, in its order."""
        with store_errors(self.path):
            rows = self.db.execute(
                "SELECT n, state FROM tasks WHERE state IN ('QUEUED', 'RUNNING', 'PROPOSED')"
                " ORDER BY place NULLS FIRST, n"
            ).fetchall()
        return [(f"t{number}", state) for number, state in rows]

    def count_tasks(self) -> dict[str, int]:
        """How many tasks are in each state."""
        with store_errors(self.path):
            return dict(self.db.execute("SELECT state, COUNT(*) FROM tasks GROUP BY state").fetchall())

    def last_seq(self) -> int:
        """The number of the latest event; 0 if there is none."""
        with store_errors(self.path):
            return int(self.db.execute("SELECT COALESCE(MAX(seq), 0) FROM events").fetchone()[0])

    def events(
        self, task: str | None = None, after: int = 0, most: int = -1, before: int | None = None
    ) -> list[Event]:
        """Events in order, of one task or of all, between two sequence numbers; the first `most` of them."""
        where, values = ("task = ? AND ", [task]) if task else ("", list[Any]())
        if before is not None:
            where, values = f"{where}seq < ? AND ", [*values, before]
        with store_errors(self.path):
            rows = self.db.execute(
                f"SELECT seq, task, path, turn, at, kind, body FROM events WHERE {where}seq > ?"
                " ORDER BY seq LIMIT ?",
                (*values, after, most),
            ).fetchall()
            return [decode_event(row) for row in rows]

    def contents(self, task: str, first: int = 0, last: int | None = None) -> dict[int, str]:
        """What models wrote and read, by the event's sequence number; of an ended task, what is kept of it.

        `first` and `last`: only of the events from the one to the other.
        """
        last = sys.maxsize if last is None else last
        with store_errors(self.path):
            rows = self.db.execute(
                f"SELECT seq, content FROM bodies WHERE seq BETWEEN ? AND ? AND seq IN {changes.OF_TASK}",
                (first, last, task),
            ).fetchall()
        return dict(rows)

    def version(self) -> tuple[int, int]:
        """Changes when another connection has committed something; this one's own changes do not count."""
        with store_errors(self.path):
            return self.db.execute("PRAGMA data_version").fetchone()[0], self._file.openings

    async def follow(
        self, task: str | None = None, after: int = 0, every: float = 0.2
    ) -> AsyncIterator[Event]:
        """Yields events as any process commits them, for ever."""
        version = (-1, -1)
        while True:
            seen = self.version()
            if seen != version:
                version = seen
                for event in self.events(task, after):
                    after = event.seq
                    yield event
            await asyncio.sleep(every)

    def append(
        self,
        task: str,
        drafts: Sequence[Draft],
        state: TaskState | None = None,
        *,
        keep_bodies: bool = True,
        last_line: int | None = None,
    ) -> "asyncio.Future[list[Event]]":
        """Commits events, and a change of the task's state with them; returns them with their numbers.

        An end deletes the conversation unless it is to be kept; STUCK deletes that of an older such task. A
        state that the task cannot take raises ImpossibleTransition, and nothing is committed. With
        `last_line`, LineWaits is raised in the same way if a person has said something after that line.
        """
        return self._writer.enqueue(task, drafts, state, keep_bodies=keep_bodies, last_line=last_line)
