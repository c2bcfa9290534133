"""What `headgate bench` shows: a line for each try on standard output, and how the run goes beside it."""

import asyncio
import sys
import time
from dataclasses import field
from typing import Self

from rich.text import Text

from headgate.bench import Exercise, ExerciseResult, Watcher, summarise
from headgate.cli.live import Footer, console_for
from headgate.cli.printing import clock, printable, say
from headgate.core import Event, ReplyReceived, ToolStarted, VerifyFinished, VerifyStarted
from headgate.first_use import dataclass
from headgate.log import try_line

_TICK = 0.5
_MOST_ROWS = 12
_NAME_CHARS = 40


@dataclass
class _Running:
    """An exercise that is being carried out."""

    began: float
    number: int = 1
    requests: int = 0
    doing: str = "starting"

    def hear(self, event: Event) -> None:
        match event.body:
            case ReplyReceived():
                self.requests += 1
                self.doing = "waiting for the model"
            case ToolStarted(name=name, target=target):
                self.doing = f"{name} {target}".strip()
            case VerifyStarted():
                self.doing = "running the tests"
            case VerifyFinished(asked=False, rewritten=(), passed=False):
                self.number += 1
                self.doing = "waiting for the model"
            case _:
                pass


@dataclass
class BenchView(Watcher):
    """Prints the tries of each exercise, in the order in which exercises start, however many run at once.

    On a terminal, standard error has a table with what runs now, the pass rates so far and the time that is
    probably left. Otherwise it has a line for each exercise.
    """

    tries: int
    results: list[ExerciseResult] = field(default_factory=list)
    _running: dict[str, _Running] = field(default_factory=dict)
    _unprinted: dict[str, ExerciseResult | None] = field(default_factory=dict)
    """The exercises whose tries are not printed yet, in order; None while one runs."""
    _left: int = 0
    _known: int = 0
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._console = console_for(sys.stderr)
        self._footer: Footer | None = None
        self._ticking: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Needs a running event loop, which keeps the table up to date."""
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._footer = Footer(self._console)
            self._ticking = asyncio.ensure_future(self._tick())
        return self

    def __exit__(self, *exception: object) -> None:
        if self._ticking:
            self._ticking.cancel()
        if self._footer:
            self._footer.wipe()
            self._footer = None
        for result in filter(None, self._unprinted.values()):  # they waited for one that was interrupted
            self._print(result)
        self._unprinted.clear()

    def wipe(self) -> str:
        """The escape sequence that erases the table, for a process that is about to end."""
        return self._footer.wiping() if self._footer else ""

    def tell(self, line: str) -> None:
        """Prints a line on standard error."""
        if self._footer:
            self._footer.wipe()
        self._console.print(printable(line), markup=False)

    def begin(self, known: list[ExerciseResult], left: int) -> None:
        """See Watcher."""
        self.results, self._known, self._left = list(known), len(known), left
        self._began = time.monotonic()
        if known:
            self.tell(f"{say_results(len(known))} from before; left to run: {left}.")

    def start(self, exercise: Exercise) -> None:
        """See Watcher."""
        self._running[exercise.name] = _Running(time.monotonic())
        self._unprinted[exercise.name] = None

    def hear(self, exercise: Exercise, event: Event) -> None:
        """See Watcher."""
        self._running[exercise.name].hear(event)

    def end(self, result: ExerciseResult) -> None:
        """See Watcher."""
        self._running.pop(result.name, None)
        self._left -= 1
        self.results.append(result)
        if self._footer:
            self._footer.wipe()
        self._unprinted[result.name] = result
        while (first := next(iter(self._unprinted), None)) and (ended := self._unprinted[first]):
            self._print(ended)
            del self._unprinted[first]
        if self._footer is None:
            total = len(self.results) + self._left
            self.tell(f"[{len(self.results)}/{total}] {result.name}: {_say_result(result)}")

    def _print(self, result: ExerciseResult) -> None:
        name = printable(result.name)
        for line in try_lines(result):
            say(f"{name}: {line}" if sys.stdout.isatty() else f"{line}\t{name}")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            if self._footer:
                head, *rows = self._table()
                self._footer.draw([Text(head, "bold"), *(Text(row, "dim") for row in rows)])

    def _table(self) -> list[str]:
        """The lines of the table, the first about all exercises."""
        now, summary = time.monotonic(), summarise(self.results, self.tries)
        total, done = len(self.results) + self._left, len(self.results) - self._known
        elapsed = now - self._began
        left = f", about {clock(elapsed / done * self._left)} left" if done else ""
        rates = [f"{summary.rate(number).share:.0%} in {number}" for number in range(1, self.tries + 1)]
        passed = f" · passed {', '.join(rates)} tries" if summary.judged else ""
        lines = [f"{len(self.results)} of {total}{passed} · {clock(elapsed)}{left}"]
        shown = list(self._running.items())[:_MOST_ROWS]
        width = min(max((len(name) for name, _ in shown), default=0), _NAME_CHARS)
        for name, one in shown:
            cut = name if len(name) <= width else f"…{name[-width + 1 :]}"
            number, asked = min(one.number, self.tries), one.requests
            told = f"{cut:<{width}}  try {number}  {asked:>3} requests  {clock(now - one.began)}  {one.doing}"
            lines.append(f"  {printable(told)}")
        return lines


def try_lines(result: ExerciseResult) -> list[str]:
    """The result line of each try."""
    if not result.judged:
        return [try_line(1, f"environment: {result.problem}")]
    return [try_line(number, one.reason, one.final_turns) for number, one in enumerate(result.tries, 1)]


def _say_result(result: ExerciseResult) -> str:
    how = f"passed in try {result.passed}" if result.passed else "failed" if result.judged else "not judged"
    return f"{how} ({result.timing.seconds:.1f} s)"


def say_results(count: int) -> str:
    """How many exercises are done with."""
    return "1 exercise has a result" if count == 1 else f"{count} exercises have a result"
