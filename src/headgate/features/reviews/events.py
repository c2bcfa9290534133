"""What the log says of reviews. Commands that only look back import nothing else of them."""

from collections.abc import Iterable
from dataclasses import field

from headgate.core import (
    CheckFinished,
    Moment,
    Slice,
    StageStarted,
    State,
    VerifyRuns,
    first_clause,
    follows,
    says_start,
)
from headgate.first_use import dataclass


@dataclass
class DiffFindings(Slice, order=20):
    """What reviews of the task's diff found. Each check goes back to the model once."""

    found: dict[str, list[str]] = field(default_factory=dict)
    """What each check found, one look after the other; an empty text where it found nothing."""
    final: set[str] = field(default_factory=set)
    """Checks whose findings do not go back to the model."""
    loops: dict[str, int] = field(default_factory=dict)
    """How many verifications had failed when each check last looked."""
    leading_checks: dict[str, None] = field(default_factory=dict)
    """Checks whose warnings come before all other words of the summary."""

    def take(self, body: CheckFinished, loops: int) -> None:
        """Takes in what a check says when so many verifications have failed."""
        self.found[body.check] = [*self.found.pop(body.check, []), body.reason]  # the latest is the last
        self.loops[body.check] = loops
        self.final |= {body.check} if body.final else set()
        self.leading_checks.update({body.check: None} if body.leads else {})

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

    def latest_of(self, checks: Iterable[str]) -> str:
        """What one of these checks found last and the model is to be told; empty if there is nothing."""
        names = set(checks)
        due = (name for name in reversed(self.found) if name in names and self.was_told_once(name))
        return next((self.found[name][-1] for name in due), "")

    def warnings(self, state: State) -> Iterable[str]:
        return filter(None, map(self.warning, self.found))

    def leading(self, state: State) -> Iterable[str]:
        return filter(None, map(self.warning, self.leading_checks))


@follows(CheckFinished)
def _take_finding(state: State, body: CheckFinished, now: Moment) -> None:
    attempt = state.nodes.get(now.path)
    # Logs of 0.1 name no stage for a check that looks at the diff, and not at what a stage did.
    is_review = attempt.kind == "review" if attempt else body.check != "verify"
    if is_review and body.verdict != "broken":
        state[DiffFindings].take(body, state[VerifyRuns].loops)


@says_start
def _say_again(body: StageStarted, state: State) -> str:
    """A stage is entered again because of a finding: what was found."""
    if body.reason != "review":
        return ""
    found = state[DiffFindings].latest_of(state[DiffFindings].found)
    return f"{body.title}: looking at the diff again{f': {first_clause(found)}' if found else ''}"
