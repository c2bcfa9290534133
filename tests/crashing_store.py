"""A store in a process that dies, for tests of what is resumed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.core.events import Event
from headgate.core.task import TaskState
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
        if self.seen == self.commits and self.before:
            raise Crash
        events = await self.store.append(task, drafts, state, keep_bodies=keep_bodies)
        if self.seen == self.commits:
            raise Crash
        return events
