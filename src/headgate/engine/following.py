"""Following one task that this process or another one carries out."""

from dataclasses import dataclass

from headgate.core import Event, Report, State, Task, build_report
from headgate.store import Bus


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a task has not started yet."""

    ahead: int
    """How many tasks are before it."""
    holder: str
    """The id of the process that works, where it is known."""
    interrupted: str = ""
    """The first of those tasks, if a crash cut it short and it is taken up now."""


class Telling:
    """Tells a bus of one task's events, each once, whether they come from here or out of the store."""

    def __init__(self, bus: Bus, after: int = 0) -> None:
        self._bus = bus
        self.bus = Bus([self.tell], bus.on_pulse)
        self.seen = after
        self.crash: Exception | None = None

    def tell(self, event: Event) -> None:
        if event.seq > self.seen:
            self.seen = event.seq
            self._bus.tell(event)


def removed(task: Task) -> Report:
    """What there is to say of a task that was cancelled in the queue: nothing of it is stored."""
    state = State(task=task.id, text=task.text, goal=task.goal, constraints=task.constraints)
    state.status, state.reason = "CANCELLED", "cancelled"
    return build_report(state)
