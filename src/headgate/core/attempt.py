"""One attempt at a stage, as its events tell it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.core import events as ev
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
from headgate.core.rules import COMPACTIONS, Broken, Fail, Pass, Tally, Verdict
from headgate.core.text import times
from headgate.core.unanswered import Unanswered

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
    status: ev.TaskStatusGiven | None = None
    """The status that the reply reported."""
    is_real: bool = False
    """The reply called a tool that reads, writes or runs, or wrote the plan."""
    refused: bool = False
    """The reply said that the stage is done, and was refused."""

    @property
    def only_talked(self) -> bool:
        """Whether the reply only thought, planned or gave a signal, and nothing of that failed."""
        return self.talked and not self.faulty and not self.succeeded


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
    done: ev.Note | None = None
    conclusion: ev.Note | None = None
    """What the model said in the final turn, if that was not accepted."""
    refusal: str = ""
    """Why that was not accepted, for people."""
    verdict: Verdict | None = None
    refused_by: Counter[str] = field(default_factory=Counter)
    """How often each check has refused the closing signal in this attempt."""
    refused_last: ev.CheckFinished | None = None
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
        only_status = turn.status is not None and not (turn.is_real or turn.refused)
        return self.standalone + only_status

    @property
    def note(self) -> ev.Note | None:
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
            status=status_slug(self.turn.status, self.turn.refused),
            stopped=self.stopped,
            escalated=self.escalated,
            unavailable=self.unanswered.count,
            unavailable_for=self.unanswered.seconds(self.last_at),
            refused=self.unanswered.refused,
            trouble=self.unanswered.reason,
            overflow=self.overflow,
            compactions=self.compactions,
        )

    def apply(self, body: ev.Body) -> None:
        """Takes one event of this attempt in."""
        match body:
            case ev.ReplyReceived():
                self._begin_turn()
                self.overflow = False
            case ev.ReplyFailed(error="unavailable" | "refused"):
                self.unanswered.take(body, self.last_at)
            case ev.ReplyFailed(error="overflow"):
                self.overflow = True
                # A final turn that does not fit is used up only once nothing more can be cut.
                self.final_turns += 2 * (self.final_granted and self.compactions >= COMPACTIONS)
            case ev.ReplyFailed(error="invalid"):
                self._begin_turn()
            case ev.MentionsRead():
                self.files_read.update(dict.fromkeys(body.read))
            case ev.MessageAdded(slug=slug) if slug.startswith("correct_"):
                self.faults[slug.removeprefix("correct_")] += 1
            case ev.ToolStarted() if any(change.before != change.after for change in body.changes):
                self.effective.add(body.call)
            case ev.TaskStatusGiven():
                self.turn.status = body
            case ev.StopAsked():
                self.stopped = True
            case ev.PersonSpoke() if not self.final_granted:
                # What was done is not all that is asked for any more, and the model begins anew.
                self.done = self.verdict = None
                self.turn = TurnRecord(usable=True, succeeded=True)
                self.standalone = self.bad_replies = self.failed_turns = 0
            case ev.EscalationRaised():
                self.escalated = body.reason
            case ev.ToolFinished():
                self._count_call(body)
            case ev.CandidateTried():
                self.turn.usable = self.turn.succeeded = True  # other answers may well be better
                self.succeeded = self.succeeded or body.verdict != "unusable"
            case ev.PlanWritten():
                self.plan_written = self.succeeded = self.turn.is_real = True
                self.standalone = 0
            case ev.StageDoneSignalled() if body.note.accepted:
                self.done = body.note
            case ev.StageDoneSignalled():
                self.conclusion = body.note
                self.refusal = self._say_refusal()
            case ev.CheckFinished(verdict="pass"):
                self.verdict = Pass()
            case ev.CheckFinished(verdict="fail"):
                self.refused_by[body.check] += 1
                self.refused_last = body
                self.verdict, self.done = (
                    Fail(body.check, body.reason, body.exact_clause or body.clause),
                    None,
                )
            case ev.CheckFinished(verdict="broken"):
                self.verdict = Broken(body.reason)
            case ev.VerifyFinished(asked=False, rewritten=()):
                self.verdict = Pass() if body.passed else Fail("verify_failed", body.reason)
            case ev.DecisionMade(action="final_turn"):
                self.final_granted, self.final_reason = True, body.reason
            case ev.DecisionMade(action="nudge"):
                self.nudged.add(body.reason)
            case ev.DecisionMade(action="fail" | "skip"):
                self.why = body.detail or body.reason
            case ev.ViewCompacted():
                self.compactions += body.reason == "context"
                self.overflow = False
                self.memory.forget()  # what was cut from view may be asked for again
            case ev.StageEnded():
                self.ending, self.end_reason = body.ending, body.reason
            case _:
                pass

    def _say_refusal(self) -> str:
        """Why what the model said in its final turn is not accepted; empty if no check refused it."""
        if not isinstance(self.verdict, Fail):
            return ""
        return self.verdict.clause or f"the check {self.verdict.kind} failed"

    def _count_call(self, body: ev.ToolFinished) -> None:
        talk = body.name in SIGNALS or body.category == "reasoning"
        self.called[body.name] += body.error not in UNUSABLE
        turn = self.turn
        turn.usable = turn.usable or (body.error not in UNUSABLE and not talk)
        turn.faulty = turn.faulty or not body.ok
        turn.talked = turn.talked or (body.ok and (talk or body.name == PLAN_TOOL))
        if body.name == PLAN_TOOL:
            self.memory.note_thought()
        if body.error == "not_done" and isinstance(self.verdict, Fail):
            said_done = self.refused_last.said_done if self.refused_last else ""
            self.faults[f"not_done {said_done}".rstrip()] += 1
        elif body.error in UNUSABLE:
            self.faults[body.error] += 1
        elif not body.ok:
            self.faults["failed"] += 1
        if body.ok and body.name not in SIGNALS:
            self.calls[body.name] += 1
        self.files_read.update(dict.fromkeys(body.read))
        self.files_changed.update(dict.fromkeys(body.changed))
        if body.name in (DONE_TOOL, COMPLETE_TOOL) and not body.ok:
            turn.refused = True
        if body.category in REAL or body.name in DEEDS:
            turn.is_real = True
            if body.ok:
                self.standalone = 0
                turn.succeeded = self.succeeded = True
        progress = body.ok and body.call in self.effective
        if body.ok and (progress or body.category == "run" or body.name == MEMORY_TOOL):
            self.holding = {key: call for key, call in self.holding.items() if key == body.key}
        if body.ok and body.key:
            self.holding.setdefault(body.key, body.call)
        if body.key:
            refused = body.error == "repeated"
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


def is_announced_end(body: ev.StageEnded, attempt: StageState | None) -> bool:
    """Whether people are told that a stage ended. They hear of the end of the task anyway."""
    return attempt.is_announced if attempt else body.reason != CONCLUDED


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
