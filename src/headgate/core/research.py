"""What a task comes with, and has found, of what the tool `research` finds."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from headgate.core.event import Moment, Slice, follows
from headgate.core.state import State
from headgate.core.text import count
from headgate.core.turn_events import Calls, ToolFinished
from headgate.first_use import dataclass, regex

RESEARCH_TOOL = "research"
_GIVEN = regex(
    r"^.*\b(?:research|findings|sources?|material|background|notes)\b[^\n]{0,80}:[ \t]*\n+[ \t]*\S",
    re.IGNORECASE | re.MULTILINE,
)


def gives_research(text: str) -> bool:
    """Whether a task comes with what research would find: in a fence, or under a line such as `Research:`."""
    return "```" in text or _GIVEN.search(text) is not None


@dataclass
class Sources(Slice):
    """What research has returned."""

    pages: dict[str, None] = field(default_factory=dict)
    """Pages of the web, a line each."""

    def report(self, state: State) -> Mapping[str, Any]:
        return {"sources": tuple(self.pages)}

    def came_of(self, state: State) -> Iterable[str]:
        """Nobody has checked what the model makes of them."""
        if not state[Calls].made[RESEARCH_TOOL]:
            return
        if not self.pages:
            yield "Research returned no source."
            return
        first = list(self.pages)[:MOST_SOURCES]
        more = f" and {len(self.pages) - len(first)} more" if len(self.pages) > len(first) else ""
        yield f"Research returned {count(len(self.pages), 'source')}, not checked: {', '.join(first)}{more}."


MOST_SOURCES = 3


@follows(ToolFinished)
def _take_pages(state: State, body: ToolFinished, now: Moment) -> None:
    state[Sources].pages.update(dict.fromkeys(body.sources))
