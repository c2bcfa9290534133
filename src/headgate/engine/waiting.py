"""Following one task that this process or another one carries out."""

from dataclasses import dataclass

from headgate.core.events import ApplyRefused, Event, TaskEnded
from headgate.core.report import Report, build_report
from headgate.core.state import State
from headgate.core.task import Task, holds_up
from headgate.engine.log import Bus
from headgate.engine.store.store import Store


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


# Whether the queue is paused. Nothing stores that: it follows from how the last task came to rest.


RESTS = ("task_ended", "proposal_made", "apply_refused")
"""The events by which a task comes to rest."""


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


def find_pause(store: Store) -> Pause | None:
    """The pause, if the last task that came to rest failed for a reason that holds up the next in the queue.

    A task that was queued after that is no reason to call the queue paused: it asked for another try.
    """
    head, rest = store.head(), store.last_event(*RESTS)
    if head is None or rest is None or head.created > rest.at or store.running():
        return None
    failed = store.task(rest.task)
    match rest.body:
        case TaskEnded(state="INFRA_ERROR", reason=reason, summary=summary):
            why, ended = summary.partition("\n")[0].rpartition("not the work: ")[2], True
        case ApplyRefused(reason=reason, detail=why):
            ended = False
        case _:
            return None
    if failed is None or not holds_up(reason, failed.task, head.task):
        return None
    return Pause(rest.seq, rest.task, why, head.task.id, ended)
