"""The log of one task: what the loop records goes to the store, into the state, and to whoever listens."""

from collections.abc import Callable

from headgate.core.events import AnyBody, Event
from headgate.core.state import State
from headgate.core.task import Task, TaskState
from headgate.engine.bus import Bus
from headgate.engine.store import Draft, Store
from headgate.host.uninterrupted import uninterrupted


class TaskLog:
    """Implements the loop's Log port on the store."""

    def __init__(self, store: Store, bus: Bus, task: Task, now: Callable[[], float]) -> None:
        self.state = State(task=task.id, text=task.text, goal=task.goal, constraints=task.constraints)
        self._store, self._bus, self._task, self._now = store, bus, task.id, now
        self._pending: list[Draft] = []

    def record(self, path: str, turn: int, body: AnyBody, content: str | None = None) -> None:
        self._pending.append(Draft(path, turn, self._now(), body, content))

    async def commit(self) -> None:
        await self.commit_state(None)

    async def commit_state(self, state: TaskState | None, *, keep_bodies: bool = True) -> None:
        """Commits what was recorded together with a change of the task's state."""
        if not self._pending and state is None:
            return
        # A commit under way cannot be called back, so a cancelled run still hears of what was committed.
        await uninterrupted(self._commit_pending(state, keep_bodies))

    async def _commit_pending(self, state: TaskState | None, keep_bodies: bool) -> None:
        drafts, self._pending = self._pending, []
        for event in await self._store.append(self._task, drafts, state, keep_bodies=keep_bodies):
            self._hear(event)

    def _hear(self, event: Event) -> None:
        self.state.apply(event)
        self._bus.tell(event)
