"""What was tried out in copies of the tree: the check that it began with, suspect places, whole answers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import ClassVar, Literal

from headgate.core.event import Body, Line, Moment, Slice, Tone, follows
from headgate.core.state import State
from headgate.core.verification import VerifyFinished
from headgate.first_use import dataclass


@dataclass
class AnswersTried(Slice):
    """What was tried out, and what it began with."""

    opening: VerifyFinished | None = None
    """The check that the flow began with, once it has ended."""
    suspects: "SuspectsFound | None" = None
    """Where the failure of that check may come from; None before that was looked into."""
    tried: list["CandidateTried"] = field(default_factory=list)
    """Every whole answer that was tried, in order."""

    def came_of(self, state: State) -> Iterable[str]:
        if not self.tried:
            return
        failing = self.opening.failing if self.opening else ()
        if failing:
            more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
            yield f"The task began with a failing check: {failing[0].split(' (')[0]}{more}."
        if answers := [tried for tried in self.tried if tried.origin == "model"]:
            counts = Counter(tried.verdict for tried in answers)
            told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            passed = next((tried.place for tried in answers if tried.verdict == "passed"), "")
            kept = f"the one for {passed} was kept" if passed else "none was kept"
            yield f"Answers tried: {len(answers)} ({told}); {kept}."
        for tried in self.tried:
            if tried.origin == "mutation":  # the report says that nobody thought of it
                kept = "was kept" if tried.verdict == "passed" else f"was {tried.verdict}"
                found = f"A mutation of {tried.place}, found by trial and not by the model, {kept}"
                yield f"{found}: {tried.reason}."

    @property
    def repaired(self) -> bool:
        """Whether one of the answers passed, and was kept."""
        return any(tried.verdict == "passed" for tried in self.tried)


class SuspectsFound(Body):
    """Where the failure of the check that the flow began with may come from, the most suspect place first."""

    kind: ClassVar[str] = "suspects_found"
    functions: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """The lines of these functions that failing tests run."""
    files: tuple[str, ...] = ()
    unfit: str = ""
    """Why nothing can be tried out, if so."""

    def apply(self, state: State, now: Moment) -> None:
        state[AnswersTried].suspects = self

    def line(self, state: State, now: Moment) -> Line | None:
        if self.unfit:
            return Line(f"Cannot try out answers: {self.unfit}")
        if named := (self.functions or self.files)[:3]:
            return Line(f"Suspect: {', '.join(named)}{self._how_to_go_on(state)}")
        opening = state[AnswersTried].opening
        told = opening and not opening.passed
        return Line("The failing check does not show where the bug is") if told else None

    def _how_to_go_on(self, state: State) -> str:
        leaves = list(state.flow.leaves()) if state.flow else []
        asking = [leaf.settings.get("ask") for leaf in leaves if leaf.kind == "answer"]
        asks = self.functions or "file" in asking or not asking
        if asks or not any(leaf.kind == "talk" for leaf in leaves):
            return ""
        return " (no Python function to ask about: the model gets tools instead)"


class CandidateTried(Body):
    """One whole answer was tried. Only one that passed is written; no other enters a conversation."""

    kind: ClassVar[str] = "candidate_tried"
    place: str
    """What it was about, such as `cart.py: Cart.total`."""
    verdict: Literal["passed", "failed", "unchanged", "repeated", "unusable", "refused"]
    reason: str = ""
    fingerprint: str = ""
    """Stands for the code as it would be: equal answers have equal ones."""
    origin: Literal["model", "mutation"] = "model"
    """Whose it was: an answer, or a small change that was found by trial."""

    def apply(self, state: State, now: Moment) -> None:
        state[AnswersTried].tried.append(self)
        if attempt := state.nodes.get(now.path):
            attempt.take_candidate(usable=self.verdict != "unusable")

    def line(self, state: State, now: Moment) -> Line | None:
        tone: Tone = "good" if self.verdict == "passed" else "plain"
        if self.origin == "mutation":
            return Line(f"Mutation of {self.place}: {self.verdict}, {self.reason}", tone)
        why = f", {self.reason}" if self.reason else ""
        number = len(state[AnswersTried].tried)
        return Line(f"Answer {number} ({self.place}): {self.verdict}{why}", tone)


@follows(VerifyFinished)
def _take_opening(state: State, body: VerifyFinished, now: Moment) -> None:
    if body.opening:
        state[AnswersTried].opening = body
