"""One attempt at a stage, as its events tell it."""

from collections import Counter
from dataclasses import dataclass, field

from headgate.core import events as ev
from headgate.core.flow import Ending
from headgate.core.rules import Broken, Fail, Pass, Tally, Verdict

UNUSABLE = frozenset({"invalid_arguments", "unknown_tool", "denied", "not_done"})
"""Errors of calls that could not even be tried: a turn with nothing else brought nothing."""


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
    final_granted: bool = False
    final_taken: bool = False
    unavailable: int = 0
    refused: bool = False
    trouble: str = ""
    overflow: bool = False
    compactions: int = 0
    ending: Ending | None = None
    why: str = ""
    """What was missing when it ended without completing."""

    def tally(self) -> Tally:
        return Tally(
            turns=self.turns,
            attempts=self.tries,
            bad_replies=0 if self.usable else self.bad_replies + 1,
            faults=describe_faults(self.faults),
            done=self.done is not None,
            verdict=self.verdict,
            granted=self.final_granted,
            final=self.final_taken,
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
                self.bad_replies = 0 if self.usable else self.bad_replies + 1
                self.turns += 1
                self.usable = False
                self.final_taken = self.final_granted
                self.unavailable = self.compactions = 0
                self.overflow = False
                self.verdict = None
            case ev.ReplyFailed(error="unavailable"):
                self.unavailable += 1
                self.trouble = body.detail
            case ev.ReplyFailed(error="refused"):
                self.refused = True
                self.trouble = body.detail
            case ev.ReplyFailed(error="overflow"):
                self.overflow = True
                self.final_taken = self.final_granted
            case ev.ReplyFailed(error="invalid"):
                self.bad_replies = 0 if self.usable else self.bad_replies + 1
                self.turns += 1
                self.usable = False
                self.final_taken = self.final_granted
                self.unavailable = self.compactions = 0
            case ev.MessageAdded(slug=slug) if slug.startswith("correct_"):
                self.faults[slug.removeprefix("correct_")] += 1
            case ev.ToolFinished():
                self.usable = self.usable or body.error not in UNUSABLE
                if body.error in UNUSABLE:
                    self.faults[body.error] += 1
                if body.ok and body.name not in ("stage_done", "plan_tasks"):
                    self.calls[body.name] += 1
                self.files_read.update(dict.fromkeys(body.read))
            case ev.PlanWritten():
                self.plan_written = True
            case ev.StageDoneSignalled():
                self.done = body.note
            case ev.CheckFinished(verdict="pass"):
                self.verdict = Pass()
            case ev.CheckFinished(verdict="fail"):
                self.verdict, self.done = Fail(body.check, body.reason), None
            case ev.CheckFinished(verdict="broken"):
                self.verdict = Broken(body.reason)
            case ev.DecisionMade(action="final_turn"):
                self.final_granted = True
            case ev.DecisionMade(action="fail"):
                self.why = body.detail or body.reason
            case ev.ViewCompacted():
                self.compactions += body.reason == "context"
                self.overflow = False
            case ev.StageEnded():
                self.ending = body.ending
            case _:
                pass


_FAULTS = {
    "text_only": "text instead of a tool call",
    "not_done": "a closing signal too early",
    "cut_off": "a reply cut off at its length limit",
    "bad_reply": "a reply that could not be read",
    "invalid_arguments": "a call with wrong arguments",
    "unknown_tool": "a call to a tool that does not exist",
    "denied": "a call that is not allowed",
}


def describe_faults(faults: Counter[str]) -> str:
    """`text instead of a tool call (3 times)`, the most frequent first; nothing if there are none."""
    return ", ".join(f"{_FAULTS.get(kind, kind)} ({_times(count)})" for kind, count in faults.most_common())


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
