"""A few lines at the bottom of a terminal that are drawn again and again, below what is printed for good."""

import os
from collections.abc import Sequence
from typing import IO

from rich.cells import cell_len, set_cell_size

_HIDE_CURSOR, _SHOW_CURSOR, _CLEAR_BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[J"
USUAL_WIDTH = 80


class Footer:
    """Knows what it has drawn, and so how to take it off, also after the window became narrower."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._drawn: list[int] = []
        """How many columns each line takes that is on the screen."""

    @property
    def width(self) -> int:
        """Columns that a line may take: one less than there are, or some terminals break it."""
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            columns = 0
        return max(columns or USUAL_WIDTH, 20) - 1

    def draw(self, lines: Sequence[tuple[str, str]]) -> None:
        """Puts lines, each with the escape sequence of its style, in the place of those drawn before."""
        width = self.width
        cut = [(_crop(text, width), style) for text, style in lines]
        shown = "\r\n".join(f"{style}{text}\x1b[0m" if style else text for text, style in cut)
        self._write(f"{self._wipe()}{_HIDE_CURSOR}{shown}")
        self._drawn = [cell_len(text) for text, _ in cut]

    def wipe(self) -> None:
        """Takes the lines off the screen."""
        self._write(self.wiping())
        self._drawn = []

    def wiping(self) -> str:
        """What takes the lines off, for a process that is about to end."""
        return f"{self._wipe()}{_SHOW_CURSOR}" if self._drawn else ""

    def _wipe(self) -> str:
        if not self._drawn:
            return ""
        # A window that became narrower has broken the lines that no longer fit.
        width = self.width + 1
        rows = sum(max(-(-columns // width), 1) for columns in self._drawn)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}{_CLEAR_BELOW}"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._drawn = []  # nobody watches any more; the task goes on


def _crop(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width)
