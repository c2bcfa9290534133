"""A store in a process that dies, for tests of what is resumed."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.events import Event
from headgate.core.task import Task, TaskState
from headgate.store.store import Draft, Store


class Crash(BaseException):
    """The process is gone."""


@dataclass
class CrashingStore:
    """The real store, in a process that dies before or after its nth commit."""

    store: Store
    commits: int
    before: bool
    seen: int = field(default=0)

    def enqueue(
        self, task: str, drafts: Sequence[Draft], state: TaskState | None = None, *, keep_bodies: bool = True
    ) -> "asyncio.Future[list[Event]]":
        return asyncio.ensure_future(self._append(task, drafts, state, keep_bodies=keep_bodies))

    async def _append(
        self, task: str, drafts: Sequence[Draft], state: TaskState | None = None, *, keep_bodies: bool = True
    ) -> list[Event]:
        self.seen += 1
        if self.seen > self.commits > 0:
            raise Crash  # what runs beside the one that crashed is gone, too
        if self.seen == self.commits and self.before:
            raise Crash
        events = await self.store.append(task, drafts, state, keep_bodies=keep_bodies)
        if self.seen == self.commits:
            raise Crash
        return events


@contextmanager
def fresh_store(folder: Path, task: Task) -> Iterator[Store]:
    """A store with one task, beside an empty folder `repo`."""
    (folder / "repo").mkdir(parents=True)
    store = Store(folder / "headgate.db")
    store.add_task(lambda task_id: task, 0.0)
    try:
        yield store
    finally:
        store.close()
