"""Every branch of `decide`, as a table."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import (
    Around,
    Broken,
    Budget,
    Decision,
    Fail,
    Fault,
    Note,
    Pass,
    Repeat,
    RoundTally,
    TurnRecord,
    WorkTally,
    decide,
    decide_round,
    judge_work,
    wait_seconds,
)
from headgate.core.counts import Counts, Unanswered

BUDGET = Budget(turns=5, bad_replies=3, waits=2, verify_loops=4)
NOT_YET = Fail("files_read", "read at least 1 file first", "no file was read")
RED = Fail("verify_failed", "step tests failed")


Counted = tuple[Counts, Around]


def counted(
    bad_replies: int = 0,
    failed_turns: int = 0,
    idle: bool = False,
    seconds: float = 0.0,
    standalone_status: int = 0,
    status: str = "",
    done: bool = False,
    final: bool = False,
    unavailable: int = 0,
    trouble: str = "",
    refused: bool = False,
    **fields: Any,
) -> Counted:
    """What was counted, with totals instead of what they follow from, and what else a decision depends on."""
    outside = {name: fields.pop(name) for name in Around.__slots__ if name in fields}
    turn = TurnRecord(usable=not bad_replies, succeeded=not failed_turns, faulty=True, status=status)
    counts = Counts(
        turn=turn,
        bad_before=max(bad_replies - 1, 0),
        failed_before=max(failed_turns - 1, 0),
        standalone_before=standalone_status,
        can_act=idle,
        last_at=seconds,
        done=Note() if done else None,
        final_turns=2 * final,
        unanswered=Unanswered(count=unavailable, reason=trouble, refused=refused),
        **fields,
    )
    return counts, Around(**outside)


FORCED = [
    (counted(turns=1, standalone_status=1), Decision("continue", "working")),
    (counted(turns=1, standalone_status=2), Decision("final_turn", "task_status_standalone_limit")),
    (counted(turns=1, status="completed"), Decision("final_turn", "task_status_completed")),
    (counted(turns=1, status="stuck"), Decision("final_turn", "task_status_stuck")),
    (counted(turns=1, lost=True), Decision("final_turn", "loop")),
    (counted(turns=1, stopped=True), Decision("final_turn", "user_stop")),
    (counted(turns=1, over="limit_tokens"), Decision("final_turn", "limit_tokens")),
    (counted(turns=0, over="limit_tokens"), Decision("stuck", "limit_tokens")),
    (counted(turns=2, over="limit_tokens", granted=True), Decision("continue", "working")),
    (counted(turns=2, over="limit_tokens", granted=True, final=True), Decision("stuck", "limit_tokens")),
    (counted(turns=2, over="limit_cost", done=True, verdict=Pass(), final=True), Decision("advance", "done")),
    (counted(turns=2, status="completed", granted=True), Decision("continue", "working")),
]


NO_CALLS = "Stuck: no call of the model succeeded in 3 attempts in a row"
UNCHANGED = "Stuck: nothing was changed in 2 rounds in a row, and verification still fails: step tests failed"
NOWHERE = [
    (counted(turns=4, failed_turns=5), Decision("continue", "working")),
    (
        counted(turns=4, failed_turns=6, faults=Counter({Fault("failed"): 1})),
        Decision("final_turn", "failed_calls", "1 failed call"),
    ),
    (counted(turns=5, final=True, idle=True), Decision("retry", "final_turn_spent")),
    (counted(turns=5, final=True, idle=True, idle_attempts=1), Decision("fail", "final_turn_spent")),
    (counted(turns=5, final=True, idle_attempts=1), Decision("retry", "final_turn_spent")),
    (
        counted(turns=5, final=True, idle=True, idle_attempts=2),
        Decision("stuck", "no_progress", f"{NO_CALLS}."),
    ),
    (
        counted(turns=5, final=True, idle=True, idle_attempts=2, fixing=lambda: True),
        Decision("fail", "final_turn_spent"),
    ),
]


@pytest.mark.parametrize(("tally", "decision"), NOWHERE)
def test_a_model_that_gets_nowhere(tally: Counted, decision: Decision) -> None:
    assert decide(*tally, BUDGET) == decision


@pytest.mark.parametrize(("attempts", "action"), [(3, "retry"), (4, "stuck")])
def test_retries_that_are_asked_for_are_made_nevertheless(attempts: int, action: str) -> None:
    tally = counted(turns=5, final=True, idle=True, idle_attempts=attempts - 1, attempts=attempts)
    assert decide(*tally, Budget(turns=5, retries=3)).action == action


@pytest.mark.parametrize("exhausted", ["skip", "fail", "stuck", "advance", "final_turn"])
@pytest.mark.parametrize(
    ("tally", "reason"),
    [
        (counted(turns=1, overflow=True, compactions=2), "context"),
        (counted(turns=1, bad_replies=3), "retry_exhaustion"),
        (counted(turns=1, failed_turns=6), "failed_calls"),
    ],
)
def test_only_turns_and_time_may_end_a_stage_without_a_final_turn(
    tally: Counted, reason: str, exhausted: Any
) -> None:
    assert decide(*tally, Budget(exhausted=exhausted)) == Decision("final_turn", reason)


@pytest.mark.parametrize(
    ("off", "tally", "action"),
    [
        ("failed_calls", counted(turns=1, failed_turns=20), "continue"),
        ("idle_attempts", counted(turns=1, final=True, idle=True, idle_attempts=20), "retry"),
    ],
)
def test_each_of_these_rules_can_be_switched_off(off: str, tally: Counted, action: str) -> None:
    assert decide(*tally, Budget()).action != action
    assert decide(*tally, Budget.model_validate({off: 0})).action == action


ANSWERS = [
    (counted(turns=4, concludes=False), "final_turn", Decision("continue", "working")),
    (counted(turns=5, concludes=False), "final_turn", Decision("fail", "max_turns")),
    (counted(turns=5, concludes=False), "advance", Decision("advance", "max_turns")),
    (counted(turns=5, concludes=False), "skip", Decision("skip", "max_turns")),
    (counted(turns=1, concludes=False, seconds=29.9), "skip", Decision("continue", "working")),
    (counted(turns=1, concludes=False, seconds=30), "skip", Decision("skip", "max_seconds")),
    (counted(turns=1, seconds=30), "final_turn", Decision("final_turn", "max_seconds")),
    (counted(turns=1, concludes=False, bad_replies=3), "final_turn", Decision("fail", "retry_exhaustion")),
    (counted(turns=1, concludes=False, overflow=True), "skip", Decision("skip", "context")),
    (counted(turns=1, concludes=False, over="limit_turns"), "skip", Decision("stuck", "limit_turns")),
    (counted(turns=1, concludes=False, stopped=True), "skip", Decision("stuck", "user_stop")),
    (counted(turns=9, concludes=False, done=True, verdict=Pass()), "skip", Decision("advance", "done")),
]


@pytest.mark.parametrize(("tally", "exhausted", "decision"), ANSWERS)
def test_where_whole_answers_are_asked_for_there_is_no_last_turn(
    tally: Counted, exhausted: Any, decision: Decision
) -> None:
    assert decide(*tally, Budget(turns=5, retries=0, seconds=30, exhausted=exhausted)) == decision


SKIPPED = Budget(turns=5, retries=3, retry_backoff="exponential", exhausted="skip")
OUT_OF_TIME = [
    (counted(turns=1, seconds_left=0.1), Decision("continue", "working")),
    (counted(turns=1, seconds_left=0.0), Decision("skip", "max_seconds")),
    (counted(turns=1, seconds_left=-1.0, granted=True), Decision("skip", "max_seconds")),
    (counted(turns=1, seconds_left=-1.0, overflow=True), Decision("skip", "max_seconds")),
    (counted(turns=1, seconds_left=-1.0, done=True, verdict=Pass()), Decision("advance", "done")),
    (counted(unavailable=1, seconds_left=0.1), Decision("wait", "model_unavailable")),
    (counted(unavailable=1, seconds_left=0.0), Decision("skip", "max_seconds")),
    (counted(turns=5, final=True, attempts=2, seconds_left=2.1), Decision("retry", "final_turn_spent")),
    (counted(turns=5, final=True, attempts=2, seconds_left=2.0), Decision("skip", "final_turn_spent")),
    (counted(turns=1, over="limit_turns", seconds_left=0.0), Decision("stuck", "limit_turns")),
]


@pytest.mark.parametrize(("tally", "decision"), OUT_OF_TIME)
def test_the_time_of_all_attempts_ends_a_stage(tally: Counted, decision: Decision) -> None:
    assert decide(*tally, SKIPPED) == decision


@pytest.mark.parametrize(("tally", "decision"), FORCED)
def test_what_forces_an_end(tally: Counted, decision: Decision) -> None:
    assert decide(*tally, BUDGET) == decision


@pytest.mark.parametrize("reason", ["skip", "fail", "stuck", "advance", "final_turn"])
def test_a_forced_end_is_a_final_turn_whatever_else_the_budget_says(reason: Any) -> None:
    budget = Budget(exhausted=reason)
    assert decide(*counted(turns=1, standalone_status=2), budget).action == "final_turn"


@pytest.mark.parametrize(
    ("tally", "budget", "decision"),
    [
        pytest.param(counted(turns=1), BUDGET, Decision("continue", "working"), id="go on"),
        pytest.param(
            counted(turns=1, verdict=NOT_YET),
            BUDGET,
            Decision("continue", "working"),
            id="signalled too early",
        ),
        pytest.param(
            counted(turns=1, done=True, verdict=Pass()), BUDGET, Decision("advance", "done"), id="done"
        ),
        pytest.param(
            counted(turns=5, done=True, verdict=Pass(), final=True),
            BUDGET,
            Decision("advance", "done"),
            id="done in the final turn",
        ),
        pytest.param(counted(turns=5), BUDGET, Decision("final_turn", "max_turns"), id="turns used up"),
        pytest.param(
            counted(turns=5, granted=True), BUDGET, Decision("continue", "working"), id="final turn"
        ),
        pytest.param(counted(turns=4), BUDGET, Decision("continue", "working"), id="one turn left"),
        pytest.param(
            counted(turns=3, bad_replies=3),
            BUDGET,
            Decision("final_turn", "retry_exhaustion"),
            id="bad replies",
        ),
        pytest.param(
            counted(turns=2, bad_replies=2), BUDGET, Decision("continue", "working"), id="some bad replies"
        ),
        pytest.param(
            counted(turns=6, final=True),
            BUDGET,
            Decision("retry", "final_turn_spent"),
            id="final turn spent, retry",
        ),
        pytest.param(
            counted(turns=6, final=True, attempts=2, verdict=NOT_YET),
            BUDGET,
            Decision("fail", "final_turn_spent", NOT_YET.clause),
            id="final turn spent, no retries left",
        ),
        pytest.param(
            counted(turns=6, final=True, attempts=2),
            Budget(exhausted="advance"),
            Decision("advance", "final_turn_spent"),
            id="goes on without it",
        ),
        pytest.param(
            counted(turns=5, attempts=2),
            Budget(turns=5, exhausted="skip"),
            Decision("skip", "max_turns"),
            id="skip needs no final turn",
        ),
        pytest.param(
            counted(turns=5),
            Budget(turns=5, exhausted="fail"),
            Decision("retry", "max_turns"),
            id="a retry comes before failing",
        ),
        pytest.param(
            counted(turns=5, attempts=2),
            Budget(turns=5, exhausted="fail"),
            Decision("fail", "max_turns"),
            id="fail needs no final turn",
        ),
        pytest.param(
            counted(turns=5, attempts=2),
            Budget(turns=5, exhausted="stuck"),
            Decision("stuck", "max_turns"),
            id="stuck needs no final turn",
        ),
        pytest.param(counted(overflow=True), BUDGET, Decision("compact", "context"), id="overflow"),
        pytest.param(
            counted(overflow=True, compactions=1), BUDGET, Decision("compact", "context"), id="overflow again"
        ),
        pytest.param(
            counted(overflow=True, compactions=2),
            BUDGET,
            Decision("final_turn", "context"),
            id="overflow for good",
        ),
        pytest.param(
            counted(overflow=True, granted=True, final=True, attempts=2),
            BUDGET,
            Decision("compact", "context"),
            id="overflow once in the final turn",
        ),
        pytest.param(
            counted(overflow=True, compactions=2, final=True, attempts=2),
            BUDGET,
            Decision("fail", "final_turn_spent"),
            id="overflow in the final turn",
        ),
        pytest.param(counted(unavailable=1), BUDGET, Decision("wait", "model_unavailable"), id="unavailable"),
        pytest.param(
            counted(unavailable=2), BUDGET, Decision("wait", "model_unavailable"), id="still unavailable"
        ),
        pytest.param(
            counted(unavailable=3, trouble="no answer"),
            BUDGET,
            Decision("infra", "model_unavailable", "no answer"),
            id="unavailable for good",
        ),
        pytest.param(
            counted(refused=True, trouble="wrong key"),
            BUDGET,
            Decision("infra", "model_refused", "wrong key"),
            id="refused",
        ),
        pytest.param(
            counted(verdict=Broken("no shell")),
            BUDGET,
            Decision("infra", "check_broken", "no shell"),
            id="broken",
        ),
    ],
)
def test_decide(tally: Counted, budget: Budget, decision: Decision) -> None:
    assert decide(*tally, budget) == decision


REPEAT = Repeat(until="verify.passed", max=4, replan_every=3, no_progress=2, idle_attempts=2)


@pytest.mark.parametrize(
    ("counted", "decision"),
    [
        ({"failures": 1}, Decision("retry", "verify_failed", RED.reason)),
        ({"failures": 1, "over": "limit_cost"}, Decision("stuck", "limit_cost", RED.reason)),
        ({"failures": 1, "stopped": True}, Decision("stuck", "user_stop", RED.reason)),
        ({"failures": 3, "since_replan": 3}, Decision("replan", "consecutive_failures", RED.reason)),
        ({"failures": 4, "since_replan": 3}, Decision("stuck", "verify_loops", RED.reason)),
        ({"failures": 4}, Decision("stuck", "verify_loops", RED.reason)),
        ({"failures": 2, "idle_rounds": 1}, Decision("retry", "verify_failed", RED.reason)),
        ({"failures": 3, "idle_rounds": 2}, Decision("stuck", "no_progress", UNCHANGED)),
        ({"failures": 3, "idle_rounds": 2, "since_replan": 3}, Decision("stuck", "no_progress", UNCHANGED)),
        ({"failures": 4, "idle_rounds": 2}, Decision("stuck", "verify_loops", RED.reason)),
        (
            {"failures": 2, "idle_attempts": 3},
            Decision("stuck", "no_progress", f"{NO_CALLS}, and verification still fails: {RED.reason}"),
        ),
    ],
)
def test_what_follows_a_failed_round(counted: dict[str, Any], decision: Decision) -> None:
    assert decide_round(RoundTally(RED.reason, **counted), REPEAT) == decision


TASK = Repeat(until="verify.passed", max=12, replan_every=3, no_progress=2)


@pytest.mark.parametrize(
    ("counted", "decision"),
    [
        ({"failures": 1, "task_failures": 11}, Decision("retry", "verify_failed", RED.reason)),
        ({"failures": 1, "task_failures": 12}, Decision("stuck", "verify_loops", RED.reason)),
        ({"failures": 3, "since_replan": 3}, Decision("stuck", "rounds_spent", RED.reason)),
        ({"failures": 1, "since_replan": 3}, Decision("stuck", "rounds_spent", RED.reason)),
        ({"failures": 4, "since_replan": 1}, Decision("stuck", "rounds_spent", RED.reason)),
        ({"failures": 2, "idle_rounds": 2}, Decision("stuck", "no_progress", UNCHANGED)),
    ],
)
def test_a_recipe_goes_back_to_its_planner_unless_the_task_is_stuck(
    counted: dict[str, Any], decision: Decision
) -> None:
    tally = RoundTally(RED.reason, in_part=True, **counted)
    assert decide_round(tally, Repeat(until="verify.passed", max=4, no_progress=2), TASK) == decision


def test_all_failed_verifications_of_a_task_count_together() -> None:
    tally = RoundTally(RED.reason, failures=1, task_failures=12)
    assert decide_round(tally, REPEAT, TASK) == Decision("stuck", "verify_loops", RED.reason)


def test_a_group_that_is_told_nothing_repeats_until_its_last_round() -> None:
    tally = RoundTally(RED.reason, 11, since_replan=11, idle_rounds=11, idle_attempts=99)
    assert decide_round(tally, Repeat(until="verify.passed")).action == "retry"


NOT_CHANGED = Decision("stuck", "unfinished", "The work was not finished, and no file was changed.")
NOT_VERIFIED = Decision(
    "stuck", "unfinished", "The work was not finished, and there are no checks to verify it."
)


@pytest.mark.parametrize(
    ("tally", "decision"),
    [
        pytest.param(WorkTally(verified=True), Decision("advance", "done"), id="verified"),
        pytest.param(WorkTally(), Decision("advance", "done"), id="nothing to verify"),
        pytest.param(WorkTally(unfinished=True), NOT_CHANGED, id="silence is not success"),
        pytest.param(WorkTally(unfinished=True, verified=True), NOT_CHANGED, id="it passed before"),
        pytest.param(WorkTally(unfinished=True, changed=True), NOT_VERIFIED, id="nobody vouches for it"),
        pytest.param(
            WorkTally(unfinished=True, changed=True, verified=True),
            Decision("advance", "done"),
            id="verified work",
        ),
        pytest.param(WorkTally(proposing=True), Decision("propose", "done"), id="a dry run"),
        pytest.param(WorkTally(proposing=True, unfinished=True), NOT_CHANGED, id="a dry run without work"),
    ],
)
def test_whether_the_work_counts_as_done(tally: WorkTally, decision: Decision) -> None:
    assert judge_work(tally) == decision


verdicts = st.one_of(
    st.none(),
    st.just(Pass()),
    st.builds(Fail, st.text(max_size=3), st.text(max_size=3)),
    st.builds(Broken, st.text()),
)
tallies = st.builds(
    counted,
    turns=st.integers(0, 60),
    attempts=st.integers(1, 5),
    bad_replies=st.integers(0, 10),
    failed_turns=st.integers(0, 10),
    idle=st.booleans(),
    idle_attempts=st.integers(0, 4),
    done=st.booleans(),
    verdict=verdicts,
    granted=st.booleans(),
    unavailable=st.integers(0, 10),
    overflow=st.booleans(),
    compactions=st.integers(0, 4),
)
budgets = st.builds(
    Budget,
    turns=st.integers(1, 50),
    retries=st.integers(0, 3),
    bad_replies=st.integers(1, 5),
    failed_calls=st.integers(1, 8),
    idle_attempts=st.integers(0, 3),
    waits=st.integers(0, 5),
    exhausted=st.sampled_from(["final_turn", "advance", "skip", "fail", "stuck"]),
)


@given(tallies, budgets)
def test_a_stage_never_goes_on_past_its_budget(tally: Counted, budget: Budget) -> None:
    decision = decide(*tally, budget)
    counts, around = tally
    failed = counts.failed_turns >= budget.failed_calls
    if counts.turns >= budget.turns or counts.bad_replies >= budget.bad_replies or failed:
        assert decision.action != "continue" or counts.granted
    if counts.granted:
        assert decision.action != "final_turn"
    taken = decide(replace(counts, granted=True, final_turns=2), around, budget)
    assert taken.action not in ("continue", "final_turn")


@given(tallies, budgets)
def test_nothing_but_done_and_passed_completes_a_stage(tally: Counted, budget: Budget) -> None:
    if decide(*tally, budget) == Decision("advance", "done"):
        assert tally[0].done
        assert tally[0].verdict == Pass()


@pytest.mark.parametrize(
    ("unavailable", "retry_after", "seconds"),
    [
        (1, None, 1.0),
        (2, None, 2.0),
        (4, None, 8.0),
        (20, None, 60.0),
        (3, 7.5, 7.5),
        (1, 9_999.0, 300.0),
        (1, -3.0, 0),
    ],
)
def test_waiting(unavailable: int, retry_after: float | None, seconds: float) -> None:
    assert wait_seconds(*counted(unavailable=unavailable), Budget(), retry_after) == seconds
