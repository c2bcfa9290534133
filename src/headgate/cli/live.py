"""What `run` and `watch` show: a line for each milestone and, on a terminal, a live footer."""

import os
import sys
import time
from collections import deque
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from headgate.cli.wrapping import fold_lines, terminal_width
from headgate.core.events import (
    CheckFinished,
    Event,
    ReplyReceived,
    ToolStarted,
    VerifyFinished,
    VerifyStarted,
)
from headgate.core.milestones import milestone
from headgate.core.state import State
from headgate.engine.bus import Pulse

STYLES = (
    ("SUCCESS", "bold green"),
    ("STUCK", "bold red"),
    ("INFRA_ERROR", "bold red"),
    ("CANCELLED", "yellow"),
    ("Verification passed", "green"),
    ("Verification failed", "yellow"),
    ("Refused", "yellow"),
    ("Model:", "yellow"),
)
FOOTER_LINES = 4


def clock(seconds: float) -> str:
    """`1:02:03`, or `02:03` below an hour."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def tokens(count: int) -> str:
    """`950`, `12.3k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def printable(text: str) -> str:
    """Text from a model or a command, without anything that could steer the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


class Progress:
    """Listens to events and pulses, and shows them: milestones as lines, the rest in a footer.

    The footer is shown on a terminal only, and both are on standard error; `to_stdout` has the lines on
    standard output.
    """

    def __init__(self, *, to_stdout: bool = False) -> None:
        errors = QuietConsole(stderr=True, highlight=False, soft_wrap=True)
        self._lines = QuietConsole(highlight=False, soft_wrap=True) if to_stdout else errors
        self.console = self._lines if self._lines.is_terminal else errors
        self.state = State()
        self.tries_again = ""
        """The stuck task that this one takes up."""
        self.idle_until = 0.0
        """Nobody worked on the task between its last event and this moment."""
        self.waiting = ""
        """Why the task has not started, or not gone on."""
        self._height = 0
        self._live: Live | None = None
        self._recent: deque[str] = deque(maxlen=FOOTER_LINES)
        self._partial = ""
        self._source = ""
        self._verifying = ""
        self._spinner = Spinner("dots")

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._live = Live(self, console=self.console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def hear(self, event: Event) -> None:
        """Takes an event in and prints its milestone, if it is one."""
        self.state.apply(event)
        match event.body:
            case ToolStarted() as body:
                self._show_next("tool", f"{body.name} {body.target}".strip())
            case VerifyStarted() as body:
                self._verifying = f"verifying: {', '.join(body.steps)}"
                self._show_next("", "")
            case VerifyFinished() | CheckFinished():
                self._verifying = ""
            case ReplyReceived():
                self._show_next("", "")
            case _:
                pass
        self.waiting = ""
        line = milestone(event, self.state, self.tries_again)
        if line:
            self.print_line(line, self.state.seconds)

    def feel(self, pulse: Pulse) -> None:
        """Takes a sign of life in; only the footer shows it."""
        if self._live is None:
            return
        if pulse.source != self._source:
            self._show_next(pulse.source, "")
        *lines, self._partial = (self._partial + pulse.text).split("\n")
        if pulse.source == "command":
            lines, self._partial = [*lines, self._partial], ""
        self._recent.extend(line for line in lines if line.strip())
        self._partial = self._partial[-400:]

    def print_line(self, line: str, at: float) -> None:
        style = next((style for start, style in STYLES if line.startswith(start)), "")
        stamp = f"[{clock(at)}] "
        folded = fold_lines(stamp + printable(line), self._width, len(stamp))
        self._lines.print(Text.assemble((stamp, "dim"), (folded[len(stamp) :], style)))

    def print_now(self, line: str) -> None:
        """A line that is no event's."""
        self.print_line(line, self.elapsed)

    def print_more(self, line: str) -> None:
        """A line of detail below a milestone."""
        text = f"        {printable(line)}"
        hanging = len(text) - len(text.lstrip()) + 2
        self._lines.print(Text(fold_lines(text, self._width, hanging), style="dim"))

    def wipe(self) -> str:
        """What takes the footer off a terminal when there is no time to ask the display to."""
        up = "\x1b[1A" * max(self._height - 1, 0)
        return f"\r{up}\x1b[J\x1b[?25h" if self._live else ""

    @property
    def elapsed(self) -> float:
        """How long the task has been worked on until now."""
        if self.state.status != "RUNNING":
            return self.state.seconds
        return self.state.seconds + max(time.time() - max(self.state.last_at, self.idle_until), 0.0)

    @property
    def _width(self) -> int | None:
        return self._lines.width if self._lines.is_terminal else None

    def _show_next(self, source: str, line: str) -> None:
        self._recent.clear()
        self._source, self._partial = source, ""
        if line:
            self._recent.append(line)

    def __rich__(self) -> Group:
        """The footer: where the task stands, and the last lines of what runs."""
        stage = next(reversed(self.state.stages.values()), None)
        usage = self.state.usage
        turn = f"{stage.title} turn {stage.turns + 1}/{stage.turns_allowed}" if stage else "starting"
        where = self._verifying or turn
        counted = f"{tokens(usage.prompt)} tokens in, {tokens(usage.completion)} out"
        self._spinner.text = Text(
            self.waiting or f"{clock(self.elapsed)}  {where}  {counted}",
            style="cyan",
        )
        width = max(self.console.width - 4, 20)
        recent = [*self._recent, self._partial] if self._partial.strip() else list(self._recent)
        lines = [Text(f"  {printable(line)[:width]}", style="dim") for line in recent[-FOOTER_LINES:]]
        self._height = 1 + len(lines)
        return Group(self._spinner, *lines)


class QuietConsole(Console):
    """A console whose reader may go away: the task goes on, unseen."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def say(text: str = "", *, hanging: int | None = None) -> None:
    """One line on standard output, whatever its characters and whether or not anyone still reads it.

    With `hanging`, a terminal has it broken at words, and indented by that much from its second line on.
    """
    if hanging is not None:
        text = fold_lines(text, terminal_width(sys.stdout), hanging)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding, "replace") + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
