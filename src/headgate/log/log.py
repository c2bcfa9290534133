"""The log of one task: what the loop records goes to the store, into the state, and to whoever listens."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace

from headgate.core import Body, Event, Pulse, State, Task, TaskState, fold
from headgate.first_use import dataclass
from headgate.log.changes import Draft, LineWaits
from headgate.log.store import Store, TaskRow

# Who hears of what happens in this process. Other processes follow the store.


@dataclass
class Bus:
    """Calls its listeners, in order, with events that are already committed and with pulses as they come."""

    on_event: list[Callable[[Event], None]] = field(default_factory=list)
    on_pulse: list[Callable[[Pulse], None]] = field(default_factory=list)
    state: State = field(default_factory=State)
    """The task after the latest event. Whoever tells of an event has folded it; listeners only read this."""

    def tell(self, event: Event, state: State) -> None:
        """Passes on an event and the state after it."""
        self.state = state
        for listener in self.on_event:
            listener(event)

    @contextmanager
    def listening(self, listener: Callable[[Event], None]) -> Iterator[None]:
        """Adds a listener for the duration of the block."""
        self.on_event.append(listener)
        try:
            yield
        finally:
            self.on_event.remove(listener)

    def pulse(self, source: str, text: str = "", done: int = 0, total: int = 0) -> None:
        for listener in self.on_pulse:
            listener(Pulse(source, text, done, total))


def load_state(store: Store, row: TaskRow) -> State:
    """A task's state from its events; a task that has not started is known by its row."""
    return complete_state(fold(store.events(row.task.id)), row)


def complete_state(state: State, row: TaskRow) -> State:
    """A state with what only the row says of a task that has not started."""
    if state.flow is not None:
        return state
    task = row.task
    config = {"monorepo": {"package": task.package}} if task.package else {}
    return replace(
        state,
        task=task.id,
        text=task.text,
        goal=task.goal,
        constraints=task.constraints,
        status=row.state,
        config=config,
    )


class TaskLog:
    """Implements the loop's Log port on the store."""

    def __init__(self, store: Store, bus: Bus, task: Task, now: Callable[[], float]) -> None:
        self.state = State(
            task=task.id,
            tries_again=task.resumes,
            text=task.text,
            goal=task.goal,
            constraints=task.constraints,
        )
        self._store, self._bus, self._task, self._now = store, bus, task.id, now
        self._pending: list[Draft] = []

    def record(self, path: str, turn: int, body: Body, content: str | None = None) -> None:
        self._pending.append(Draft(path, turn, self._now(), body, content))

    async def commit(self) -> None:
        await self.commit_state(None)

    async def commit_state(
        self,
        state: TaskState | None,
        *bodies: Body,
        keep_bodies: bool = True,
        last_line: int | None = None,
    ) -> None:
        """Commits what was recorded, and these events, together with a change of the task's state.

        After LineWaits (see `Store.append`) what was recorded before still waits for a commit.
        """
        if not self._pending and not bodies and state is None:
            return
        pending, self._pending = self._pending, []
        drafts = [*pending, *(Draft("", 0, self._now(), body) for body in bodies)]
        committed = self._store.append(
            self._task, drafts, state, keep_bodies=keep_bodies, last_line=last_line
        )
        try:
            self._hear(await asyncio.shield(committed))
        except LineWaits:
            self._pending = [*pending, *self._pending]
            raise
        except asyncio.CancelledError:
            # A commit under way cannot be called back, so a cancelled run still hears of what was committed.
            await asyncio.wait([committed])
            self._hear(committed.result())
            raise

    def _hear(self, events: list[Event]) -> None:
        for event in events:
            self.state.apply(event)
            self._bus.tell(event, self.state)
