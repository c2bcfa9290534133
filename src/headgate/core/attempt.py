"""One attempt at a stage, as its events tell it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.core.flow import Ending
from headgate.core.knobs import (
    COMPLETE_TOOL,
    DONE_TOOL,
    ESCALATE_TOOL,
    EXECUTE_TOOL,
    FAIL_TOOL,
    MEMORY_TOOL,
    START_TOOL,
)
from headgate.core.loops import CallMemory
from headgate.core.notes import Note
from headgate.core.rules import COMPACTIONS, Fail, Tally, Verdict
from headgate.core.text import times
from headgate.core.unanswered import Unanswered

if TYPE_CHECKING:
    from headgate.core.turn_events import ToolFinished

CONCLUDED = "concluded"
"""Why a stage is left out, or what a review found is ignored: the task is to end now."""
UNUSABLE = frozenset(
    {"invalid_arguments", "unknown_tool", "denied", "not_done", "wrong_stage", "repeated", "too_often"}
)
"""Errors of calls that could not even be tried: a turn with nothing else achieved nothing."""


WRITERS = frozenset({"write_file", "edit_file", "apply_patch", "make_skill"})
CHANGERS = WRITERS | {"shell", "run_tests"}
"""Tools through which files may change."""
SIGNALS = frozenset({"stage_done", "agent__task_status", ESCALATE_TOOL})
REAL = frozenset({"read", "write", "run"})
"""The categories of tools that get something done."""
PLAN_TOOL = "plan_tasks"
LIST_TOOLS = frozenset({START_TOOL, COMPLETE_TOOL, FAIL_TOOL, EXECUTE_TOOL})
"""Tools that get a model further in a list of tasks, or in its plan."""
DEEDS = LIST_TOOLS | {MEMORY_TOOL}
"""Tools of the category `control` that get something done."""
TALK = SIGNALS | LIST_TOOLS | {PLAN_TOOL, "think"}
"""Tools that neither read, nor write, nor run anything."""


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """A check that does not hold when the model says that the stage is done."""

    check: str
    reason: str
    clause: str = ""
    """Why, as a clause for people."""
    said_done: str = ""
    """The same after `the model said it was done`."""


@dataclass(slots=True)
class StageState:
    """One attempt at a stage."""

    path: str
    stage: str
    title: str
    attempt: int
    tries: int
    """Attempts since the stage was last entered for a new reason."""
    turns_allowed: int
    kind: str = "talk"
    reason: str = "next"
    """Why it was entered."""
    item: str = ""
    """The step of the plan that it carries out."""
    started_at: float = 0.0
    last_at: float = 0.0
    turns: int = 0
    bad_replies: int = 0
    turn: TurnRecord = field(default_factory=lambda: TurnRecord(usable=True, succeeded=True))
    """What the latest reply led to."""
    failed_turns: int = 0
    """Turns in a row, before the latest, in which no call succeeded."""
    succeeded: bool = False
    """A call succeeded in this attempt, or a plan was written, or an answer was tried."""
    faults: Counter[str] = field(default_factory=Counter)
    """Replies and calls of this attempt that could not be used, by kind. In the kind of a refused closing
    signal, the check's words for people follow."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that succeeded, by tool; signals not counted."""
    files_read: dict[str, None] = field(default_factory=dict)
    files_changed: dict[str, None] = field(default_factory=dict)
    """What its tools wrote."""
    plan_written: bool = False
    done: Note | None = None
    conclusion: Note | None = None
    """What the model said in the final turn, if that was not accepted."""
    refusal: str = ""
    """Why that was not accepted, for people."""
    verdict: Verdict | None = None
    refused_by: Counter[str] = field(default_factory=Counter)
    """How often each check has refused the closing signal in this attempt."""
    refused_last: Refusal | None = None
    """The latest of these refusals."""
    final_granted: bool = False
    final_reason: str = ""
    """Why it was granted."""
    final_turns: int = 0
    """Replies since the final turn was granted. One that cannot be used gets one more."""
    standalone: int = 0
    """Replies before the latest that only reported a status, since a real tool succeeded."""
    memory: CallMemory = field(default_factory=CallMemory)
    effective: set[str] = field(default_factory=set)
    """Calls under way that change a file."""
    nudged: set[str] = field(default_factory=set)
    """The kinds of loop that the model was told of."""
    can_write: bool = False
    may_change: bool = False
    """It has tools that write or run commands, or asks for whole answers: files may change in it."""
    can_act: bool = False
    """It has tools that read, write or run: only then does an attempt without a successful call count."""
    escalated: str = ""
    """Why the work was handed back to the planner."""
    called: Counter[str] = field(default_factory=Counter)
    """Calls that were run, by tool, whether they succeeded or not."""
    holding: dict[str, str] = field(default_factory=dict)
    """Calls that succeeded, by name and arguments, and the id of the first that did. What they returned still
    holds: nothing has changed since, but by themselves."""
    stopped: bool = False
    unanswered: Unanswered = field(default_factory=Unanswered)
    overflow: bool = False
    compactions: int = 0
    ending: Ending | None = None
    why: str = ""
    """What was missing when it ended without completing."""
    end_reason: str = ""
    """Why it ended, as a slug."""

    @property
    def final_taken(self) -> bool:
        """Whether the final turn is used up: by a signal, accepted or not, or by two replies without one."""
        return self.final_turns > 1 or (self.final_turns == 1 and self.verdict is not None)

    @property
    def standalone_status(self) -> int:
        turn = self.turn
        only_status = turn.reported and not (turn.is_real or turn.refused)
        return self.standalone + only_status

    @property
    def note(self) -> Note | None:
        """What the model said about its work at the end of this attempt, accepted or not."""
        return self.done or self.conclusion

    def _count_bad(self) -> int:
        """Replies in a row that held nothing usable; one that only talks neither counts nor ends it."""
        return 0 if self.turn.usable else self.bad_replies + (not self.turn.only_talked)

    def _count_failed(self) -> int:
        """Turns in a row in which no call succeeded, from one on that tried."""
        if self.turn.succeeded:
            return 0
        return self.failed_turns + (self.failed_turns > 0 or not self.turn.only_talked)

    @property
    def is_announced(self) -> bool:
        """Whether people are told of it as a stage. A run of the verification steps has its own words."""
        return bool(self.title)

    def equip(self, tools: Iterable[str]) -> None:
        """The tools that it was entered with. A stage without any may change files in its own way."""
        names = set(tools)
        self.can_write = bool(WRITERS & names)
        self.can_act = bool(names - TALK)
        self.may_change = bool(CHANGERS & names) if names else self.is_announced and self.kind != "scout"

    def _begin_turn(self) -> None:
        self.bad_replies, self.failed_turns = self._count_bad(), self._count_failed()
        self.turns += 1
        self.final_turns += self.final_granted
        self.unanswered, self.compactions = Unanswered(), 0
        self.standalone = self.standalone_status
        self.turn = TurnRecord()
        self.verdict = None
        self.memory.begin_turn()

    def tally(self) -> Tally:
        return Tally(
            turns=self.turns,
            seconds=self.last_at - self.started_at,
            attempts=self.tries,
            bad_replies=self._count_bad(),
            failed_turns=self._count_failed(),
            idle=self.can_act and not self.succeeded,
            faults=describe_faults(self.faults),
            done=self.done is not None,
            verdict=self.verdict,
            granted=self.final_granted,
            final=self.final_taken,
            standalone_status=self.standalone_status,
            status="" if self.turn.status == "completed" and self.turn.refused else self.turn.status,
            stopped=self.stopped,
            escalated=self.escalated,
            unavailable=self.unanswered.count,
            unavailable_for=self.unanswered.seconds(self.last_at),
            refused=self.unanswered.refused,
            trouble=self.unanswered.reason,
            overflow=self.overflow,
            compactions=self.compactions,
        )

    # What its events do to it.

    def take_reply(self, *, usable: bool = True) -> None:
        """A reply, or one that cannot be used."""
        self._begin_turn()
        if usable:
            self.overflow = False

    def take_overflow(self) -> None:
        """A request did not fit the context window."""
        self.overflow = True
        # A final turn that does not fit is used up only once nothing more can be cut.
        self.final_turns += 2 * (self.final_granted and self.compactions >= COMPACTIONS)

    def take_status(self, status: str) -> None:
        """The reply reported a status, which comes to this."""
        self.turn.reported, self.turn.status = True, status

    def take_line(self) -> None:
        """A person said something."""
        if self.final_granted:
            return
        # What was done is not all that is asked for any more, and the model begins anew.
        self.done = self.verdict = None
        self.turn = TurnRecord(usable=True, succeeded=True)
        self.standalone = self.bad_replies = self.failed_turns = 0

    def take_candidate(self, *, usable: bool) -> None:
        """A whole answer was tried."""
        self.turn.usable = self.turn.succeeded = True  # other answers may well be better
        self.succeeded = self.succeeded or usable

    def take_plan(self) -> None:
        """The plan was written."""
        self.plan_written = self.succeeded = self.turn.is_real = True
        self.standalone = 0

    def take_signal(self, note: Note) -> None:
        """The model said that the stage is done; or, in a final turn, although a check fails."""
        if note.accepted:
            self.done = note
        else:
            self.conclusion, self.refusal = note, self._say_refusal()

    def take_refusal(self, refusal: Refusal, clause: str) -> None:
        """A check refused the signal."""
        self.refused_by[refusal.check] += 1
        self.refused_last = refusal
        self.verdict, self.done = Fail(refusal.check, refusal.reason, clause), None

    def take_compaction(self, *, for_room: bool) -> None:
        """What the model sees was cut down."""
        self.compactions += for_room
        self.overflow = False
        self.memory.forget()  # what was cut from view may be asked for again

    def _say_refusal(self) -> str:
        """Why what the model said in its final turn is not accepted; empty if no check refused it."""
        if not isinstance(self.verdict, Fail):
            return ""
        return self.verdict.clause or f"the check {self.verdict.kind} failed"

    def take_call(self, call: "ToolFinished") -> None:
        """A call was answered."""
        talk = call.name in SIGNALS or call.category == "reasoning"
        self.called[call.name] += call.error not in UNUSABLE
        turn = self.turn
        turn.usable = turn.usable or (call.error not in UNUSABLE and not talk)
        turn.faulty = turn.faulty or not call.ok
        turn.talked = turn.talked or (call.ok and (talk or call.name == PLAN_TOOL))
        if call.name == PLAN_TOOL:
            self.memory.note_thought()
        if call.error == "not_done" and isinstance(self.verdict, Fail):
            said_done = self.refused_last.said_done if self.refused_last else ""
            self.faults[f"not_done {said_done}".rstrip()] += 1
        elif call.error in UNUSABLE:
            self.faults[call.error] += 1
        elif not call.ok:
            self.faults["failed"] += 1
        if call.ok and call.name not in SIGNALS:
            self.calls[call.name] += 1
        self.files_read.update(dict.fromkeys(call.read))
        self.files_changed.update(dict.fromkeys(call.changed))
        if call.name in (DONE_TOOL, COMPLETE_TOOL) and not call.ok:
            turn.refused = True
        if call.category in REAL or call.name in DEEDS:
            turn.is_real = True
            if call.ok:
                self.standalone = 0
                turn.succeeded = self.succeeded = True
        progress = call.ok and call.call in self.effective
        if call.ok and (progress or call.category == "run" or call.name == MEMORY_TOOL):
            self.holding = {key: first for key, first in self.holding.items() if key == call.key}
        if call.ok and call.key:
            self.holding.setdefault(call.key, call.call)
        if call.key:
            self.effective.discard(call.call)
            self.memory.take(
                call.key,
                call.name,
                call.category,
                call.result,
                ok=call.ok,
                progress=progress,
                refused=call.error == "repeated",
            )
            if progress:
                self.nudged.clear()


def is_announced_end(reason: str, attempt: StageState | None) -> bool:
    """Whether people are told that a stage ended. They hear of the end of the task anyway."""
    return attempt.is_announced if attempt else reason != CONCLUDED


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


def describe_faults(faults: Counter[str]) -> str:
    """`3 replies without a tool call; 1 failed call`, the most frequent first; nothing if there are none."""
    return "; ".join(_describe(kind, count) for kind, count in faults.most_common())


def _describe(kind: str, count: int) -> str:
    kind, _, said_done = kind.partition(" ")
    if said_done:
        return f"the model said it was done {times(count)} {said_done}"
    if kind == "final":
        return "no tool call in the last reply"
    one, many, which = _FAULTS.get(kind, (kind, kind, ""))
    return f"{count} {one if count == 1 else many} {which}".rstrip()
