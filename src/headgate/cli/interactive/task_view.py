"""What the terminal shows of the task that runs: lines above the prompt, and its standing below it."""

import itertools
from collections.abc import Sequence

from headgate.cli.interactive.screen import Screen
from headgate.cli.live import STYLES, ShownTask
from headgate.cli.printing import clock, printable
from headgate.cli.terminal import fold_lines
from headgate.core import Event, PhaseChanged, ProposalMade, TaskEnded, phase_line
from headgate.log import Bus

_FRAMES = "|/-\\"
_MOST_LINES = 2
_COLOURS = {"green": "ansigreen", "red": "ansired", "yellow": "ansiyellow"}


def prompt_style(line: str) -> str:
    """The style of a milestone, in the words of the prompt's library."""
    words = next((style for start, style in STYLES if line.startswith(start)), "").split()
    return " ".join(_COLOURS.get(word, word) for word in words)


class TaskView(ShownTask):
    """Shows a task on the screen."""

    tells_ending = False
    """Whether the end is one of the milestones. Otherwise whoever has the report says it."""

    def __init__(self, bus: Bus, screen: Screen) -> None:
        super().__init__(bus)
        self._screen = screen
        self._frames = itertools.cycle(_FRAMES)

    def hear(self, event: Event) -> None:
        if isinstance(event.body, TaskEnded | ProposalMade) and not self.tells_ending:
            self.activity.hear(event)
            return
        super().hear(event)
        if isinstance(event.body, PhaseChanged) and self.state.config.get("phase_log") in ("stdout", "both"):
            body = event.body
            self.print_more(phase_line(body.before, body.phase, body.by, body.reason))

    def print_line(self, line: str, at: float) -> None:
        stamp = f"[{clock(at)}] "
        folded = fold_lines(stamp + printable(line), self._screen.width, len(stamp))
        self._screen.show_fragments([("class:dim", stamp), (prompt_style(line), folded[len(stamp) :])])

    def print_more(self, line: str) -> None:
        self._screen.show(f"        {printable(line)}", "class:dim", hanging=10)

    def status(self, width: int) -> Sequence[tuple[str, str]]:
        """What is being done now, how long, how many tokens, and the last lines of what is said."""
        first = f"{next(self._frames)} {self.head(width - 2)}"
        said = self.activity.lines[-_MOST_LINES:]
        return [("class:status", first), *(("class:dim", f"  {printable(line)}") for line in said)]
