"""Processes that work on one queue at the same time and are killed at any moment; run as a program.

    python queue_workers.py store|engine FOLDER SEED KILLS

Triggers write every change of a task's state into a table, `audit`, in the transaction that makes it. What
the processes were told goes into files: `submitted`, `removed`.
"""

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from headgate.cli.worker import start_worker
from headgate.config import load_config
from headgate.core import (
    Constraints,
    ImpossibleTransition,
    Message,
    MessageAdded,
    Reply,
    Request,
    Task,
    TaskState,
    Usage,
)
from headgate.engine import Engine
from headgate.log import Draft, Folder, Store
from headgate.log.database import MIGRATIONS
from headgate.process import FileLock

AUDIT = (
    "CREATE TABLE audit (step INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER, old TEXT, new TEXT)",
    "CREATE TRIGGER joined AFTER INSERT ON tasks BEGIN"
    " INSERT INTO audit (n, old, new) VALUES (new.n, NULL, new.state); END",
    "CREATE TRIGGER moved AFTER UPDATE OF state ON tasks BEGIN"
    " INSERT INTO audit (n, old, new) VALUES (new.n, old.state, new.state); END",
    "CREATE TRIGGER removed AFTER DELETE ON tasks BEGIN"
    " INSERT INTO audit (n, old, new) VALUES (old.n, old.state, NULL); END",
)


def add_audit(db: sqlite3.Connection) -> None:
    """A migration of these processes alone: to them, the triggers are known."""
    for statement in AUDIT:
        db.execute(statement)


STEPS = "SELECT COUNT(*) FROM audit"
COVERED = """
SELECT EXISTS (SELECT 1 FROM audit WHERE old = 'QUEUED' AND new IS NULL) AND EXISTS (
    SELECT 1 FROM audit AS applied JOIN audit AS begun ON begun.n = applied.n AND begun.step > applied.step
    WHERE applied.old = 'PROPOSED' AND applied.new = 'QUEUED' AND begun.new = 'RUNNING')
"""
"""Whether a queued task was removed, and a proposal that was queued again was begun."""
ENDS: tuple[TaskState, ...] = ("SUCCESS", "STUCK", "CANCELLED", "INFRA_ERROR", "PROPOSED", "PROPOSED")
PROCESSES = 4


def token(choose: random.Random) -> str:
    """A text that occurs nowhere else."""
    return f"task-{os.getpid()}x{choose.randrange(10**12)}"


def note(folder: Path, name: str, text: str) -> None:
    with (folder / name).open("a") as file:
        file.write(text + "\n")


class StoreWorker:
    """Does what engines do with the store and the lock, with every ending there is."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self.folder, self.choose = folder, choose
        self.store = Store(folder / "headgate.db")

    async def work(self) -> None:
        acts: list[Callable[[], Awaitable[None]]] = [
            self.submit,
            self.submit,
            self.cancel,
            self.drain,
            self.decide,
        ]
        while True:
            await self.choose.choice(acts)()

    async def submit(self) -> None:
        text = token(self.choose) * self.choose.choice((1, 1, 200, 2000))
        task = self.store.add_task(lambda task_id: Task(id=task_id, text=text, goal="g"), time.time())
        note(self.folder, "submitted", f"{task.id} {text.split('task-')[1]}")

    async def cancel(self) -> None:
        rows = [row.task.id for row in self.store.tasks() if row.state in ("QUEUED", "RUNNING")]
        if rows:
            task = self.choose.choice(rows)
            if self.store.cancel(task, time.time()) == "removed":
                note(self.folder, "removed", task)

    async def decide(self) -> None:
        proposals = [row.task.id for row in self.store.tasks() if row.state == "PROPOSED"]
        if proposals:
            with contextlib.suppress(ImpossibleTransition):  # another process has decided meanwhile
                new: TaskState = "CANCELLED" if self.choose.random() < 0.2 else "QUEUED"
                await self.store.append(self.choose.choice(proposals), [self.draft("decided")], new)

    async def drain(self) -> None:
        lock = FileLock(self.folder / "lock")
        if not lock.try_acquire():
            return
        for _ in range(self.choose.randrange(1, 5)):
            row = self.store.running()
            task = row.task if row else self.store.claim()
            if task is None:
                break
            await self.store.append(task.id, [self.draft("started")], "RUNNING")
            for number in range(self.choose.randrange(3)):
                await self.store.append(task.id, [self.draft(f"turn{number}")])
            state = "CANCELLED" if self.store.is_cancelled(task.id) else self.choose.choice(ENDS)
            await self.store.append(
                task.id, [self.draft("ended")], state, keep_bodies=self.choose.random() < 0.5
            )
        lock.release()

    def draft(self, slug: str) -> Draft:
        return Draft("", 0, time.time(), MessageAdded(role="user", slug=slug), "content")


class Model:
    """Answers every request with the same words, sometimes a little later."""

    name = "fake"

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        await asyncio.sleep(self.choose.choice((0, 0, 0.02)))
        return Reply(Message("assistant", "Done."), Usage(1, 1), "stop")


class EngineWorker:
    """A user of the engine: submits, runs, drains and cancels; now and then it starts real workers."""

    def __init__(self, folder: Path, choose: random.Random) -> None:
        self.folder, self.choose = folder, choose
        loaded = load_config(folder, environ={}, flags={}, user_file=folder / "none.yaml")
        self.engine = Engine.open(folder, loaded, models={None: Model(choose)})

    async def work(self) -> None:
        acts = [self.submit, self.submit, self.run, self.cancel, self.drain]
        while True:
            await self.choose.choice(acts)()

    async def submit(self) -> Task:
        text = token(self.choose)
        task = self.engine.submit(text, Constraints())
        note(self.folder, "submitted", f"{task.id} {text.removeprefix('task-')}")
        return task

    async def run(self) -> None:
        task = await self.submit()
        hands_over = self.choose.random() < 0.15
        self.engine.start_worker = partial(start_worker, self.folder) if hands_over else None
        report = await self.engine.run(task)
        row = self.engine.store.task(task.id)
        assert report.state == (row.state if row else "CANCELLED")

    async def cancel(self) -> None:
        rows = [row.task.id for row in self.engine.store.tasks() if row.state in ("QUEUED", "RUNNING")]
        if rows:
            task = self.choose.choice(rows)
            if self.engine.cancel(task) == "removed":
                note(self.folder, "removed", task)

    async def drain(self) -> None:
        await self.engine.drain()


def start(worker: type[StoreWorker | EngineWorker], folder: Path, seed: int) -> int:
    """A process that works until it is killed. Whatever else ends it is a failure."""
    if pid := os.fork():
        return pid
    try:
        asyncio.run(worker(folder, random.Random(seed)).work())
    finally:
        traceback.print_exc()  # `_exit` says nothing
        sys.stderr.flush()
        os._exit(70)


def failures(pids: list[int]) -> Iterator[int]:
    for pid in pids:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended and status != signal.SIGKILL:
            yield status


def look(database: Path, question: str) -> int:
    """A number out of the audit. The connection is closed at once: a fork must not inherit it."""
    with closing(sqlite3.connect(database, timeout=60)) as db:
        return int(db.execute(question).fetchone()[0])


def main(kind: str, folder: Path, seed: int, kills: int) -> int:
    choose = random.Random(seed)
    worker: type[StoreWorker | EngineWorker] = StoreWorker if kind == "store" else EngineWorker
    database = folder / "headgate.db" if kind == "store" else Folder(folder).database
    if kind == "engine":
        Folder(folder).create()
    MIGRATIONS.append(add_audit)
    Store(database).close()
    pids = [start(worker, folder, choose.randrange(2**32)) for _ in range(PROCESSES)]
    try:
        # However slow the machine is: a kill comes after a few steps, and the last when enough has happened.
        while kills > 0 or (kind == "store" and not look(database, COVERED)):
            kills -= 1
            goal = look(database, STEPS) + choose.randrange(8)
            while look(database, STEPS) < goal:
                if any(failures(pids)):
                    return 1
                time.sleep(0.002)
            victim = pids.pop(choose.randrange(len(pids)))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            pids.append(start(worker, folder, choose.randrange(2**32)))
    finally:
        for pid in pids:
            with suppress(ProcessLookupError, ChildProcessError):  # one that failed is gone already
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
    if kind == "engine":
        last = EngineWorker(folder, choose)
        while last.engine.store.head() or last.engine.store.running():
            asyncio.run(last.drain())
            time.sleep(0.05)
        last.engine.store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
