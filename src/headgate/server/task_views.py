"""Tasks as clients read them: the events of each, folded once, with what is worth a line on the way."""

from collections import OrderedDict
from dataclasses import field

from headgate.core import Event, Line, State
from headgate.first_use import dataclass
from headgate.log import Store, TaskRow, complete_state

MOST_KEPT = 16
"""Tasks that are kept folded. People look at few at a time."""


@dataclass
class TaskView:
    """A task's events, and what follows from them."""

    events: list[Event] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    folded: State = field(default_factory=State)
    """For reading only."""

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    def take(self, event: Event) -> None:
        """Takes the next event in."""
        state = self.folded
        state.apply(event)
        self.events.append(event)
        line = event.line(state)
        if line and not line.is_detail:
            self.lines.append(line)

    def state(self, row: TaskRow) -> State:
        """The state now, also of a task that has not started."""
        return complete_state(self.folded, row)

    def after(self, seq: int) -> list[Line]:
        """The lines after an event."""
        return [line for line in self.lines if line.seq > seq]

    def behind(self, seq: int) -> list[Event]:
        """The events from the one that a line is about up to the next line; none if there is no such line."""
        numbers = [line.seq for line in self.lines]
        if seq not in numbers:
            return []
        following = [number for number in numbers if number > seq]
        end = following[0] if following else self.last_seq + 1
        return [event for event in self.events if seq <= event.seq < end]


class TaskViews:
    """The tasks that were looked at last. Only what is new is read: a page asks twice a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, TaskView] = OrderedDict()

    def of(self, row: TaskRow) -> TaskView:
        """The task as its events tell it now."""
        name = row.task.id
        view = self._kept.pop(name, None) or TaskView(folded=State(tries_again=row.task.resumes))
        for event in self._store.events(name, view.last_seq):
            view.take(event)
        self._kept[name] = view
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return view
