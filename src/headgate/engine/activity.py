"""What a task is doing now, for people who watch: from its events, and from pulses between them."""

import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from headgate.core import (
    CHARS_PER_TOKEN,
    BaselineVerified,
    CandidateTried,
    CheckFinished,
    Event,
    Pulse,
    ReplyFailed,
    ReplyReceived,
    StageState,
    State,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    VerifyFinished,
    VerifyStarted,
)
from headgate.features.scouts import ScoutReported

LINES = 4
Doing = Literal[
    "idle", "files", "reading", "thinking", "writing", "calling", "tool", "verifying", "looking_back", "again"
]
_WRITING: dict[str, Doing] = {"text": "writing", "thinking": "thinking", "written": "calling"}
_BY_ITSELF = {"mutate": "trying small changes", "scout": "looking around"}
"""What kinds of stages do that work without a model."""


def count_tokens(count: int) -> str:
    """`950`, `12.3k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def _find_stage(state: State) -> StageState | None:
    """The stage that the task is in. Of several, it is the latest, but first those that ask the model."""
    entered = list(reversed(state.nodes.values()))
    under_way = [each for each in entered if each.ending is None] or entered[:1]
    asking = [each for each in under_way if each.kind not in _BY_ITSELF]
    return next(iter(asking or under_way), None)


class Activity:
    """Follows one task. Another process's replies and commands are not seen piece by piece."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._doing: Doing = "idle"
        self._since = now()
        self._name = ""
        """The tool, or the verification step."""
        self._read, self._total = 0, 0
        self._chars = 0
        self._first_piece: float | None = None
        self._lines: deque[str] = deque(maxlen=LINES)
        self._partial = ""

    @property
    def lines(self) -> list[str]:
        """The last lines of what the model or a command says."""
        partial = [self._partial] if self._partial.strip() else []
        return [*self._lines, *partial][-LINES:]

    @property
    def written(self) -> int:
        """About how many tokens the reply under way has so far."""
        return self._chars // CHARS_PER_TOKEN

    def hear(self, event: Event) -> None:
        """Takes an event."""
        match event.body:
            case ToolStarted() as body:
                self._begin("tool", f"{body.name} {body.target}".strip())
            case VerifyStarted() as body:
                self._begin("verifying", ", ".join(body.steps))
            case BaselineVerified() | VerifyFinished() | ToolFinished() | ReplyReceived() | ReplyFailed():
                self._begin("idle")
            case TaskStarted() | ScoutReported() | CandidateTried():
                self._begin("idle")
            case CheckFinished(check="verify"):
                self._begin("idle")
            case _:
                pass

    def hear_pulse(self, pulse: Pulse) -> None:
        """Takes a sign of life from a model or a command."""
        match pulse.source:
            case "files":
                if (self._doing, self._name) != ("files", pulse.text):
                    self._begin("files", pulse.text)
                self._read, self._total = pulse.done, pulse.total
            case "reading":
                if self._doing != "reading":
                    self._begin("reading")
                self._read, self._total = pulse.done, pulse.total or self._total
            case "text" | "thinking" | "written":
                self._take_piece(pulse)
            case "call":
                self._change("calling", pulse.text)
            case "step":
                self._begin("verifying", pulse.text)
            case "start":
                self._begin("looking_back", pulse.text)
            case "again":
                self._begin("again")
            case "command":
                self._lines.append(pulse.text)
            case _:
                pass

    def describe(self, state: State) -> str:
        """Where the task stands and what it is doing: `EXPLORE turn 2/20: reading ~3.1k tokens`."""
        stage = _find_stage(state)
        if self._doing == "files":
            of = f" of {self._total:,}" if self._total else ""
            return f"{self._name}{f': {self._read:,}{of} files' if self._read else ''}{self._elapsed()}"
        if self._doing == "verifying":
            return f"Verifying: {self._name}{self._elapsed()}"
        if self._doing == "looking_back":
            step = f": {self._name}" if self._name else ""
            return f"Checking whether verification failed before the task{step}{self._elapsed()}"
        if self._doing == "again":
            return f"Looking for the cause of the failure{self._elapsed()}"
        if stage is None:
            return "Starting"
        if stage.ending is not None or not stage.is_announced:
            return "Checking the result"
        if stage.kind in _BY_ITSELF:
            what = f"{_BY_ITSELF[stage.kind]}{self._elapsed()}" if self._doing == "idle" else self._what()
            return f"{stage.title}: {what}"
        # A tool belongs to the turn whose reply called it; a reply that is awaited is the next turn's.
        turn = stage.counts.turns + (self._doing != "tool")
        turn = min(max(turn, 1), stage.turns_allowed)
        return f"{stage.title} turn {turn}/{stage.turns_allowed}: {self._what()}"

    def _what(self) -> str:
        match self._doing:
            case "reading" if self._read:
                read = f"{count_tokens(self._read)} of {count_tokens(self._total)}"
                return f"reading {read} tokens{self._elapsed()}"
            case "reading":
                return f"reading ~{count_tokens(self._total)} tokens{self._elapsed()}"
            case "thinking" | "writing":
                return f"{self._doing}, {self._speed()}"
            case "calling":
                return f"calling {self._name or 'a tool'}, {self._speed()}"
            case "tool":
                return f"{self._name}{self._elapsed()}"
            case _:
                return f"waiting for the model{self._elapsed()}"

    def _elapsed(self) -> str:
        seconds = int(self._now() - self._since)
        return f", {seconds} s" if seconds >= 3 else ""

    def _speed(self) -> str:
        seconds = self._now() - self._first_piece if self._first_piece is not None else 0.0
        speed = f", {self.written / seconds:.0f} per second" if seconds >= 1 else ""
        return f"{count_tokens(self.written)} tokens{speed}"

    def _begin(self, doing: Doing, name: str = "") -> None:
        self._doing, self._name, self._since = doing, name, self._now()
        self._read = self._total = self._chars = 0
        self._first_piece = None
        self._lines.clear()
        self._partial = ""

    def _change(self, doing: Doing, name: str = "") -> None:
        """Goes on with the same reply, in another way."""
        if self._doing == "idle":
            self._begin(doing, name)
        if self._doing in ("thinking", "writing") and self._doing != doing and self._partial.strip():
            self._lines.append(self._partial)
            self._partial = ""
        self._doing, self._name = doing, name

    def _take_piece(self, pulse: Pulse) -> None:
        self._first_piece = self._now() if self._first_piece is None else self._first_piece
        doing = _WRITING[pulse.source]
        if doing != self._doing:
            self._change(doing, self._name if doing == "calling" else "")
        self._chars += len(pulse.text)
        if doing == "calling":
            return  # nobody wants to read JSON
        *whole, self._partial = (self._partial + pulse.text).split("\n")
        self._lines.extend(line for line in whole if line.strip())
        self._partial = self._partial[-400:]
