"""What follows from what was counted: the one place where the loop's next step is decided."""

from collections.abc import Callable
from typing import Literal

from headgate.core.counts import COMPACTIONS, Broken, Counts, Fail, Pass
from headgate.core.flow import Repeat
from headgate.core.knobs import Budget
from headgate.core.text import say_duration
from headgate.first_use import dataclass

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
class Around:
    """What a decision about an attempt depends on, besides what was counted in it."""

    seconds_left: float | None = None
    """Until the stage ends, whatever it is at; None: for ever."""
    concludes: bool = True
    """The stage is a conversation, so that the model can be made to conclude."""
    turns_inside: int = 0
    """Turns of other stages that count for this one."""
    idle_attempts: int = 0
    """Attempts in a row before this one in which no call succeeded."""
    fixing: Callable[[], bool] = lambda: False
    """Whether something failed that is to be fixed, and is judged again in any case."""
    model_wait: float = 0.0
    """How long the server is waited for in any case, since it is away or loading; 0 where it is not."""
    lost: bool = False
    """The stage goes in circles, and being told so has not helped."""
    over: str = ""
    """The task's cap that is reached, by its slug."""

    @property
    def is_out_of_time(self) -> bool:
        return self.seconds_left is not None and self.seconds_left <= 0

    def turns(self, counts: Counts) -> int:
        """All turns that the stage has taken."""
        return counts.turns + self.turns_inside


@dataclass(frozen=True, slots=True)
class RoundTally:
    """What has been counted when a round of a group has failed."""

    reason: str
    """What failed, as a sentence."""
    failures: int
    """Rounds that have failed so far, this one included."""
    task_failures: int = 0
    """Verifications that have failed in the task, wherever they stand."""
    in_part: bool = False
    """The group is in a part of the work that a stage handed out: that goes on when its rounds are spent."""
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


CONTINUE = Decision("continue", "working")
NO_CALLS = "no call of the model succeeded in {} attempts in a row"
RAN_OUT = ("max_turns", "max_seconds")
"""Why an attempt ends that did nothing wrong but take too long."""


def decide(counts: Counts, around: Around, budget: Budget) -> Decision:
    """The next step of a stage: what the first rule says that applies."""
    said = (rule(counts, around, budget) for rule in RULES)
    return next(filter(None, said), CONTINUE)


def _server_refuses(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    server = counts.unanswered
    return Decision("infra", "model_refused", server.reason) if server.refused else None


def _server_is_silent(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    """It is waited for, unless somebody wants an end: nobody is there to conclude."""
    server = counts.unanswered
    if not server.count:
        return None
    silent = server.seconds(counts.last_at)
    if server.count > budget.waits and silent >= around.model_wait:
        waited = say_duration(max(around.model_wait, round(silent)))
        waited = f" Headgate waited {waited} for it." if around.model_wait else ""
        return Decision("infra", "model_unavailable", f"{server.reason}{waited}")
    if counts.stopped or around.over == "limit_seconds":
        return Decision("stuck", "user_stop" if counts.stopped else around.over, server.reason)
    if around.is_out_of_time:
        return None
    return Decision("wait", "model_away" if around.model_wait else "model_unavailable")


def _check_is_broken(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    broken = counts.verdict
    return Decision("infra", "check_broken", broken.reason) if isinstance(broken, Broken) else None


def _is_done(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    return Decision("advance", "done") if counts.done and isinstance(counts.verdict, Pass) else None


def _is_escalated(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    if not counts.escalated:
        return None
    return Decision("skip" if budget.exhausted == "skip" else "fail", "escalated", counts.escalated)


def _is_out_of_time(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    return _after_exhaustion(counts, around, budget, "max_seconds") if around.is_out_of_time else None


def _can_be_compacted(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    can = counts.overflow and counts.compactions < COMPACTIONS and around.concludes
    return Decision("compact", "context") if can else None


def _is_concluding(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    if counts.final:
        return _after_exhaustion(counts, around, budget)
    return CONTINUE if counts.granted else None


def _must_conclude(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    """Why the model has to conclude now, whatever the budget says about turns."""
    if around.over or counts.stopped:
        # What was over before the stage began leaves nothing to conclude.
        concludes = around.turns(counts) and around.concludes
        return Decision("final_turn" if concludes else "stuck", around.over or "user_stop")
    if counts.status:
        return Decision("final_turn", f"task_status_{counts.status}")
    if counts.standalone_status >= budget.standalone_status:
        return Decision("final_turn", "task_status_standalone_limit")
    return Decision("final_turn", "loop") if around.lost else None


def _is_exhausted(counts: Counts, around: Around, budget: Budget) -> Decision | None:
    """Whether room, patience, turns or time are used up."""
    if counts.overflow:
        return _exhausted("context", counts, around, budget)
    if counts.bad_replies >= budget.bad_replies:
        return _exhausted("retry_exhaustion", counts, around, budget, counts.trouble)
    if budget.failed_calls and counts.failed_turns >= budget.failed_calls:
        return _exhausted("failed_calls", counts, around, budget, counts.trouble)
    if around.turns(counts) >= budget.turns:
        return _exhausted("max_turns", counts, around, budget)
    if budget.seconds and counts.seconds >= budget.seconds:
        return _exhausted("max_seconds", counts, around, budget)
    return None


RULES = (
    _server_refuses,
    _server_is_silent,
    _check_is_broken,
    _is_done,
    _is_escalated,
    _is_out_of_time,
    _can_be_compacted,
    _is_concluding,
    _must_conclude,
    _is_exhausted,
)
"""Broken environments first, then the stage's checks, then its budget."""


def decide_round(tally: RoundTally, repeat: Repeat, task: Repeat | None = None) -> Decision:
    """What follows a round of a group that has failed: another one, one with a new plan, or the end.

    `task`: the limits for all verifications of the task together.
    """
    if tally.over or tally.stopped:
        return Decision("stuck", tally.over or "user_stop", tally.reason)
    spent = tally.failures >= repeat.max
    if (spent and not tally.in_part) or (task and tally.task_failures >= task.max):
        return Decision("stuck", "verify_loops", tally.reason)
    if nowhere := _say_nowhere(tally, repeat):
        detail = f"Stuck: {nowhere}, and verification still fails: {tally.reason}"
        return Decision("stuck", "no_progress", detail)
    every = task.replan_every if task and tally.in_part else repeat.replan_every
    due = 0 < every <= tally.since_replan
    if tally.in_part and (spent or due):
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


def _exhausted(reason: str, counts: Counts, around: Around, budget: Budget, detail: str = "") -> Decision:
    """Turns or patience are used up: the model may conclude, unless the budget says otherwise about turns."""
    concludes = budget.exhausted in ("final_turn", "advance") or reason not in RAN_OUT
    if concludes and around.concludes:
        return Decision("final_turn", reason, detail)
    return _after_exhaustion(counts, around, budget, reason)


def _after_exhaustion(
    counts: Counts, around: Around, budget: Budget, reason: str = "final_turn_spent"
) -> Decision:
    told = counts.verdict.reason if isinstance(counts.verdict, Fail) else counts.trouble
    missing = (isinstance(counts.verdict, Fail) and counts.verdict.clause) or told
    if around.over or counts.stopped:
        return Decision("stuck", around.over or "user_stop", missing)
    idle = around.idle_attempts + 1 if counts.idle and budget.idle_attempts else 0
    left = around.seconds_left
    has_time = left is None or retry_seconds(counts.attempts, budget) < left
    # Retries that somebody asked for are made, also if the model gets nowhere.
    asked_for = "retries" in budget.model_fields_set and counts.attempts <= budget.retries and has_time
    if idle > budget.idle_attempts and not asked_for and not around.fixing():
        return Decision("stuck", "no_progress", f"Stuck: {NO_CALLS.format(idle)}.")
    may_retry = counts.attempts <= budget.retries and idle < max(budget.idle_attempts, 1) and has_time
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


def wait_seconds(counts: Counts, around: Around, budget: Budget, retry_after: float | None) -> float:
    """How long to wait before asking an unavailable model again: what it asked for, or doubling steps."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), 300.0)
    server, longest = counts.unanswered, AWAY_SECONDS if around.model_wait else 60.0
    if (left := around.model_wait - server.seconds(counts.last_at)) > 0:
        longest = min(longest, left)
    return min(budget.backoff * 2.0 ** min(server.count - 1, 10), longest)
