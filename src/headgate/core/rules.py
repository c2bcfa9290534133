"""What follows from what was counted: the one place where the loop's next step is decided."""

from dataclasses import dataclass
from typing import Literal

from headgate.core.flow import Repeat
from headgate.core.knobs import Budget
from headgate.core.text import say_duration

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
    """What has been counted in one attempt at a stage."""

    turns: int = 0
    """Replies so far."""
    seconds: float = 0.0
    """How long this attempt has taken so far."""
    seconds_left: float | None = None
    """Until the stage ends, whatever it is at; None: for ever."""
    concludes: bool = True
    """The stage is a conversation, so that the model can be made to conclude."""
    attempts: int = 1
    """Attempts at this stage, this one included, since it was last entered for a new reason."""
    bad_replies: int = 0
    """Replies in a row that held nothing usable."""
    failed_turns: int = 0
    """Turns in a row in which no call succeeded."""
    idle: bool = False
    """No call has succeeded in this attempt."""
    idle_attempts: int = 0
    """Attempts in a row before this one in which no call succeeded."""
    fixing: bool = False
    """The stage was entered because of a failed check, which is run again in any case."""
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
    unavailable_for: float = 0.0
    """The seconds from the first of these to the last."""
    model_wait: float = 0.0
    """How long the server is waited for in any case, since it is away or loading; 0 where it is not."""
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
    escalated: str = ""
    """Why the model handed its work back to the planner."""
    over: str = ""
    """The task's cap that is reached, by its slug."""


@dataclass(frozen=True, slots=True)
class RoundTally:
    """What has been counted when a round of a group has failed."""

    reason: str
    """What failed, as a sentence."""
    failures: int
    """Rounds that have failed so far, this one included."""
    task_failures: int = 0
    """Verifications that have failed in the task, wherever they stand."""
    in_recipe: bool = False
    """The group is a part of a recipe: its planner goes on when its own rounds are spent."""
    since_replan: int = 0
    """Of these, the rounds since the plan was last rewritten."""
    idle_rounds: int = 0
    """Failed rounds in a row that changed nothing."""
    idle_attempts: int = 0
    """Attempts at stages in a row in which no call succeeded."""
    over: str = ""
    """The task's cap that is reached, by its slug."""
    stopped: bool = False
    """A person wants it concluded."""


@dataclass(frozen=True, slots=True)
class WorkTally:
    """What is known about the task's work when every stage has ended."""

    unfinished: bool = False
    """The stage that does the work ended without saying that it is done."""
    changed: bool = False
    """The task changed at least one file."""
    verified: bool = False
    """Verification passed."""
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


def decide(tally: Tally, budget: Budget) -> Decision:
    """The next step of a stage. Broken environments first, then the stage's checks, then its budget."""
    if tally.refused:
        return Decision("infra", "model_refused", tally.trouble)
    if tally.unavailable > budget.waits and tally.unavailable_for >= tally.model_wait:
        waited = say_duration(max(tally.model_wait, round(tally.unavailable_for)))
        waited = f" Headgate waited {waited} for it." if tally.model_wait else ""
        return Decision("infra", "model_unavailable", f"{tally.trouble}{waited}")
    if tally.unavailable and (tally.stopped or tally.over == "limit_seconds"):  # nobody is there to conclude
        return Decision("stuck", "user_stop" if tally.stopped else tally.over, tally.trouble)
    out_of_time = tally.seconds_left is not None and tally.seconds_left <= 0
    if tally.unavailable and not out_of_time:
        return Decision("wait", "model_away" if tally.model_wait else "model_unavailable")
    if isinstance(tally.verdict, Broken):
        return Decision("infra", "check_broken", tally.verdict.reason)
    if tally.done and isinstance(tally.verdict, Pass):
        return Decision("advance", "done")
    if tally.escalated:
        return Decision("skip" if budget.exhausted == "skip" else "fail", "escalated", tally.escalated)
    if out_of_time:
        return _after_exhaustion(tally, budget, "max_seconds")
    if tally.overflow and tally.compactions < COMPACTIONS and tally.concludes:
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
        concludes = tally.turns and tally.concludes
        return Decision("final_turn" if concludes else "stuck", tally.over or "user_stop")
    if tally.status:
        return Decision("final_turn", f"task_status_{tally.status}")
    if tally.standalone_status >= budget.standalone_status:
        return Decision("final_turn", "task_status_standalone_limit")
    if tally.lost:
        return Decision("final_turn", "loop")
    return None


def decide_round(tally: RoundTally, repeat: Repeat, task: Repeat | None = None) -> Decision:
    """What follows a round of a group that has failed: another one, one with a new plan, or the end.

    `task`: the limits for all verifications of the task together.
    """
    if tally.over or tally.stopped:
        return Decision("stuck", tally.over or "user_stop", tally.reason)
    spent = tally.failures >= repeat.max
    if (spent and not tally.in_recipe) or (task and tally.task_failures >= task.max):
        return Decision("stuck", "verify_loops", tally.reason)
    if nowhere := _say_nowhere(tally, repeat):
        detail = f"Stuck: {nowhere}, and verification still fails: {tally.reason}"
        return Decision("stuck", "no_progress", detail)
    every = task.replan_every if task and tally.in_recipe else repeat.replan_every
    due = 0 < every <= tally.since_replan
    if tally.in_recipe and (spent or due):
        return Decision("stuck", "rounds_spent", tally.reason)
    if due:
        return Decision("replan", "consecutive_failures", tally.reason)
    return Decision("retry", "verify_failed", tally.reason)


def _say_nowhere(tally: RoundTally, repeat: Repeat) -> str:
    """Why going on would lead nowhere; empty if it may lead somewhere."""
    if repeat.idle_attempts and tally.idle_attempts > repeat.idle_attempts:
        return NO_CALLS.format(tally.idle_attempts)
    if repeat.no_progress and tally.idle_rounds >= repeat.no_progress:
        return f"nothing was changed in {tally.idle_rounds} rounds in a row"
    return ""


def judge_work(tally: WorkTally) -> Decision:
    """How a task ends whose stages have ended well.

    Work that was never declared done counts only if there is some, and verification approves of it.
    """
    if tally.unfinished and not tally.changed:
        return Decision("stuck", "unfinished", "The work was not finished, and no file was changed.")
    if tally.proposing:
        return Decision("propose", "done")
    if tally.unfinished and not tally.verified:
        return Decision(
            "stuck", "unfinished", "The work was not finished, and there are no checks to verify it."
        )
    return Decision("advance", "done")


def _exhausted(reason: str, tally: Tally, budget: Budget, detail: str = "") -> Decision:
    """Turns or patience are used up: the model may conclude, unless the budget says otherwise about turns."""
    concludes = budget.exhausted in ("final_turn", "advance") or reason not in RAN_OUT
    if concludes and tally.concludes:
        return Decision("final_turn", reason, detail)
    return _after_exhaustion(tally, budget, reason)


def _after_exhaustion(tally: Tally, budget: Budget, reason: str = "final_turn_spent") -> Decision:
    told = tally.verdict.reason if isinstance(tally.verdict, Fail) else tally.faults
    missing = (isinstance(tally.verdict, Fail) and tally.verdict.clause) or told
    if tally.over or tally.stopped:
        return Decision("stuck", tally.over or "user_stop", missing)
    idle = tally.idle_attempts + 1 if tally.idle and budget.idle_attempts else 0
    left = tally.seconds_left
    has_time = left is None or retry_seconds(tally.attempts, budget) < left
    # Retries that somebody asked for are made, also if the model gets nowhere.
    asked_for = "retries" in budget.model_fields_set and tally.attempts <= budget.retries and has_time
    if idle > budget.idle_attempts and not tally.fixing and not asked_for:
        return Decision("stuck", "no_progress", f"Stuck: {NO_CALLS.format(idle)}.")
    may_retry = tally.attempts <= budget.retries and idle < max(budget.idle_attempts, 1) and has_time
    if asked_for or may_retry:
        return Decision("retry", reason, told)  # the next attempt begins with these words
    action: Action = "fail" if budget.exhausted == "final_turn" else budget.exhausted
    return Decision(action, reason, missing)


def decide_given_up(attempts: int, budget: Budget, why: str) -> Decision:
    """What follows if the model gives up a stage that was attempted so often."""
    ends: Action = "skip" if budget.exhausted == "skip" else "fail"
    return Decision("retry" if attempts <= budget.retries else ends, "given_up", why)


MOST_RETRY_SECONDS = 60.0


def retry_seconds(tries: int, budget: Budget) -> float:
    """How long to wait before a stage is attempted again that was attempted so often."""
    match budget.retry_backoff:
        case "none":
            return 0.0
        case "linear":
            return min(float(tries), MOST_RETRY_SECONDS)
        case "exponential":
            return min(2.0 ** min(tries - 1, 10), MOST_RETRY_SECONDS)


AWAY_SECONDS = 15.0
"""How often a server that is away is asked again, at least."""


def wait_seconds(tally: Tally, budget: Budget, retry_after: float | None) -> float:
    """How long to wait before asking an unavailable model again: what it asked for, or doubling steps."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), 300.0)
    longest = AWAY_SECONDS if tally.model_wait else 60.0
    if (left := tally.model_wait - tally.unavailable_for) > 0:
        longest = min(longest, left)
    return min(budget.backoff * 2.0 ** min(tally.unavailable - 1, 10), longest)
