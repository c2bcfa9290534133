"""What is said at the exit of a stage: the model's signal, what checks say to it, and answers."""

from typing import ClassVar, Literal

from headgate.core.attempt import Refusal
from headgate.core.counts import Broken, Pass
from headgate.core.event import Body, Moment
from headgate.core.notes import Note
from headgate.core.state import State
from headgate.core.task_events import Conclusion
from headgate.core.verification import VerifyRuns


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
