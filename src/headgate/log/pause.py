"""A queue that is paused, because the next task would fail as the last one did."""

from headgate.core import RewriteRefused, TaskEnded, holds_up
from headgate.first_use import dataclass
from headgate.log.store import Store

STOPPING_EVENTS = ("task_ended", "proposal_made", "apply_refused")
"""The events after which a task no longer runs."""


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
    """Whether the queue is paused, and why. Nothing stores that: it follows from the last task's last event.

    It is paused if the last task that ran failed for a reason that holds up the next in the queue. A task
    that was queued after that is no reason to call the queue paused: it asked for another try.
    """
    head = store.head()
    if head is None or store.running():  # first: what follows looks through all events of a task that runs
        return None
    rest = store.last_event(*STOPPING_EVENTS)
    if rest is None or head.created > rest.at:
        return None
    failed = store.task(rest.task)
    match rest.body:
        case TaskEnded(state="INFRA_ERROR", reason=reason, summary=summary):
            why, ended = summary.partition("\n")[0].rpartition("not the work: ")[2], True
        case RewriteRefused(reason=reason, detail=why):
            ended = False
        case _:
            return None
    if failed is None or not holds_up(reason, failed.task, head.task):
        return None
    return Pause(rest.seq, rest.task, why, head.task.id, ended)
