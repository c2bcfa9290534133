"""What runs next in a group, what is left out, and how a round ends: tables over plain data."""

from collections.abc import Mapping
from typing import Any

import pytest

from headgate.core import (
    Ending,
    GroupRound,
    Records,
    Role,
    Situation,
    Stage,
    StageSkipped,
    StageState,
    decide_next,
    join_path,
    stages_concluded,
    stages_not_reached,
)
from headgate.core.tree import TreeState

ROLES: Mapping[str, frozenset[Role]] = {
    "talk": frozenset({"conversation", "receives_failures"}),
    "check": frozenset({"quiet", "sends_back"}),
    "look": frozenset({"quiet", "sends_back", "reports_once"}),
    "search": frozenset({"quiet", "skips_quietly"}),
    "maybe": frozenset({"may_not_apply"}),
}
LOOP = {"id": "loop", "repeat": {"until": "check.passed", "max": 3}}


def ended(**endings: Ending) -> TreeState:
    """A tree in which the stages of the flow ended so, in this order."""
    tree = TreeState()
    end(tree, "", endings)
    return tree


def end(tree: TreeState, parent: str, endings: Mapping[str, Ending]) -> None:
    for name, how in endings.items():
        begin(tree, join_path(parent, name))
        tree.leave(join_path(parent, name), name, how)


def begin(tree: TreeState, path: str) -> None:
    name = path.rpartition("/")[2]
    tree.enter(StageState(path, name, title=name, attempt=1, turns_allowed=9))


def group(*stages: Any, **fields: Any) -> Stage:
    made = [stage if isinstance(stage, dict) else {"id": stage} for stage in stages]
    return Stage.model_validate({"id": "flow", "stages": made, **fields})


def look(flow: Stage, tree: TreeState, **fields: Any) -> GroupRound:
    return GroupRound(tree, flow, flow.stages, **{"roles": ROLES, **fields})


def loop(*rounds: Mapping[str, Ending], number: int = 0) -> GroupRound:
    """A round of the debug loop: the one after these, if it is not said otherwise."""
    stages = [{"id": "work"}, {"id": "look", "kind": "look", "needs": ["work"]}]
    flow = group(*stages, {"id": "check", "kind": "check", "needs": ["look"]}, **LOOP)
    tree = TreeState()
    for count, endings in enumerate(rounds, 1):
        end(tree, join_path("", "loop", count), endings)
    number = number or len(rounds)
    return look(flow, tree, path=join_path("", "loop", number), number=number)


def said(records: Records) -> list[str]:
    """Records as short lines."""
    return [
        f"{path}: {body.reason}" if isinstance(body, StageSkipped) else f"{path} {body.ending}: {body.reason}"
        for path, body in records
    ]


def ready(this: GroupRound) -> list[str]:
    return [stage.id for stage in decide_next(this).ready]


NEEDS = group("a", {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["*"]}, {"id": "d", "priority": "high"})


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (ended(), ["d", "a"]),
        (ended(d="completed"), ["a"]),
        (ended(a="completed"), ["d", "b"]),
        (ended(a="completed", d="exhausted", b="completed"), ["c"]),
        (ended(a="completed", b="completed", c="completed", d="completed"), []),
    ],
)
def test_what_may_run_follows_needs_and_priority(tree: TreeState, expected: list[str]) -> None:
    assert ready(look(NEEDS, tree)) == expected


def test_what_was_begun_comes_first() -> None:
    tree = ended()
    begin(tree, "a")
    assert ready(look(NEEDS, tree)) == ["a", "d"]


WHEN = group(
    {"id": "a", "required": False},
    {"id": "b", "when": "a.failed"},
    {"id": "c", "when": "b.passed"},
    {"id": "again", "when": "again"},
    {"id": "value", "when": "results.a.size > 2"},
)


@pytest.mark.parametrize(
    ("how", "size", "expected", "skipped"),
    [
        ("completed", 3, ["value"], ["b: condition", "c: condition"]),
        ("completed", 1, [], ["b: condition", "c: condition", "value: condition"]),
        ("failed", 3, ["b", "value"], []),
        ("failed", 0, ["b"], ["value: condition"]),
    ],
)
def test_conditions_decide_what_is_skipped_and_rounds_are_no_news(
    how: Ending, size: int, expected: list[str], skipped: list[str]
) -> None:
    this = look(WHEN, ended(a=how), situation=lambda stage: Situation(results={"a": {"size": size}}))
    following = decide_next(this)
    assert ([stage.id for stage in following.ready], said(following.records)) == (expected, skipped)


def test_what_a_quiet_search_leaves_out_is_no_news() -> None:
    flow = group({"id": "a", "kind": "search"}, {"id": "b", "when": "a.failed"}, {"id": "c", "needs": ["b"]})
    following = decide_next(look(flow, ended(a="completed")))
    assert ([stage.id for stage in following.ready], following.records) == (["c"], [])


@pytest.mark.parametrize("applies", [True, False])
def test_a_stage_for_which_there_is_nothing_to_do_does_not_run(applies: bool) -> None:
    flow = group({"id": "a", "kind": "maybe"}, {"id": "b", "needs": ["a"]})
    this = look(flow, ended(), applies=lambda stage: applies)
    assert ready(this) == (["a"] if applies else ["b"])


def test_a_group_is_recorded_with_the_stages_in_it_that_people_know() -> None:
    inner = {"id": "g", "stages": [{"id": "x"}, {"id": "y", "kind": "check"}], "when": "a.failed"}
    following = decide_next(look(group("a", inner), ended(a="completed")))
    assert said(following.records) == ["g: condition", "g/x: condition"]


@pytest.mark.parametrize(
    ("join", "tree", "how", "stage", "records"),
    [
        ("all", ended(a="failed"), "failed", "a", []),
        ("all", ended(a="completed", b="completed"), "over", None, []),
        ("all", ended(a="skipped"), "over", "b", ["b skipped: needs_not_met", "b: needs: a skipped"]),
        ("any", ended(a="completed"), "one_completed", None, ["b skipped: join_any", "b: join_any"]),
        ("any", ended(a="failed"), "over", None, ["b skipped: needs_not_met", "b: needs: a failed"]),
    ],
)
def test_how_a_round_ends(
    join: str, tree: TreeState, how: str, stage: str | None, records: list[str]
) -> None:
    flow = group("a", {"id": "b", "needs": ["a"]}, join=join)
    found = decide_next(look(flow, tree)).end
    assert found is not None
    assert (found.how, found.stage.id if found.stage else None, said(found.records)) == (how, stage, records)


def test_a_group_that_may_take_no_more_steps_begins_nothing_new() -> None:
    tree = ended(a="completed")
    this = look(group("a", "b"), tree)
    assert decide_next(this).end is None
    assert decide_next(this, is_spent=True).end == ("spent", None, ())
    begin(tree, "b")
    assert decide_next(look(group("a", "b"), tree), is_spent=True).end is None


def test_what_runs_beside_others_is_cancelled_when_one_was_enough() -> None:
    tree = ended(a="completed")
    begin(tree, "b")
    found = decide_next(look(group("a", "b", "c", join="any"), tree)).end
    assert found is not None
    assert said(found.records) == ["b skipped: join_any", "c skipped: join_any", "c: join_any"]


@pytest.mark.parametrize(
    ("last", "how", "stage"),
    [
        ({"work": "completed", "look": "completed", "check": "failed"}, "sent_back", "check"),
        ({"work": "completed", "look": "failed"}, "sent_back", "look"),
        ({"work": "failed"}, "failed", "work"),
        ({"work": "completed", "look": "completed", "check": "completed"}, "over", None),
    ],
)
def test_how_a_round_of_the_debug_loop_ends(last: Mapping[str, Ending], how: str, stage: str | None) -> None:
    found = decide_next(loop(last)).end
    assert found is not None
    assert (found.how, found.stage.id if found.stage else None) == (how, stage)


RED: Mapping[str, Ending] = {"work": "completed", "look": "completed", "check": "failed"}
GREEN: Mapping[str, Ending] = {**RED, "check": "completed"}
FOUND: Mapping[str, Ending] = {"work": "completed", "look": "failed"}


def test_failures_are_counted_over_rounds_and_since_the_plan_was_rewritten() -> None:
    this = loop(RED, FOUND, RED, RED)
    assert this.count_failures() == (3, 3)
    this.tree.replanned["loop#3"] = ""
    assert this.count_failures() == (3, 2)


def test_after_the_check_has_passed_a_failed_fix_is_not_fatal() -> None:
    this = loop(GREEN, {"work": "failed"})
    assert (this.has_passed, this.fatal_stage) == (True, None)


def test_the_stage_that_fixes_is_the_first_one_that_can_be_told() -> None:
    stages = [{"id": "replan", "when": "replan"}, {"id": "run", "kind": "check"}]
    flow = group(*stages, {"id": "g", "stages": [{"id": "work"}]}, **LOOP)
    this = look(flow, ended(), path="loop")
    assert this.fixing_stage is not None
    assert (this.fixing_stage.id, this.can_replan) == ("g", True)
    assert loop().can_replan is False


@pytest.mark.parametrize(
    ("rounds", "number", "expected"),
    [
        ([RED], 1, []),
        ([FOUND], 1, ["loop/look completed: concluded"]),
        ([FOUND], 2, ["loop#2/work skipped: concluded"]),
        ([RED], 2, []),
    ],
)
def test_what_a_review_found_is_ignored_when_the_task_is_to_end(
    rounds: list[Mapping[str, Ending]], number: int, expected: list[str]
) -> None:
    assert said(stages_concluded(loop(*rounds, number=number))) == expected


def test_stages_that_a_failed_flow_does_not_reach() -> None:
    tree = ended(a="failed")
    begin(tree, "b")
    flow = group("a", "b", "c", {"id": "d", "kind": "check"}, {"id": "e", "when": "a.passed"})
    this = look(flow, tree)
    assert said(stages_not_reached(this, "limit_turns")) == ["b skipped: cancelled", "c: failed: a"]
    flow = group({"id": "a", "required": False}, "b", "c")
    assert said(stages_not_reached(look(flow, tree), "limit_turns")) == [
        "b skipped: cancelled",
        "c: limit_turns",
    ]
