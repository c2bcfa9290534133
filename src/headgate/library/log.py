"""The log of a flow that runs without a repository: in memory, told to whoever listens."""

from collections.abc import Callable, Mapping, Sequence

from headgate.core import AnyBody, Event, State, Task
from headgate.store import Bus


class MemoryLog:
    """Implements the loop's Log port. Events are numbered as in the store."""

    def __init__(
        self,
        bus: Bus,
        task: Task,
        now: Callable[[], float],
        past: Sequence[Event] = (),
        contents: Mapping[int, str] | None = None,
    ) -> None:
        self.state = State(task=task.id, text=task.text, goal=task.goal, constraints=task.constraints)
        for event in past:
            self.state.apply(event)
        bus.state = self.state
        self.events: list[Event] = list(past)
        self.contents: dict[int, str] = dict(contents or {})
        """What was kept with events: prompts, replies and results."""
        self._bus, self._task, self._now = bus, task.id, now
        self._pending: list[tuple[Event, str | None]] = []
        self._last = past[-1].seq if past else 0

    def record(self, path: str, turn: int, body: AnyBody, content: str | None = None) -> None:
        """See Log."""
        self._last += 1
        event = Event(seq=self._last, task=self._task, path=path, turn=turn, at=self._now(), body=body)
        self._pending.append((event, content))

    async def commit(self) -> None:
        """See Log."""
        committed, self._pending = self._pending, []
        for event, content in committed:
            self.events.append(event)
            if content is not None:
                self.contents[event.seq] = content
            self.state.apply(event)
            self._bus.tell(event, self.state)
