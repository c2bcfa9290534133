"""What `run` and `watch` show: a line for each milestone and, on a terminal, a live footer."""

import asyncio
import itertools
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Self

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from headgate.cli.printing import clock, printable, say
from headgate.cli.terminal import fold_lines, is_in_front, shorten_line, styling_stream
from headgate.core import Event, Pulse, State, say_cost
from headgate.engine import Activity, count_tokens
from headgate.features.phases import PhaseChanged
from headgate.log import Bus

_ERASE = (ControlType.ERASE_IN_LINE, 2)


class Footer:
    """A few lines at the bottom of a terminal that are drawn again and again.

    It remembers what it has drawn, so that it can erase it even after the window became narrower.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: list[int] = []
        """How many columns each line takes that is on the screen."""

    @property
    def width(self) -> int:
        """Columns that a line may take: one less than there are, or some terminals break it."""
        return self._console.width - 1

    def draw(self, lines: Sequence[Text]) -> None:
        """Puts lines in the place of those drawn before."""
        for line in lines:
            line.truncate(self.width)
        with self._console:  # all of it is one write
            self.wipe()
            self._console.show_cursor(False)
            self._console.print(Text("\n").join(lines), end="")
        self._drawn = [line.cell_len for line in lines]

    def wipe(self) -> None:
        """Takes the lines off the screen."""
        # A window that became narrower has broken the lines that no longer fit.
        rows = sum(max(-(-columns // self._console.width), 1) for columns in self._drawn)
        if rows:
            up = ((ControlType.CURSOR_UP, 1), _ERASE) * (rows - 1)
            self._console.control(Control(ControlType.CARRIAGE_RETURN, _ERASE, *up))
        self.leave()

    def leave(self) -> None:
        """Leaves the lines where they are: somebody else writes to the terminal now."""
        if self._drawn:
            self._console.show_cursor(True)
        self._drawn = []

    def wiping(self) -> str:
        """The escape sequence that erases the lines, for a process that is about to end."""
        with self._console.capture() as erased:
            self.wipe()
        return erased.get()


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

PATIENCE = 1.0
"""Seconds after which people are told that many files are read."""
SILENCE = 30.0
"""Seconds without a line after which one says what is being done, where there is no terminal."""
TICK = 0.125
_SPINNER, _PLAIN_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"


def style_of(line: str) -> str:
    """The style of a milestone."""
    return next((style for start, style in STYLES if line.startswith(start)), "")


class ShownTask:
    """A task as people see it while it runs: its milestones, and what is being done now.

    `hear` and `hear_pulse` are called with what happens. How a line is shown is for the kinds of this.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.idle_until = 0.0
        """Nobody worked on the task between its last event and this moment."""
        self.waiting = ""
        """Why the task does not run now."""
        self.activity = Activity()
        self.shows_calls = True
        """A call is a line below the milestone; False where something shows more of it."""
        self._began = 0.0
        """When a task was taken up that has not started yet."""
        self._reading, self._reading_since = "", 0.0
        """What many files are read for, until it was said, and since when."""

    @property
    def state(self) -> State:
        """The task after the latest event."""
        return self._bus.state

    def hear(self, event: Event) -> None:
        """Shows an event's milestone, if it is one, or the call that it ends.

        A change of phase is shown where the configuration asks for it.
        """
        self.activity.hear(event)
        self.waiting = ""
        line, body = event.line(self.state), event.body
        if line and not line.is_detail:
            self.print_line(line.text, line.elapsed)
        elif line and self.shows_calls:
            self.print_more(line.text)
        if isinstance(body, PhaseChanged) and self.state.config.get("phase_log") in ("stdout", "both"):
            self.print_phase(str(body))

    def hear_pulse(self, pulse: Pulse) -> None:
        """Takes a sign of life in. It is no line, unless many files are read for a while."""
        self.activity.hear_pulse(pulse)
        if pulse.source != "files":
            return
        self._began, now = self._began or time.time(), time.monotonic()
        if self._reading != pulse.text:
            self._reading, self._reading_since = pulse.text, now
        elif now - self._reading_since >= (PATIENCE if pulse.done or pulse.total else 2 * PATIENCE):
            self._reading_since = math.inf
            so_far = f": {pulse.done:,} files so far" if pulse.done else ""
            self.print_now(f"{pulse.text}{f': {pulse.total:,} files' if pulse.total else so_far}...")

    @property
    def columns(self) -> int | None:
        """How wide a line may be."""
        raise NotImplementedError

    def print(self, text: Text) -> None:
        """A line, however it is shown."""
        raise NotImplementedError

    def print_line(self, line: str, at: float) -> None:
        """A line, with the time at which it was."""
        stamp = f"[{clock(at)}] "
        folded = fold_lines(stamp + printable(line), self.columns, len(stamp))
        self.print(Text.assemble((stamp, "dim"), (folded[len(stamp) :], style_of(line))))

    def print_more(self, line: str) -> None:
        """A line of detail below a milestone."""
        text = f"        {printable(line)}"
        hanging = len(text) - len(text.lstrip()) + 2
        self.print(Text(fold_lines(text, self.columns, hanging), style="dim"))

    def print_phase(self, line: str) -> None:
        """A change of phase."""
        self.print_more(line)

    def print_now(self, line: str) -> None:
        """A line that is no event's."""
        self.print_line(line, self.elapsed)

    @property
    def elapsed(self) -> float:
        """How long the task has been worked on until now."""
        if self._began and not self.state.clock.started_at:
            return time.time() - self._began
        if self.state.status != "RUNNING":
            return self.state.seconds
        return self.state.seconds + max(time.time() - max(self.state.clock.last_at, self.idle_until), 0.0)

    @property
    def doing(self) -> str:
        """What is being done now, or why nothing is."""
        return self.waiting or self.activity.describe(self.state)

    @property
    def counted(self) -> str:
        """Tokens and cost, with the reply under way: `~12.3k sent, 8.0k cached, ~900 generated, cost 0.1`."""
        state = self.state
        usage, about = state.accounts.usage, "~" if state.accounts.estimated else ""
        parts = [f"{about}{count_tokens(usage.prompt)} sent"]
        parts += [f"{count_tokens(usage.cached)} cached"] if usage.cached else []
        parts += [f"{about}{count_tokens(usage.completion + self.activity.written)} generated"]
        cost = say_cost(state.accounts.cost, state.accounts.lines)
        return ", ".join([*parts, f"cost {about}{cost}"] if cost else parts)

    def head(self, width: int) -> str:
        """What is being done now, for how long, and, where there is room for it, what was used."""
        head = printable(self.waiting or f"{clock(self.elapsed)}  {self.doing}")
        counted = "" if self.waiting else f"  ({self.counted})"
        return head + counted if cell_len(head + counted) <= width else shorten_line(head, width)


class Progress(ShownTask):
    """Milestones as lines, and the rest in a footer, which is shown on a terminal only.

    Both are on standard error; with `to_stdout` the lines are on standard output. Where there is no terminal,
    a line says every 30 seconds what is being done.
    """

    def __init__(self, bus: Bus, *, to_stdout: bool = False, silence: float = SILENCE) -> None:
        super().__init__(bus)
        errors = console_for(sys.stderr)
        self._lines = console_for(sys.stdout) if to_stdout else errors
        self.console = self._lines if self._lines.is_terminal else errors
        self.phases_to_stdout = to_stdout
        self._silence = silence
        self._said_at = time.monotonic()
        self._is_held = False
        self._footer: Footer | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._frames = itertools.cycle(_SPINNER if "utf" in self.console.encoding.lower() else _PLAIN_SPINNER)

    def __enter__(self) -> Self:
        """Needs a running event loop, which keeps the footer up to date."""
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._footer = Footer(self.console)
        self._ticking = asyncio.ensure_future(self._tick())
        return self

    def __exit__(self, *exception: object) -> None:
        if self._ticking:
            self._ticking.cancel()
        if self._footer:
            self._footer.wipe()
            self._footer = None

    def print(self, text: Text) -> None:
        with self.footer_hidden():
            self._lines.print(text)

    def print_phase(self, line: str) -> None:
        """A change of phase; beside other output, it is on standard error."""
        if not self.phases_to_stdout:
            self.print_more(line)
            return
        with self.footer_hidden():
            say(line)

    @contextmanager
    def footer_hidden(self) -> Iterator[None]:
        """Hides the footer while something else is printed."""
        self._said_at = time.monotonic()
        if footer := self._usable_footer():
            footer.wipe()
        yield
        if footer:
            self._draw(footer)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Shows nothing of its own while a person is asked something. For another thread than the loop's."""
        footer, self._footer = self._footer, None
        self._is_held = True
        if footer:
            footer.wipe()
        try:
            yield
        finally:
            self._footer, self._is_held = footer, False
            self._said_at = time.monotonic()

    def wipe(self) -> str:
        """The escape sequence that erases the footer, for a process that is about to end."""
        return self._footer.wiping() if self._footer else ""

    @property
    def columns(self) -> int | None:
        return self._lines.width if self._lines.is_terminal else None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if footer := self._usable_footer():
                self._draw(footer)
            elif not self._is_held and time.monotonic() - self._said_at >= self._silence:
                self.print_now(self.doing)

    def _usable_footer(self) -> Footer | None:
        """The footer, unless this process is in the background: the person types for the shell then."""
        if self._footer and not is_in_front(self.console.file):
            self._footer.leave()
            return None
        return self._footer

    def _draw(self, footer: Footer) -> None:
        """Where the task stands, and the last lines of what runs."""
        head = Text(f"{next(self._frames)} {self.head(footer.width - 2)}", "cyan")
        footer.draw([head, *(Text(f"  {printable(line)}", "dim") for line in self.activity.lines)])


class QuietConsole(Console):
    """A console whose reader may go away: the task goes on, unseen."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def console_for(stream: IO[str]) -> QuietConsole:
    """A console that may style what it writes to a terminal."""
    return QuietConsole(file=styling_stream(stream), highlight=False, soft_wrap=True)
