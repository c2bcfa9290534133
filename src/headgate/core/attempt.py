"""One attempt at a stage, as its events tell it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from headgate.core.counts import COMPACTIONS, Counts, Fail, Fault
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
from headgate.first_use import dataclass

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
    turns_allowed: int
    kind: str = "talk"
    is_announced: bool = True
    """Whether people are told of it as a stage. A run of the verification steps has its own words."""
    reason: str = "next"
    """Why it was entered."""
    item: str = ""
    """The step of the plan that it carries out."""
    counts: Counts = field(default_factory=Counts)
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that succeeded, by tool; signals not counted."""
    files_read: dict[str, None] = field(default_factory=dict)
    files_changed: dict[str, None] = field(default_factory=dict)
    """What its tools wrote."""
    plan_written: bool = False
    conclusion: Note | None = None
    """What the model said in the final turn, if that was not accepted."""
    refusal: str = ""
    """Why that was not accepted, for people."""
    refused_by: Counter[str] = field(default_factory=Counter)
    """How often each check has refused the closing signal in this attempt."""
    refused_last: Refusal | None = None
    """The latest of these refusals."""
    final_reason: str = ""
    """Why the final turn was granted."""
    memory: CallMemory = field(default_factory=CallMemory)
    effective: set[str] = field(default_factory=set)
    """Calls under way that change a file."""
    nudged: set[str] = field(default_factory=set)
    """The kinds of loop that the model was told of."""
    can_write: bool = False
    may_change: bool = False
    """It has tools that write or run commands, or asks for whole answers: files may change in it."""
    called: Counter[str] = field(default_factory=Counter)
    """Calls that were run, by tool, whether they succeeded or not."""
    holding: dict[str, str] = field(default_factory=dict)
    """Calls that succeeded, by name and arguments, and the id of the first that did. What they returned still
    holds: nothing has changed since, but by themselves."""
    ending: Ending | None = None
    why: str = ""
    """What was missing when it ended without completing."""
    end_reason: str = ""
    """Why it ended, as a slug."""

    @property
    def note(self) -> Note | None:
        """What the model said about its work at the end of this attempt, accepted or not."""
        return self.counts.done or self.conclusion

    def equip(self, tools: Iterable[str]) -> None:
        """The tools that it was entered with. A stage without any may change files in its own way."""
        names = set(tools)
        self.can_write = bool(WRITERS & names)
        self.counts.can_act = bool(names - TALK)
        self.may_change = bool(CHANGERS & names) if names else self.is_announced

    # What its events do to it.

    def take_reply(self, *, usable: bool = True) -> None:
        """A reply, or one that cannot be used."""
        self.counts.begin_turn()
        self.memory.begin_turn()
        if usable:
            self.counts.overflow = False

    def take_overflow(self) -> None:
        """A request did not fit the context window."""
        counts = self.counts
        counts.overflow = True
        # A final turn that does not fit is used up only once nothing more can be cut.
        counts.final_turns += 2 * (counts.granted and counts.compactions >= COMPACTIONS)

    def take_status(self, status: str) -> None:
        """The reply reported a status, which comes to this."""
        self.counts.turn.reported, self.counts.turn.status = True, status

    def take_line(self) -> None:
        """A person said something. After the final turn is granted, this starts nothing new."""
        if not self.counts.granted:
            self.counts.begin_anew()

    def take_candidate(self, *, usable: bool) -> None:
        """A whole answer was tried."""
        counts = self.counts
        counts.turn.usable = counts.turn.succeeded = True  # other answers may well be better
        counts.succeeded = counts.succeeded or usable

    def take_plan(self) -> None:
        """The plan was written."""
        counts = self.counts
        self.plan_written = counts.succeeded = counts.turn.is_real = True
        counts.standalone_before = 0

    def take_signal(self, note: Note) -> None:
        """The model said that the stage is done; or, in a final turn, although a check fails."""
        if note.accepted:
            self.counts.done = note
        else:
            self.conclusion, self.refusal = note, self._say_refusal()

    def take_refusal(self, refusal: Refusal, clause: str) -> None:
        """A check refused the signal."""
        self.refused_by[refusal.check] += 1
        self.refused_last = refusal
        self.counts.verdict, self.counts.done = Fail(refusal.check, refusal.reason, clause), None

    def take_compaction(self, *, for_room: bool) -> None:
        """What the model sees was cut down."""
        self.counts.compactions += for_room
        self.counts.overflow = False
        self.memory.forget()  # what was cut from view may be asked for again

    def _say_refusal(self) -> str:
        """Why what the model said in its final turn is not accepted; empty if no check refused it."""
        verdict = self.counts.verdict
        if not isinstance(verdict, Fail):
            return ""
        return verdict.clause or f"the check {verdict.kind} failed"

    def take_call(self, call: "ToolFinished") -> None:
        """A call was answered."""
        talk = call.name in SIGNALS or call.category == "reasoning"
        self.called[call.name] += call.error not in UNUSABLE
        counts, turn = self.counts, self.counts.turn
        turn.usable = turn.usable or (call.error not in UNUSABLE and not talk)
        turn.faulty = turn.faulty or not call.ok
        turn.talked = turn.talked or (call.ok and (talk or call.name == PLAN_TOOL))
        if call.name == PLAN_TOOL:
            self.memory.note_thought()
        if call.error == "not_done" and isinstance(counts.verdict, Fail):
            counts.faults[Fault("not_done", self.refused_last.said_done if self.refused_last else "")] += 1
        elif not call.ok:
            counts.faults[Fault(call.error if call.error in UNUSABLE else "failed")] += 1
        if call.ok and call.name not in SIGNALS:
            self.calls[call.name] += 1
        self.files_read.update(dict.fromkeys(call.read))
        self.files_changed.update(dict.fromkeys(call.changed))
        if call.name in (DONE_TOOL, COMPLETE_TOOL) and not call.ok:
            turn.refused = True
        if call.category in REAL or call.name in DEEDS:
            turn.is_real = True
            if call.ok:
                counts.succeed()
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
