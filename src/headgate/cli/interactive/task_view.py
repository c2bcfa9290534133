"""What the terminal shows of the task that runs: lines above the prompt, and its standing below it."""

import itertools
from collections.abc import Sequence

from rich.text import Text

from headgate.cli.interactive.screen import Screen
from headgate.cli.live import ShownTask
from headgate.cli.printing import printable
from headgate.log import Bus

_FRAMES = "|/-\\"
_MOST_LINES = 2


class TaskView(ShownTask):
    """Shows a task on the screen."""

    def __init__(self, bus: Bus, screen: Screen) -> None:
        super().__init__(bus)
        self._screen = screen
        self._frames = itertools.cycle(_FRAMES)

    @property
    def columns(self) -> int:
        return self._screen.width

    def print(self, text: Text) -> None:
        self._screen.print(text)

    def status(self, width: int) -> Sequence[tuple[str, str]]:
        """What is being done now, how long, how many tokens, and the last lines of what is said."""
        first = f"{next(self._frames)} {self.head(width - 2)}"
        said = self.activity.lines[-_MOST_LINES:]
        return [("class:status", first), *(("class:dim", f"  {printable(line)}") for line in said)]
