"""The queue in the store's tables: who comes next, and every change of where a task stands.

All of it happens within the caller's transaction, so that what is checked still holds when it is written.
"""

import sqlite3
from dataclasses import dataclass
from typing import Literal

from headgate.core import FINAL_STATES, Standing, TaskState, check_transition

CancelOutcome = Literal["removed", "returned", "asked", "settled", "unknown"]
"""What asking for a cancellation came to: a queued task was removed, or returned to PROPOSED; the process
that runs it was asked; there is nothing to cancel; there is no such task."""

OF_TASK = "(SELECT seq FROM events WHERE task = ?)"
IN_QUEUE = "WHERE state = 'QUEUED' ORDER BY place"
TAIL = "(SELECT COALESCE(MAX(place), 0) + 1 FROM tasks WHERE state = 'QUEUED')"
ROW = (
    "n, state, created, spec, CASE state WHEN 'QUEUED' THEN (SELECT COUNT(*) FROM tasks AS other"
    " WHERE other.state = 'QUEUED' AND other.place <= tasks.place) END, applying"
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


@dataclass(frozen=True, slots=True)
class Pause:
    """Why the tasks in the queue are not carried out."""

    seq: int
    """The number of the event that paused it."""
    failed: str
    """The id of the task that the environment failed."""
    why: str
    head: str
    """The id of the first task in the queue."""
    ended: bool
    """Whether the failed task ended; otherwise it is a proposal again."""

    def sentence(self) -> str:
        """Why it is paused, and what goes on with it."""
        again = f"submit --resume {self.failed}" if self.ended else f"apply {self.failed}"
        how = f"{self.failed} ended INFRA_ERROR" if self.ended else f"{self.failed} could not be applied"
        return (
            f"The queue is paused: {how}: {self.why.rstrip('.')}."
            f" headgate submit --resume {self.head} resumes the queue;"
            f" headgate {again} also retries {self.failed}."
        )
