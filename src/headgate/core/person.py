"""What a person says to a task that waits or runs: lines, each with its number."""

from collections.abc import Sequence
from typing import NamedTuple

from headgate.core.messages import clean_text
from headgate.core.text import cut_text, share_out
from headgate.errors import ConfigError

LINE_CHARS = 20_000
"""Of one line: more than that belongs into a file that the model can read."""
MOST_WAITING = 50
"""Lines that wait for one task: whoever says more says it to nobody."""


class Line(NamedTuple):
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
