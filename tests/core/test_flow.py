"""Flows: scopes, order, and what is wrong with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import (
    Category,
    Flow,
    Stage,
    ToolScope,
    ToolSpec,
    expand_flow,
    fix_stage,
    run_order,
    stages_before,
)
from headgate.core.flow_check import find_cycle
from headgate.core.names import checks_from_list


def spec(name: str, category: Category) -> ToolSpec:
    return ToolSpec(name, "", {}, category)


READ, WRITE, DONE = spec("read_file", "read"), spec("edit_file", "write"), spec("stage_done", "control")


@pytest.mark.parametrize(
    ("scope", "admitted"),
    [
        (ToolScope(), [READ, WRITE, DONE]),
        (ToolScope(allow=("read",)), [READ, DONE]),
        (ToolScope(allow=("edit_file",)), [WRITE, DONE]),
        (ToolScope(allow=()), [DONE]),
        (ToolScope(block=("write",)), [READ, DONE]),
        (ToolScope(allow=("read", "write"), block=("read_file",)), [WRITE, DONE]),
        (ToolScope(block=("stage_done", "control")), [READ, WRITE, DONE]),
        (ToolScope.model_validate({"allow": ["file.read"]}), [READ, DONE]),
    ],
)
def test_scope(scope: ToolScope, admitted: list[ToolSpec]) -> None:
    assert [tool for tool in (READ, WRITE, DONE) if scope.admits(tool)] == admitted


def flow_of(*stages: Stage, **fields: object) -> Flow:
    return Flow.model_validate({"name": "test", "stages": stages, **fields})


def test_checks_can_be_a_list() -> None:
    assert checks_from_list(["verify", {"files_read": 2}]) == {"verify": True, "files_read": 2}
    stage = Stage.model_validate({"id": "a", "checks": ["files_read", "plan_written"]})
    assert stage.checks == {"files_read": True, "plan_written": True}


ANSWER: dict[str, object] = {"id": "answer", "candidates": {"ask": "line"}}
LOOK: dict[str, object] = {"id": "look", "tools": {"allow": ["read"]}}


@pytest.mark.parametrize(
    ("stages", "fix"),
    [
        ([{"id": "edit"}, LOOK], "edit"),
        ([LOOK], "look"),
        ([{**LOOK, "id": "first"}, {"id": "look", "tools": {"allow": []}}], "look"),
        ([{"id": "work"}, ANSWER], "work"),
        ([{"id": "edit"}, LOOK, ANSWER], "edit"),
        ([ANSWER, {**ANSWER, "id": "again"}], None),
    ],
)
def test_the_last_stage_that_may_write_and_asks_for_no_answers_mends(
    stages: list[dict[str, object]], fix: str | None
) -> None:
    found = fix_stage(Flow.model_validate({"name": "test", "stages": stages}), (READ, WRITE))
    assert (found.id if found else None) == fix


names = st.sampled_from("abcdefgh")


@given(st.dictionaries(names, st.lists(names, max_size=3), max_size=8))
def test_a_cycle_is_found_exactly_when_there_is_one(needs: dict[str, list[str]]) -> None:
    cycle = find_cycle(needs)
    for name, following in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True):
        assert following in needs[name]
    remaining = dict(needs)
    while free := [name for name, wants in remaining.items() if not any(want in remaining for want in wants)]:
        for name in free:
            del remaining[name]
    assert bool(cycle) == bool(remaining)


def stage(name: str, *needs: str, **fields: object) -> Stage:
    return Stage.model_validate({"id": name, "needs": needs, **fields})


PLANNED = expand_flow(
    flow_of(stage("a"), stage("b", "a"), stage("c"), stage("d", "b"), checks=["verify"]), [WRITE], ()
)


@pytest.mark.parametrize(
    ("flow", "of", "before"),
    [
        (flow_of(stage("a"), stage("b"), stage("c")), stage("c"), {"a", "b"}),
        (flow_of(stage("a"), stage("b", "a"), stage("c"), stage("d", "b")), stage("d"), {"a", "b"}),
        (flow_of(stage("a"), stage("b", "a"), stage("c")), stage("c"), {"a", "b"}),
        (flow_of(stage("a"), stage("b", "a"), stage("c")), stage("b"), {"a"}),
        (flow_of(stage("a"), stage("b")), stage("x"), None),
        # The stage that fixes is in a group. What the group needs for its order says nothing about notes.
        (PLANNED, stage("d"), {"a", "b", "replan", "verify"}),
        (
            expand_flow(flow_of(stage("a"), stage("b"), checks=["verify"]), [WRITE], ()),
            stage("b"),
            {"a", "replan", "verify"},
        ),
    ],
)
def test_notes_follow_needs(flow: Flow, of: Stage, before: set[str] | None) -> None:
    assert stages_before(flow.stages, of) == before


def test_steps_of_a_plan_receive_the_notes_of_the_plan_and_of_other_steps() -> None:
    flow = expand_flow(
        flow_of(stage("look"), stage("plan", "look"), stage("step", "plan", foreach="plan")), [WRITE], ()
    )
    assert stages_before(flow.stages, stage("step-two", item="two")) == {"look", "plan", "step", "replan"}


@given(st.permutations("abcdef"), st.data())
def test_the_order_of_a_flow_follows_its_needs(file_order: list[str], data: st.DataObject) -> None:
    earlier = {name: sorted("abcdef")[: "abcdef".index(name)] for name in "abcdef"}
    needs = {name: data.draw(st.lists(st.sampled_from(earlier[name]), max_size=2)) for name in "bcdef"}
    stages = [stage(name, *needs.get(name, ())) for name in file_order]
    order = [each.id for each in run_order(stages)]
    assert sorted(order) == list("abcdef")
    assert all(order.index(need) < order.index(name) for name, wanted in needs.items() for need in wanted)
