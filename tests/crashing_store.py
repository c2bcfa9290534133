"""A store in a process that dies, for tests of what is resumed."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.core import Event, Task, TaskState
from headgate.log import Draft, Store


class Crash(BaseException):
    """The process is gone."""


@dataclass
class CrashingStore:
    """The real store, in a process that dies before or after its nth commit."""

    store: Store
    commits: int
    before: bool
    seen: int = field(default=0)
    ends: list[tuple[str, str]] = field(default_factory=list)
    """The first and the last event of each commit: its kind, and the name of a tool."""

    def append(
        self, task: str, drafts: Sequence[Draft], state: TaskState | None = None, **options: Any
    ) -> "asyncio.Future[list[Event]]":
        return asyncio.ensure_future(self._append(task, drafts, state, **options))

    async def _append(
        self, task: str, drafts: Sequence[Draft], state: TaskState | None = None, **options: Any
    ) -> list[Event]:
        self.seen += 1
        self.ends.append((_sort(drafts[0]), _sort(drafts[-1])) if drafts else ("", ""))
        if self.seen > self.commits > 0:
            raise Crash  # what runs beside the one that crashed is gone, too
        if self.seen == self.commits and self.before:
            raise Crash
        events = await self.store.append(task, drafts, state, **options)
        if self.seen == self.commits:
            raise Crash
        return events

    def points(self) -> list[int]:
        """The commits to die at, one of each sort: by what is on record last, and by what would come next."""
        sorts: dict[tuple[str, str], int] = {}
        for number in range(1, self.seen + 1):
            recorded = number - self.before
            last = self.ends[recorded - 1][1] if recorded else ""
            following = self.ends[recorded][0] if recorded < self.seen else ""
            sorts.setdefault((last, following), number)
        return list(sorts.values())


def _sort(draft: Draft) -> str:
    return f"{draft.body.kind} {getattr(draft.body, 'name', '')}".strip()


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
