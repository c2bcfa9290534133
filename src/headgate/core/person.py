"""What a person says to a task that waits or runs: lines, each with its number."""

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, NamedTuple

from headgate.core.event import Body, Line, Moment, Slice
from headgate.core.messages import clean_text
from headgate.core.state import State
from headgate.core.text import cut_text, share_out, shorten
from headgate.errors import ConfigError
from headgate.first_use import dataclass

LINE_CHARS = 20_000
"""Of one line: more than that belongs into a file that the model can read."""
MOST_WAITING = 50
"""Lines that wait for one task: whoever says more says it to nobody."""


class SaidLine(NamedTuple):
    """Something that was said to a task. A later line has a higher number."""

    number: int
    text: str


def check_line(text: str) -> str:
    """What is said, without blank ends. ConfigError if that is nothing, too long, or not text."""
    line = text.strip()
    if not line:
        raise ConfigError("There is nothing to say: give a text.")
    if clean_text(line) != line:
        raise ConfigError("What you say is not UTF-8 text.")
    if len(line) > LINE_CHARS:
        raise ConfigError(
            f"What you say has {len(line):,} characters and may have {LINE_CHARS:,}: put it into a file of"
            " the repository and name the file."
        )
    return line


def render_lines(lines: Sequence[str], room: int) -> str:
    """Lines as a list, in about so many characters: short ones whole, long ones cut alike."""
    limit = max(share_out([len(line) for line in lines], room), 1)
    return "\n".join(f"- {cut_text(line, limit)}" for line in lines)


@dataclass
class Person(Slice):
    """What a person has said to the task since it was submitted."""

    said: dict[int, str] = field(default_factory=dict)
    """By the number of the line."""
    unread: tuple[str, ...] = ()
    """What was said too late to be read."""


LINE_SHOWN = 300
"""What is shown of a line."""


class PersonSpoke(Body):
    """A person said something to the task. Every conversation of it is told, from its next turn on."""

    kind: ClassVar[str] = "person_spoke"
    text: str
    number: int
    """Later lines have higher numbers. It is the line's place among all that was said in the repository."""

    def apply(self, state: State, now: Moment) -> None:
        state[Person].said[self.number] = self.text
        if attempt := state.nodes.get(now.path):
            attempt.take_line()

    def line(self, state: State, now: Moment) -> Line | None:
        return Line(f"You: {shorten(' '.join(self.text.split()), LINE_SHOWN)}")


class StopAsked(Body):
    """A person asked for the task to be concluded with what there is."""

    kind: ClassVar[str] = "stop_asked"

    def apply(self, state: State, now: Moment) -> None:
        if attempt := state.nodes.get(now.path):
            attempt.counts.stopped = True

    def line(self, state: State, now: Moment) -> Line | None:
        return Line("Asked to conclude")
