"""What is said at the exit of a stage: the model's signal, what checks say to it, answers, and reviews."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from headgate.core.attempt import Refusal
from headgate.core.counts import Broken, Pass
from headgate.core.event import Body, Moment, Slice
from headgate.core.notes import Note
from headgate.core.state import State
from headgate.core.task_events import Conclusion
from headgate.core.verification import VerifyRuns


@dataclass
class DiffFindings(Slice, order=20):
    """What reviews of the task's diff found. Each check goes back to the model once."""

    found: dict[str, list[str]] = field(default_factory=dict)
    """What each check found, one look after the other; an empty text where it found nothing."""
    final: set[str] = field(default_factory=set)
    """Checks whose findings do not go back to the model."""
    loops: dict[str, int] = field(default_factory=dict)
    """How many verifications had failed when each check last looked."""
    leading: dict[str, None] = field(default_factory=dict)
    """Checks whose warnings come before all other words of the summary."""

    def take(self, body: "CheckFinished", loops: int) -> None:
        """Takes in what a check says when so many verifications have failed."""
        self.found[body.check] = [*self.found.pop(body.check, []), body.reason]  # the latest is the last
        self.loops[body.check] = loops
        self.final |= {body.check} if body.final else set()
        self.leading.update({body.check: None} if body.leads else {})

    def findings(self, check: str) -> list[str]:
        """What a check has found so far."""
        return [found for found in self.found.get(check, ()) if found]

    def __bool__(self) -> bool:
        return any(map(self.findings, self.found))

    def was_told_once(self, check: str) -> bool:
        """Whether the model was told what a check found, and the second look is still to come."""
        if check not in self.found or check in self.final:
            return False
        return len(self.findings(check)) == 1 and bool(self.found[check][-1])

    def warning(self, check: str) -> str:
        """What a check last found, if the model had been told before, or is not to be told."""
        told = len(self.findings(check)) > 1 or check in self.final
        return self.found[check][-1] if told else ""

    @property
    def latest_told(self) -> str:
        """What the model was just told about its diff, for the first time; empty if it was not."""
        told = (found[-1] for check, found in reversed(self.found.items()) if len(self.findings(check)) == 1)
        return next(filter(None, told), "")

    def warnings(self, state: State) -> Iterable[str]:
        return filter(None, map(self.warning, self.found))


class StageDoneSignalled(Body):
    """The model said that the stage is done, and the checks hold; or, in a final turn, that they do not."""

    kind: ClassVar[str] = "stage_done_signalled"
    note: Note
    implied: bool = False
    """The model just stopped calling tools."""

    def apply(self, state: State, now: Moment) -> None:
        if attempt := state.nodes.get(now.path):
            attempt.take_signal(self.note)


class CheckFinished(Body):
    """A stage's or a flow's check was run."""

    kind: ClassVar[str] = "check_finished"
    check: str
    verdict: Literal["pass", "fail", "broken"]
    reason: str = ""
    final: bool = False
    """It does not go back to the model: it is a warning at once."""
    clause: str = ""
    """Why the check refuses the exit of a stage, as a clause for people."""
    exact_clause: str = ""
    """The same, where more can be said than the check always says."""
    said_done: str = ""
    """The same after `the model said it was done`."""
    leads: bool = False
    """As a warning about the diff, it comes before all other words of the summary."""

    def apply(self, state: State, now: Moment) -> None:
        attempt = state.nodes.get(now.path)
        # Logs of 0.1 name no stage for a check that looks at the diff, and not at what a stage did.
        is_review = attempt.kind == "review" if attempt else self.check != "verify"
        if is_review and self.verdict != "broken":
            state[DiffFindings].take(self, state[VerifyRuns].loops)
        if self.check == "verify" and self.verdict == "broken":
            state[VerifyRuns].break_off()
        if attempt is None:
            return
        match self.verdict:
            case "pass":
                attempt.counts.verdict = Pass()
            case "fail":
                refusal = Refusal(self.check, self.reason, self.clause, self.said_done)
                attempt.take_refusal(refusal, self.exact_clause or self.clause)
            case "broken":
                attempt.counts.verdict = Broken(self.reason)


class AnswerGiven(Body):
    """What the model said in the end where no file was changed. The latest answer counts."""

    kind: ClassVar[str] = "answer_given"
    text: str

    def apply(self, state: State, now: Moment) -> None:
        state[Conclusion].answer = self.text


class HypothesesGiven(Body):
    """What the model, at the hard stop and without tools, thinks may be wrong."""

    kind: ClassVar[str] = "hypotheses_given"
    text: str

    def apply(self, state: State, now: Moment) -> None:
        state[Conclusion].hypotheses = self.text


class EscalationRaised(Body):
    """A step handed its work back to the planner."""

    kind: ClassVar[str] = "escalation_raised"
    reason: str

    def apply(self, state: State, now: Moment) -> None:
        if attempt := state.nodes.get(now.path):
            attempt.counts.escalated = self.reason
