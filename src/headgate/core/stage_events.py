"""How stages begin and end, and what the runtime decides in between."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from headgate.core.attempt import Refusal, StageState, is_announced_end
from headgate.core.counts import Broken, Pass
from headgate.core.event import Body, Line, Moment
from headgate.core.flow import PLANNER, Ending, Stage
from headgate.core.notes import Note
from headgate.core.reasons import say_end, say_reason
from headgate.core.state import State
from headgate.core.task_events import Conclusion
from headgate.core.text import first_clause
from headgate.core.tree import place_of, stage_ids
from headgate.core.verification import VerifyRuns

_DOING = {
    "explore": "analyzing codebase...",
    "plan": "planning...",
    "implement": "implementing changes...",
    "work": "working...",
    "answer": "reading...",
}
_DOING_BY_KIND = {"answer": "asking..."}
START_WORDS: "list[Callable[[StageStarted, State], str]]" = []
"""What features say where a stage of theirs is entered for the first time; empty for other stages."""


def says_start(function: "Callable[[StageStarted, State], str]") -> "Callable[[StageStarted, State], str]":
    """For such a function."""
    START_WORDS.append(function)
    return function


class StageStarted(Body):
    """A stage was entered, or entered again."""

    kind: ClassVar[str] = "stage_started"
    stage: str
    title: str
    attempt: int
    reason: Literal["next", "retry", "check_failed", "replan", "review"]
    tools: tuple[str, ...]
    turns: int
    """The turns it may take."""
    item: str = ""
    """The step of the plan that it carries out, where the flow makes a stage for each."""
    stage_kind: str = "talk"
    """What it does; see `Stage.kind`."""
    announced: bool = True
    """Whether people are told of it as a stage; a run of the verification steps has its own words."""

    @model_validator(mode="before")
    @classmethod
    def _read_title(cls, fields: Any) -> Any:
        """Earlier versions said it by leaving the title out."""
        if isinstance(fields, dict) and fields.get("title") == "":
            return {"announced": False, **fields}
        return fields

    def apply(self, state: State, now: Moment) -> None:
        entered = StageState(now.path, self.stage, self.title, self.attempt, self.turns, item=self.item)
        entered.kind, entered.reason = self.stage_kind, self.reason
        entered.is_announced = self.announced
        entered.counts.started_at = entered.counts.last_at = now.at
        entered.equip(self.tools)
        state.tree.enter(entered)
        state.tree.retries_before_write += entered.counts.attempts > 1 and not state.files_changed

    def line(self, state: State, now: Moment) -> Line | None:
        text = self._say(state, now.path)
        return Line(text, "stage") if self.announced and text else None

    def _say(self, state: State, path: str) -> str:
        if said := next(filter(None, (say(self, state) for say in START_WORDS)), ""):
            return said
        match self.reason:
            case "next":
                doing = _DOING_BY_KIND.get(self.stage_kind) or _DOING.get(self.stage, "started")
                return f"{self.title}: {doing}"
            case "check_failed":
                most = _most_rounds(path, state)
                of = f"/{most}" if most else ""
                return f"Verification failed, debugging... Attempt {state[VerifyRuns].loops + 1}{of}..."
            case "retry":
                return f"{self.title}: started again"
            case "replan" | "review":
                return ""


def _most_rounds(path: str, state: State) -> int:
    """How many rounds the group around a stage may have; 0 if it is in none."""
    level: Sequence[Stage] = state.flow.stages if state.flow else ()
    most = 0
    for name in stage_ids(path):
        group = next((stage for stage in level if stage.id == name), None)
        level = group.stages if group else ()
        most = group.repeat.max if group and group.repeat else most
    return most


class DecisionMade(Body):
    """What the runtime did about it, where that was not simply to go on."""

    kind: ClassVar[str] = "decision_made"
    action: str
    reason: str
    detail: str = ""
    seconds: float = 0.0
    """How long a wait before another attempt takes, from this event on."""

    def apply(self, state: State, now: Moment) -> None:
        attempt = state.nodes.get(now.path)
        match self.action:
            case "final_turn":
                state[Conclusion].final_turns.append(self.reason)
                if attempt:
                    attempt.counts.granted, attempt.final_reason = True, self.reason
            case "retry":
                state.tree.retries[place_of(now.path)] = self.detail or self.reason
            case "wait" if self.seconds:
                state.tree.retry_at[place_of(now.path)] = now.at + self.seconds
            case "nudge" if attempt:
                attempt.nudged.add(self.reason)
            case "fail" | "skip" if attempt:
                attempt.why = self.detail or self.reason
            case _:
                pass

    def line(self, state: State, now: Moment) -> Line | None:
        attempt = state.nodes.get(now.path)
        match self.action:
            case "nudge":
                return Line(f"Loop: {self.detail}")
            case "final_turn":
                why = "" if self.reason == "user_stop" else f": {self.detail or say_reason(self.reason)}"
                return Line(f"Asking for a conclusion{why}")
            case "wait" if self.seconds:
                return Line(f"{attempt.title if attempt else now.path}: {self.detail}")
            case "wait" if self.reason == "model_away":
                said_before = attempt is not None and attempt.counts.unanswered.is_away_again
                return None if said_before else Line(f"{self.detail[:1].upper()}{self.detail[1:]}")
            case "wait":
                return Line(f"Waiting for the model: {self.detail}")
            case _:
                return None


_ENDINGS = {"failed": "did not complete", "exhausted": "left unfinished"}


class StageEnded(Body):
    """A stage was left."""

    kind: ClassVar[str] = "stage_ended"
    stage: str
    ending: Ending
    reason: str
    note: Note

    def apply(self, state: State, now: Moment) -> None:
        attempt = state.nodes.get(now.path)
        state.tree.leave(now.path, self.stage, self.ending)
        is_told = is_announced_end(self.reason, attempt)
        if is_told or self.note.summary:
            state.notes[self.stage] = self.note
        elif attempt:
            state.notes.pop(self.stage, None)  # what an earlier run of the steps left holds no longer
        if is_told and (attempt is None or attempt.counts.succeeded or self.ending == "completed"):
            state.tree.idle_attempts = 0
        elif is_told and attempt:
            state.tree.idle_attempts += attempt.counts.can_act
        if attempt:
            attempt.ending, attempt.end_reason = self.ending, self.reason

    def line(self, state: State, now: Moment) -> Line | None:
        attempt = state.nodes.get(now.path)
        if self.ending == "completed" or not is_announced_end(self.reason, attempt):
            return None
        if self.ending == "skipped" and self.reason == "max_turns" and attempt and attempt.kind == "answer":
            return Line(f"{attempt.title}: no answer passed", "bad")
        return Line(f"{attempt.title if attempt else self.stage}: {self._say(attempt, state.model)}", "bad")

    def _say(self, attempt: StageState | None, model: str) -> str:
        """How a stage ended that did not complete, and why."""
        found = attempt.why if attempt and attempt.why != self.reason else ""
        if self.reason == "escalated":
            what = "gave the task up" if attempt and attempt.kind == PLANNER else "handed its work back"
            return f"{what}: {first_clause(found)}" if found else what
        more = f" ({first_clause(found.removeprefix('Stuck: '))})" if found else ""
        return f"{_ENDINGS.get(self.ending, self.ending)}: {say_end(self.reason, model)}{more}"


class StageSkipped(Body):
    """A stage does not run, and why. Where people are told of it, a `stage_ended` comes before."""

    kind: ClassVar[str] = "stage_skipped"
    stage: str
    reason: str
    """`condition`: its `when` does not hold. `on_skip`: a stage that it needs was skipped. `join_any`:
    another stage of its group completed. `needs: STAGE failed` and the like: what it needs did not complete.
    `failed: STAGE`, or the reason of the task's end: the flow ended before."""

    def apply(self, state: State, now: Moment) -> None:
        state.tree.skip(now.path, self.stage, self.reason)


# What is said at the exit of a stage: the model's signal, what checks say to it, and answers.


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
