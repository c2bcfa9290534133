"""Following one task to its end, whichever process carries it out."""

from headgate.core import Event, State, Task
from headgate.first_use import dataclass
from headgate.log import Bus, Report, Store, build_report


@dataclass(frozen=True, slots=True)
class QueueWait:
    """Why a task has not started yet."""

    ahead: int
    """How many tasks are before it."""
    holder: str
    """The id of the process that works, where it is known."""
    interrupted: str = ""
    """The first of those tasks, if a crash interrupted it and it is resumed now."""


class TaskFollower:
    """Tells a bus of one task's events after a number, each once.

    Every event is folded once: by the log of the execution, if this process carries the task out, or else
    here, when it comes out of the store.
    """

    def __init__(self, store: Store, bus: Bus, task: Task, after: int, known: State) -> None:
        self._store, self._listeners, self._task, self._after = store, bus, task.id, after
        known.tries_again = task.resumes
        self.state = known
        """What the events so far add up to."""
        self.execution_bus = Bus([self._hear], bus.on_pulse, known)
        """The bus for an execution of the task in this process."""
        self.crash: Exception | None = None
        """A bug in Headgate that ended the task in this process."""

    @property
    def has_started(self) -> bool:
        """Whether there was an event to tell of."""
        return self.state.last_seq > self._after

    def catch_up(self) -> None:
        """Folds and tells what other processes have committed. Not while this process runs the task."""
        self._listeners.state = self.state
        for event in self._store.events(self._task, self.state.last_seq):
            self.state.apply(event)
            if event.seq > self._after:
                self._listeners.tell(event, self.state)

    def _hear(self, event: Event) -> None:
        self.state = self.execution_bus.state
        self._listeners.tell(event, self.state)


def removed(task: Task) -> Report:
    """The report of a task that was cancelled in the queue, of which nothing is stored."""
    state = State(task=task.id, text=task.text, goal=task.goal, constraints=task.constraints)
    state.status, state.reason = "CANCELLED", "cancelled"
    return build_report(state)
