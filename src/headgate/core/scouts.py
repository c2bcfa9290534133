"""What scouts find out before a task is worked on."""

from typing import ClassVar

from headgate.core.event import Body, Line, Moment
from headgate.core.settings import SCOUTS
from headgate.core.state import State
from headgate.core.text import shorten_words


class ScoutReported(Body):
    """A scout said what it found out, which is the content."""

    kind: ClassVar[str] = "scout_reported"
    scout: str
    question: str = ""
    """What it was asked; empty for what it says at the start."""
    found: tuple[str, ...] = ()
    """The files, the problems or the places that come first."""
    tokens: int = 0
    """The length of what it says, estimated."""
    problem: str = ""
    """Why it could find out nothing."""

    def line(self, state: State, now: Moment) -> Line | None:
        scout = SCOUTS.get(self.scout, self.scout)
        if self.question:
            return Line(f"Querying {scout}: {shorten_words(self.question)}")
        if not self.found and not self.problem:
            return None
        more = f" and {len(self.found) - 3} more" if len(self.found) > 3 else ""
        return Line(f"{scout}: {self.problem or ', '.join(self.found[:3]) + more}")
