"""What follows from what was counted: the one place where the loop's next step is decided."""

from dataclasses import dataclass
from typing import Literal

from headgate.core.flow import Budget

Action = Literal[
    "continue",
    "advance",
    "retry",
    "replan",
    "propose",
    "final_turn",
    "compact",
    "wait",
    "skip",
    "fail",
    "stuck",
    "infra",
]


@dataclass(frozen=True, slots=True)
class Pass:
    """The check holds."""


@dataclass(frozen=True, slots=True)
class Fail:
    """It does not; `reason` is a sentence for the model."""

    kind: str
    reason: str
    clause: str = ""
    """The same for people, where the sentence for the model is an order."""


@dataclass(frozen=True, slots=True)
class Broken:
    """It could not be found out: the environment is at fault, not the work."""

    reason: str


Verdict = Pass | Fail | Broken


@dataclass(frozen=True, slots=True)
class Tally:
    """What has been counted in one attempt at a stage; from `ended_flow` on, over the task."""

    turns: int = 0
    """Replies so far."""
    seconds: float = 0.0
    """How long this attempt has taken so far."""
    sampling: bool = False
    """The stage asks for whole answers: there is nothing that a model could conclude."""
    attempts: int = 1
    """Attempts at this stage, this one included, since it was last entered for a new reason."""
    bad_replies: int = 0
    """Replies in a row that brought nothing usable."""
    failed_turns: int = 0
    """Turns in a row in which no call succeeded."""
    idle: bool = False
    """No call has succeeded in this attempt."""
    idle_attempts: int = 0
    """Attempts in a row before this one in which no call succeeded."""
    fixing: bool = False
    """The stage was entered because of a failed check, which is run again whatever comes of it."""
    faults: str = ""
    """What was wrong with the replies of this attempt that could not be used."""
    done: bool = False
    """The model gave the signal, or the stage's rules are satisfied."""
    verdict: Verdict | None = None
    """What the checks said to that."""
    granted: bool = False
    """The final turn has been granted."""
    final: bool = False
    """It has been taken."""
    unavailable: int = 0
    """Requests in a row that the server did not answer."""
    refused: bool = False
    """The server will not answer however often it is asked."""
    trouble: str = ""
    """What the last failed request said."""
    overflow: bool = False
    """The last request did not fit the context window, or the next one would not."""
    compactions: int = 0
    """Compactions in a row without a reply in between."""
    standalone_status: int = 0
    """Replies since the last success of a real tool that only reported a status."""
    status: str = ""
    """What the status of the latest reply comes to: `completed`, `stuck`, or nothing."""
    lost: bool = False
    """The stage goes in circles, and being told so has not helped."""
    stopped: bool = False
    """A person wants it concluded."""
    over: str = ""
    """The task's cap that is reached, by its slug."""
    ended_flow: bool = False
    """The flow's stages are over; what follows concerns the flow's own checks."""
    failed_stage: str = ""
    """A required stage that did not complete."""
    verify_loops: int = 0
    """Failed verifications of the task."""
    consecutive_failures: int = 0
    """Failed verifications since the last replan."""
    idle_rounds: int = 0
    """Rounds in a row after a failed verification that changed nothing."""
    unfinished: bool = False
    """The stage that does the work ended without saying that it is done."""
    changed: bool = False
    """The task changed at least one file."""
    proposing: bool = False
    """A dry run: what was done is proposed, and verified once it is applied."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next and why; `reason` is a slug."""

    action: Action
    reason: str
    detail: str = ""


COMPACTIONS = 2
"""How often in a row the view is cut for one request that does not fit."""
CONTINUE = Decision("continue", "working")
NO_CALLS = "no call of the model succeeded in {} attempts in a row"
RAN_OUT = ("max_turns", "max_seconds")
"""Why an attempt ends that did nothing wrong but take too long."""
_AFTER_EXHAUSTION: dict[str, Action] = {
    "final_turn": "fail",
    "advance": "advance",
    "skip": "skip",
    "fail": "fail",
    "stuck": "stuck",
}


def decide(tally: Tally, budget: Budget) -> Decision:
    """The next step. Broken environments first, then the flow's checks, then the stage's."""
    if tally.refused:
        return Decision("infra", "model_refused", tally.trouble)
    if tally.unavailable > budget.waits:
        return Decision("infra", "model_unavailable", tally.trouble)
    if tally.unavailable:
        return Decision("wait", "model_unavailable")
    if isinstance(tally.verdict, Broken):
        return Decision("infra", "check_broken", tally.verdict.reason)
    if tally.ended_flow:
        return _after_last_stage(tally, budget)
    if tally.done and isinstance(tally.verdict, Pass):
        return Decision("advance", "done")
    if tally.overflow and tally.compactions < COMPACTIONS and not tally.sampling:
        return Decision("compact", "context")
    if tally.final:
        return _after_exhaustion(tally, budget)
    if tally.granted:
        return CONTINUE
    if ending := _forced_end(tally, budget):
        return ending
    if tally.overflow:
        return _exhausted("context", tally, budget)
    if tally.bad_replies >= budget.bad_replies:
        return _exhausted("retry_exhaustion", tally, budget, tally.faults)
    if budget.failed_calls and tally.failed_turns >= budget.failed_calls:
        return _exhausted("failed_calls", tally, budget, tally.faults)
    if tally.turns >= budget.turns:
        return _exhausted("max_turns", tally, budget)
    if budget.seconds and tally.seconds >= budget.seconds:
        return _exhausted("max_seconds", tally, budget)
    return CONTINUE


def _forced_end(tally: Tally, budget: Budget) -> Decision | None:
    """Why the model has to conclude now, whatever the budget says about turns."""
    if tally.over or tally.stopped:
        # What was over before the stage began leaves nothing to conclude.
        concludes = tally.turns and not tally.sampling
        return Decision("final_turn" if concludes else "stuck", tally.over or "user_stop")
    if tally.status:
        return Decision("final_turn", f"task_status_{tally.status}")
    if tally.standalone_status >= budget.standalone_status:
        return Decision("final_turn", "task_status_standalone_limit")
    if tally.lost:
        return Decision("final_turn", "loop")
    return None


def _after_last_stage(tally: Tally, budget: Budget) -> Decision:
    if tally.failed_stage:
        return Decision("stuck", "stage_failed", tally.failed_stage)
    if not isinstance(tally.verdict, Fail):
        return _judge_work(tally)
    if tally.over or tally.stopped:
        return Decision("stuck", tally.over or "user_stop", tally.verdict.reason)
    if tally.verify_loops >= budget.verify_loops:
        return Decision("stuck", "verify_loops", tally.verdict.reason)
    if nowhere := _say_nowhere(tally, budget):
        detail = f"Stuck: {nowhere}, and verification still fails: {tally.verdict.reason}"
        return Decision("stuck", "no_progress", detail)
    if budget.replan_every and tally.consecutive_failures >= budget.replan_every:
        return Decision("replan", "consecutive_failures", tally.verdict.reason)
    return Decision("retry", tally.verdict.kind, tally.verdict.reason)


def _say_nowhere(tally: Tally, budget: Budget) -> str:
    """Why going on would lead nowhere; empty if it may lead somewhere."""
    if budget.idle_attempts and tally.idle_attempts > budget.idle_attempts:
        return NO_CALLS.format(tally.idle_attempts)
    if budget.idle_rounds and tally.idle_rounds >= budget.idle_rounds:
        return f"nothing was changed in {tally.idle_rounds} rounds in a row"
    return ""


def _judge_work(tally: Tally) -> Decision:
    """Work that was never declared done counts only if there is some, and verification approves of it."""
    if tally.unfinished and not tally.changed:
        return Decision("stuck", "unfinished", "The work was not finished, and no file was changed.")
    if tally.proposing:
        return Decision("propose", "done")
    if tally.unfinished and tally.verdict is None:
        return Decision(
            "stuck", "unfinished", "The work was not finished, and there are no checks to verify it."
        )
    return Decision("advance", "done")


def _exhausted(reason: str, tally: Tally, budget: Budget, detail: str = "") -> Decision:
    """Turns or patience are used up: the model may conclude, unless the budget says otherwise about turns."""
    concludes = budget.exhausted in ("final_turn", "advance") or reason not in RAN_OUT
    if concludes and not tally.sampling:
        return Decision("final_turn", reason, detail)
    return _after_exhaustion(tally, budget, reason)


def _after_exhaustion(tally: Tally, budget: Budget, reason: str = "final_turn_spent") -> Decision:
    told = tally.verdict.reason if isinstance(tally.verdict, Fail) else tally.faults
    missing = (isinstance(tally.verdict, Fail) and tally.verdict.clause) or told
    if tally.over or tally.stopped:
        return Decision("stuck", tally.over or "user_stop", missing)
    idle = tally.idle_attempts + 1 if tally.idle and budget.idle_attempts else 0
    if idle > budget.idle_attempts and not tally.fixing:
        return Decision("stuck", "no_progress", f"Stuck: {NO_CALLS.format(idle)}.")
    if tally.attempts <= budget.retries and idle < max(budget.idle_attempts, 1):
        return Decision("retry", reason, told)  # the next attempt begins with these words
    return Decision(_AFTER_EXHAUSTION[budget.exhausted], reason, missing)


def wait_seconds(unavailable: int, budget: Budget, retry_after: float | None) -> float:
    """How long to wait before asking an unavailable model again: what it asked for, or doubling steps."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), 300.0)
    return min(budget.backoff * 2.0 ** (unavailable - 1), 60.0)
