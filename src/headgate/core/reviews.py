"""What reviews of a task's diff found."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.core.check_events import CheckFinished
from headgate.core.event import Moment, Slice, follows
from headgate.core.state import State
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

    def take(self, body: CheckFinished, loops: int) -> None:
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


@follows(CheckFinished)
def _take_finding(state: State, body: CheckFinished, now: Moment) -> None:
    """Takes a check in that looked at the diff, and not at what a stage did; logs of 0.1 name no stage."""
    attempt = state.nodes.get(now.path)
    is_review = attempt.kind == "review" if attempt else body.check != "verify"
    if is_review and body.verdict != "broken":
        state[DiffFindings].take(body, state[VerifyRuns].loops)
