"""What is counted in one attempt at a stage. The events of the attempt change it; `rules` decides by it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from headgate.core.notes import Note
from headgate.core.text import times
from headgate.first_use import dataclass

if TYPE_CHECKING:
    from headgate.core.failures import Failure
    from headgate.core.turn_events import ToolStarted


@dataclass(frozen=True, slots=True)
class Pass:
    """The check holds."""


@dataclass(frozen=True, slots=True)
class Fail:
    """It does not; `reason` is a sentence for the model."""

    kind: str
    reason: str
    clause: str = ""
    """The same for people, where the sentence for the model is an order."""


@dataclass(frozen=True, slots=True)
class Broken:
    """It could not be found out: the environment is at fault, not the work."""

    reason: str


Verdict = Pass | Fail | Broken


@dataclass(slots=True)
class TurnRecord:
    """What one reply of the model led to."""

    usable: bool = False
    """At least one call was tried; thoughts and signals do not count."""
    succeeded: bool = False
    """A call that reads, writes or runs succeeded."""
    faulty: bool = False
    """A call did not succeed."""
    talked: bool = False
    """The reply thought, planned or gave a signal, and that was accepted."""
    reported: bool = False
    """The reply reported a status."""
    status: str = ""
    """What that comes to: `completed`, `stuck`, or nothing."""
    is_real: bool = False
    """The reply called a tool that reads, writes or runs, or wrote the plan."""
    refused: bool = False
    """The reply said that the stage is done, and was refused."""

    @property
    def only_talked(self) -> bool:
        """Whether the reply only thought, planned or gave a signal, and nothing of that failed."""
        return self.talked and not self.faulty and not self.succeeded


@dataclass(slots=True)
class Unanswered:
    """Requests in a row that the server of a model did not answer, from the first after an answer."""

    count: int = 0
    since: float = 0.0
    """When the first of them failed."""
    server: str = ""
    """What the server is at; empty where it is there, and answers with an error."""
    reason: str = ""
    """What the latest one said."""
    is_news: bool = False
    """That is not what the one before it said."""
    is_away_again: bool = False
    """The one before it found the server at the same."""
    refused: bool = False
    """The server will not answer however often it is asked."""

    def take(self, detail: str, server: str, at: float, *, refused: bool) -> None:
        """Takes a request that failed."""
        self.is_news = self.reason != detail
        self.is_away_again = self.count > 0 and self.server == server
        self.reason, self.server, self.refused = detail, server, refused
        self.since = self.since if self.count else at
        self.count += not self.refused

    def seconds(self, at: float) -> float:
        """From the first of them to a time at which there was no answer."""
        return max(at - self.since, 0.0) if self.count else 0.0


class Fault(NamedTuple):
    """What was wrong with a reply or a call that could not be used."""

    kind: str
    said_done: str = ""
    """Of a refused closing signal: the check's words, after `the model said it was done`."""


COMPACTIONS = 2
"""How often in a row the view is cut for one request that does not fit."""


@dataclass(slots=True)
class Counts:
    """What has been counted in one attempt at a stage."""

    attempts: int = 1
    """Attempts at this stage, this one included, since it was last entered for a new reason."""
    started_at: float = 0.0
    last_at: float = 0.0
    turns: int = 0
    """Replies so far."""
    turn: TurnRecord = field(default_factory=lambda: TurnRecord(usable=True, succeeded=True))
    """What the latest reply led to."""
    bad_before: int = 0
    """Replies in a row, before the latest, that held nothing usable."""
    failed_before: int = 0
    """Turns in a row, before the latest, in which no call succeeded."""
    standalone_before: int = 0
    """Replies before the latest that only reported a status, since a real tool succeeded."""
    faults: Counter[Fault] = field(default_factory=Counter)
    """Replies and calls that could not be used."""
    can_act: bool = False
    """It has tools that read, write or run: only then does an attempt without a successful call count."""
    succeeded: bool = False
    """A call succeeded in this attempt, or a plan was written, or an answer was tried."""
    done: Note | None = None
    """The model gave the signal, or the stage's rules are satisfied."""
    verdict: Verdict | None = None
    """What the checks said to that."""
    granted: bool = False
    """The final turn has been granted."""
    final_turns: int = 0
    """Replies since then. One that cannot be used gets one more."""
    unanswered: Unanswered = field(default_factory=Unanswered)
    overflow: bool = False
    """The last request did not fit the context window, or the next one would not."""
    compactions: int = 0
    """Compactions in a row without a reply in between."""
    stopped: bool = False
    """A person wants it concluded."""
    escalated: str = ""
    """Why the model handed its work back."""

    @property
    def seconds(self) -> float:
        """How long this attempt has taken so far."""
        return self.last_at - self.started_at

    @property
    def bad_replies(self) -> int:
        """Replies in a row that held nothing usable; one that only talks neither counts nor ends it."""
        return 0 if self.turn.usable else self.bad_before + (not self.turn.only_talked)

    @property
    def failed_turns(self) -> int:
        """Turns in a row in which no call succeeded, from one on that tried."""
        if self.turn.succeeded:
            return 0
        return self.failed_before + (self.failed_before > 0 or not self.turn.only_talked)

    @property
    def standalone_status(self) -> int:
        """Replies since the last success of a real tool that only reported a status."""
        turn = self.turn
        return self.standalone_before + (turn.reported and not (turn.is_real or turn.refused))

    @property
    def status(self) -> str:
        """What the status of the latest reply comes to: `completed`, `stuck`, or nothing.

        Where the same reply said that the stage is done and was told what is missing, it is not complete, and
        the model keeps its tools to finish it.
        """
        return "" if self.turn.status == "completed" and self.turn.refused else self.turn.status

    @property
    def idle(self) -> bool:
        """Whether no call has succeeded in this attempt."""
        return self.can_act and not self.succeeded

    @property
    def final(self) -> bool:
        """Whether the final turn is used up: by a signal, accepted or not, or by two replies without one."""
        return self.final_turns > 1 or (self.final_turns == 1 and self.verdict is not None)

    @property
    def trouble(self) -> str:
        """What was wrong with the replies that could not be used."""
        return describe_faults(self.faults)

    def begin_turn(self) -> None:
        """The model replied."""
        self.bad_before, self.failed_before = self.bad_replies, self.failed_turns
        self.standalone_before = self.standalone_status
        self.turns += 1
        self.final_turns += self.granted
        self.unanswered, self.compactions = Unanswered(), 0
        self.turn = TurnRecord()
        self.verdict = None

    def begin_anew(self) -> None:
        """A person spoke: what was done is not all that is asked for any more."""
        self.done = self.verdict = None
        self.turn = TurnRecord(usable=True, succeeded=True)
        self.standalone_before = self.bad_before = self.failed_before = 0

    def succeed(self) -> None:
        """A call got something done."""
        self.standalone_before = 0
        self.turn.succeeded = self.succeeded = True


_FAULTS = {
    "text_only": ("reply", "replies", "without a tool call"),
    "not_done": ("refused closing signal", "refused closing signals", ""),
    "wrong_stage": ("closing signal", "closing signals", "for another stage"),
    "cut_off": ("reply", "replies", "cut off at the length limit"),
    "too_long": ("reply", "replies", "that took too long"),
    "bad_reply": ("unusable reply", "unusable replies", ""),
    "invalid_arguments": ("call", "calls", "with wrong arguments"),
    "unknown_tool": ("call", "calls", "to a tool that does not exist"),
    "denied": ("refused call", "refused calls", ""),
    "failed": ("failed call", "failed calls", ""),
    "repeated": ("repeated call", "repeated calls", "with the same result"),
}


def describe_faults(faults: Counter[Fault]) -> str:
    """`3 replies without a tool call; 1 failed call`, the most frequent first; nothing if there are none."""
    return "; ".join(_describe(fault, count) for fault, count in faults.most_common())


def _describe(fault: Fault, count: int) -> str:
    if fault.said_done:
        return f"the model said it was done {times(count)} {fault.said_done}"
    if fault.kind == "final":
        return "no tool call in the last reply"
    one, many, which = _FAULTS.get(fault.kind, (fault.kind, fault.kind, ""))
    return f"{count} {one if count == 1 else many} {which}".rstrip()


@dataclass
class WorkSinceFailure:
    """What was done since the last failed verification."""

    written: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """What tools wrote: the hash of each file before the first write and after the last."""
    ran: bool = False
    """A command was run."""

    def take(self, call: "ToolStarted", *, ok: bool) -> None:
        """Takes a call in that has ended. A write that failed wrote nothing."""
        for change in call.changes if ok else ():
            before, _ = self.written.get(change.path, (change.before, None))
            self.written[change.path] = (before, change.after)
        self.ran = self.ran or (call.category == "run" and call.name != "run_tests")

    def is_idle(
        self, failures: "Sequence[Failure]", tree: str, reason: str, failing: tuple[str, ...]
    ) -> bool:
        """Whether the task has changed nothing since the last of these failures, by what the next run found.

        `tree` is without what others changed. It shows neither what git ignores nor what a command did
        elsewhere. What tools wrote is compared by its hashes; a command counts as a change if verification
        now fails in another way.
        """
        last = failures[-1] if failures else None
        if (
            last is None
            or tree not in (last.own, last.own_after)
            or any(before != after for before, after in self.written.values())
        ):
            return False
        return not self.ran or (reason, failing) == (last.reason, last.failing)
