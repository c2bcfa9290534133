"""One attempt at a stage, as its events tell it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.core import events as ev
from headgate.core.flow import DONE_TOOL, Ending
from headgate.core.loops import CallMemory
from headgate.core.rules import Broken, Fail, Pass, Tally, Verdict
from headgate.core.words import times

UNUSABLE = frozenset({"invalid_arguments", "unknown_tool", "denied", "not_done", "wrong_stage", "repeated"})
"""Errors of calls that could not even be tried: a turn with nothing else brought nothing."""


WRITERS = frozenset({"write_file", "edit_file", "apply_patch"})
CHANGERS = WRITERS | {"shell", "run_tests"}
"""Tools through which files may change."""
SIGNALS = frozenset({"stage_done", "agent__task_status"})
REAL = frozenset({"read", "write", "run"})
"""The categories of tools that get something done."""


@dataclass
class StageState:
    """One attempt at a stage."""

    path: str
    stage: str
    title: str
    attempt: int
    tries: int
    """Attempts since the stage was last entered for a new reason."""
    turns_allowed: int
    item: str = ""
    """The step of the plan that it carries out."""
    started_at: float = 0.0
    last_at: float = 0.0
    turns: int = 0
    bad_replies: int = 0
    usable: bool = True
    """The latest reply led to at least one call that was tried."""
    faults: Counter[str] = field(default_factory=Counter)
    """Replies and calls of this attempt that could not be used, by kind."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that succeeded, by tool; signals not counted."""
    files_read: dict[str, None] = field(default_factory=dict)
    plan_written: bool = False
    done: ev.Note | None = None
    verdict: Verdict | None = None
    refused_by: Counter[str] = field(default_factory=Counter)
    """How often each check has refused the closing signal in this attempt."""
    final_granted: bool = False
    final_turns: int = 0
    """Replies since the final turn was granted. One that cannot be used gets one more."""
    standalone: int = 0
    """Replies before the latest that only reported a status, since a real tool succeeded."""
    turn_status: ev.TaskStatusGiven | None = None
    """The status that the latest reply reported."""
    turn_is_real: bool = False
    """The latest reply called a tool that reads, writes or runs, or wrote the plan."""
    turn_refused: bool = False
    """The latest reply said that the stage is done, and was refused."""
    memory: CallMemory = field(default_factory=CallMemory)
    effective: set[str] = field(default_factory=set)
    """Calls under way that change a file."""
    nudged: set[str] = field(default_factory=set)
    """The kinds of loop that the model was told of."""
    can_write: bool = False
    may_change: bool = False
    """It has tools that write or run commands, or asks for whole answers: files may change in it."""
    stopped: bool = False
    unavailable: int = 0
    refused: bool = False
    trouble: str = ""
    overflow: bool = False
    compactions: int = 0
    ending: Ending | None = None
    why: str = ""
    """What was missing when it ended without completing."""

    @property
    def final_taken(self) -> bool:
        """Whether the final turn is used up: by a signal, accepted or not, or by two replies without one."""
        return self.final_turns > 1 or (self.final_turns == 1 and self.verdict is not None)

    @property
    def standalone_status(self) -> int:
        only_status = self.turn_status is not None and not (self.turn_is_real or self.turn_refused)
        return self.standalone + only_status

    def equip(self, tools: Iterable[str]) -> None:
        """The tools that it was entered with; none at all where it asks for whole answers."""
        names = set(tools)
        self.can_write = bool(WRITERS & names)
        self.may_change = not names or bool(CHANGERS & names)

    def _begin_turn(self) -> None:
        self.bad_replies = 0 if self.usable else self.bad_replies + 1
        self.turns += 1
        self.usable = False
        self.final_turns += self.final_granted
        self.unavailable = self.compactions = 0
        self.standalone = self.standalone_status
        self.turn_status, self.turn_is_real, self.turn_refused = None, False, False
        self.verdict = None
        self.memory.begin_turn()

    def tally(self) -> Tally:
        return Tally(
            turns=self.turns,
            seconds=self.last_at - self.started_at,
            attempts=self.tries,
            bad_replies=0 if self.usable else self.bad_replies + 1,
            faults=describe_faults(self.faults),
            done=self.done is not None,
            verdict=self.verdict,
            granted=self.final_granted,
            final=self.final_taken,
            standalone_status=self.standalone_status,
            status=status_slug(self.turn_status, self.turn_refused),
            stopped=self.stopped,
            unavailable=self.unavailable,
            refused=self.refused,
            trouble=self.trouble,
            overflow=self.overflow,
            compactions=self.compactions,
        )

    def apply(self, body: ev.AnyBody) -> None:
        """Takes one event of this attempt in."""
        match body:
            case ev.ReplyReceived():
                self._begin_turn()
                self.overflow = False
            case ev.ReplyFailed(error="unavailable"):
                self.unavailable += 1
                self.trouble = body.detail
            case ev.ReplyFailed(error="refused"):
                self.refused = True
                self.trouble = body.detail
            case ev.ReplyFailed(error="overflow"):
                self.overflow = True
                self.final_turns += 2 * self.final_granted
            case ev.ReplyFailed(error="invalid"):
                self._begin_turn()
            case ev.MessageAdded(slug=slug) if slug.startswith("correct_"):
                self.faults[slug.removeprefix("correct_")] += 1
            case ev.ToolStarted() if any(change.before != change.after for change in body.changes):
                self.effective.add(body.call)
            case ev.TaskStatusGiven():
                self.turn_status = body
            case ev.StopAsked():
                self.stopped = True
            case ev.ToolFinished():
                self._count_call(body)
            case ev.CandidateTried():
                self.usable = True
            case ev.PlanWritten():
                self.plan_written = self.turn_is_real = True
                self.standalone = 0
            case ev.StageDoneSignalled():
                self.done = body.note
            case ev.CheckFinished(verdict="pass"):
                self.verdict = Pass()
            case ev.CheckFinished(verdict="fail"):
                self.refused_by[body.check] += 1
                self.verdict, self.done = Fail(body.check, body.reason), None
            case ev.CheckFinished(verdict="broken"):
                self.verdict = Broken(body.reason)
            case ev.DecisionMade(action="final_turn"):
                self.final_granted = True
            case ev.DecisionMade(action="nudge"):
                self.nudged.add(body.reason)
            case ev.DecisionMade(action="fail"):
                self.why = body.detail or body.reason
            case ev.ViewCompacted():
                self.compactions += body.reason == "context"
                self.overflow = False
                self.memory.forget()  # what was cut from view may be asked for again
            case ev.StageEnded():
                self.ending = body.ending
            case _:
                pass

    def _count_call(self, body: ev.ToolFinished) -> None:
        self.usable = self.usable or body.error not in UNUSABLE
        if body.error in UNUSABLE:
            self.faults[body.error] += 1
        if body.ok and body.name not in SIGNALS:
            self.calls[body.name] += 1
        self.files_read.update(dict.fromkeys(body.read))
        if body.name == DONE_TOOL and not body.ok:
            self.turn_refused = True
        if body.category in REAL:
            self.turn_is_real = True
            if body.ok:
                self.standalone = 0
        if body.key:
            refused = body.error == "repeated"
            progress = body.ok and body.call in self.effective
            self.effective.discard(body.call)
            self.memory.take(
                body.key,
                body.name,
                body.category,
                body.result,
                ok=body.ok,
                progress=progress,
                refused=refused,
            )
            if progress:
                self.nudged.clear()


def status_slug(given: ev.TaskStatusGiven | None, refused: bool = False) -> str:
    """What a reported status comes to: `completed` takes three confirmations, `stuck` two.

    `refused`: the same reply said that the stage is done, and the runtime answered what is missing. Then the
    stage is not complete, and the model keeps its tools to finish it.
    """
    if given is None or given.need_to_run_more_tools:
        return ""
    if not given.ready_for_final_report:
        return "stuck"
    return "completed" if given.status == "completed" and not refused else ""


_FAULTS = {
    "text_only": "a reply without a tool call",
    "final": "a last reply without a tool call",
    "not_done": "a closing signal too early",
    "wrong_stage": "a closing signal that names another stage",
    "cut_off": "a reply cut off at its length limit",
    "too_long": "a reply that took too long",
    "bad_reply": "a reply that could not be used",
    "invalid_arguments": "a call with wrong arguments",
    "unknown_tool": "a call to a tool that does not exist",
    "denied": "a call that is not allowed",
    "repeated": "a call that had brought the same before",
}


def describe_faults(faults: Counter[str]) -> str:
    """`a reply without a tool call (3 times)`, the most frequent first; nothing if there are none."""
    return ", ".join(f"{_FAULTS.get(kind, kind)} ({times(count)})" for kind, count in faults.most_common())
