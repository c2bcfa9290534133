"""What the log says of scouts. Commands that only look back import nothing else of them."""

from typing import ClassVar

from headgate.core import (
    SCOUTS,
    Body,
    Line,
    Moment,
    StageStarted,
    State,
    follows,
    says_start,
    shorten_words,
)

_QUERYING = {"code": "reading the code map", "build": "finding out how to build and test"}


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


@follows(StageStarted)
def _only_looks(state: State, body: StageStarted, now: Moment) -> None:
    """A scout changes no file, although it has no tools that would show so."""
    if body.stage_kind == "scout":
        state.nodes[now.path].may_change = False


@says_start
def _say_query(body: StageStarted, state: State) -> str:
    if body.reason != "next":
        return ""
    scout = next((name for name, title in SCOUTS.items() if title == body.title), "")
    if scout and body.stage_kind == "talk":
        return f"{body.title}: a model reads on..."
    return f"Querying {body.title}... {_QUERYING[scout]}" if scout else ""
