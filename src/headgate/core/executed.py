"""What a planner has had executed."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.core.event import Slice
from headgate.core.failures import WorkSinceFailure
from headgate.core.recipes import Execution

if TYPE_CHECKING:
    from headgate.core.progress import RecipeEnded, RecipeStarted


@dataclass
class Executions(Slice):
    """The recipes that a planner had carried out, and what was written in the one under way."""

    all: tuple[Execution, ...] = ()
    """In the order in which they were begun."""
    begun: int = 0
    """How often one was begun, or gone on with."""
    last: int = 0
    """The number of the one that was carried out last, perhaps again."""
    since: str = ""
    """The tree at its start."""
    ended: dict[int, "RecipeEnded"] = field(default_factory=dict)
    """How they ended, by number; one that is under way again is not in it."""
    idle: list["RecipeEnded"] = field(default_factory=list)
    """Those that ended since one last changed a file."""
    work: WorkSinceFailure = field(default_factory=WorkSinceFailure)
    """What was done since the start of the latest one."""

    def begin(self, body: "RecipeStarted") -> None:
        """An execution was begun."""
        if body.number > len(self.all):
            self.all = (*self.all, Execution(body.number, body.task_type, body.goals))
        self.begun += 1
        self.last, self.since, self.work = body.number, body.tree, WorkSinceFailure()
        self.ended.pop(body.number, None)

    def end(self, body: "RecipeEnded") -> None:
        """An execution ended."""
        if body.number not in self.ended:
            self.ended[body.number] = body
            self.idle = [] if body.changed else [*self.idle, body]

    @property
    def running(self) -> int:
        """The number of the execution under way; 0 if there is none."""
        return 0 if self.last in self.ended else self.last

    @property
    def failed_in_vain(self) -> list["RecipeEnded"]:
        """Those that failed where files could have been changed, since one last changed a file."""
        return [one for one in self.idle if one.acts and not one.completed]

    def in_a_row(self, task_type: str) -> int:
        """How often this type was executed since a file last changed."""
        types = {one.number: one.task_type for one in self.all}
        return sum(types[ended.number] == task_type for ended in self.idle)
