"""Text for a terminal: broken at words, with what follows indented. Pipes and files get lines as they are."""

import os
import textwrap
from typing import IO

USUAL_WIDTH, MIN_WIDTH = 80, 20


def terminal_width(stream: IO[str]) -> int | None:
    """How wide the terminal behind a stream is; None where there is none."""
    try:
        if not stream.isatty():
            return None
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns)
    except (ValueError, OSError):
        columns = 0
    return max(columns, MIN_WIDTH) if columns > 0 else USUAL_WIDTH  # a terminal may not know its own


def fold_lines(text: str, width: int | None, hanging: int | None = None) -> str:
    """Text whose lines are no wider than that, unless a single word is.

    What a line goes on with is indented by `hanging`, or else as the line itself.
    """
    return text if width is None else "\n".join(_fold(line, width, hanging) for line in text.split("\n"))


def _fold(line: str, width: int, hanging: int | None) -> str:
    if len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip()) if hanging is None else hanging
    following = " " * min(indent, width // 2)
    return textwrap.fill(
        line, width, subsequent_indent=following, break_long_words=False, break_on_hyphens=False
    )


def shorten_line(text: str, width: int | None) -> str:
    """The beginning of a line, where it is not wanted longer."""
    return text if width is None or len(text) <= width else f"{text[: max(width - 3, 1)].rstrip()}..."
