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
    flow_problems,
    stages_before,
)
from headgate.core.flow_check import Problem, find_cycle
from headgate.core.names import checks_from_list
from headgate.core.needs import next_stage


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


@pytest.mark.parametrize(
    ("flow", "problem"),
    [
        (
            flow_of(Stage(id="a"), Stage(id="a")),
            Problem(("stages", 1, "id"), 'there are two stages with the id "a"'),
        ),
        (
            flow_of(Stage(id="explore"), Stage(id="b", needs=("explor",))),
            Problem(("stages", 1, "needs", 0), 'unknown stage "explor": did you mean "explore"?'),
        ),
        (
            flow_of(Stage(id="a", needs=("b",)), Stage(id="b", needs=("a",))),
            Problem(("stages", 0, "needs"), "`needs` has a cycle: a -> b -> a"),
        ),
        (
            flow_of(Stage(id="a", needs=("a",))),
            Problem(("stages", 0, "needs"), "`needs` has a cycle: a -> a"),
        ),
        (
            flow_of(Stage(id="work"), fix="wrok"),
            Problem(("fix",), 'unknown stage "wrok": did you mean "work"?'),
        ),
        (
            flow_of(Stage(id="a", tools=ToolScope(allow=("read_fil",)))),
            Problem(
                ("stages", 0, "tools", "allow", 0),
                'unknown tool or category "read_fil": did you mean "read_file"?',
            ),
        ),
        (
            flow_of(Stage(id="a", checks={"verify": True})),
            Problem(("stages", 0, "checks"), "verify belongs in the flow's own checks, not in a stage's"),
        ),
    ],
)
def test_problems(flow: Flow, problem: Problem) -> None:
    assert list(flow_problems(flow, (READ, WRITE, DONE))) == [problem]


def test_a_sound_flow_has_no_problems() -> None:
    assert list(flow_problems(flow_of(Stage(id="a"), Stage(id="b", needs=("a",))), (READ,))) == []


def test_order_follows_needs_then_priority_then_the_file() -> None:
    flow = flow_of(
        Stage(id="late", needs=("first",)),
        Stage(id="low", priority="low"),
        Stage(id="first"),
        Stage(id="urgent", priority="critical"),
    )
    order = []
    while stage := next_stage(flow.stages, dict.fromkeys(order, "completed")):
        order.append(stage.id)
    assert order == ["urgent", "first", "late", "low"]


def test_a_stage_whose_needs_failed_is_never_ready() -> None:
    flow = flow_of(Stage(id="a"), Stage(id="b", needs=("a",)))
    assert next_stage(flow.stages, {"a": "failed"}) is None
    assert next_stage(flow.stages, {"a": "exhausted"}) == flow.stages[1]


def test_the_stage_that_mends_is_the_last_that_may_write() -> None:
    read_only = ToolScope(allow=("read",))
    flow = flow_of(Stage(id="edit"), Stage(id="check", tools=read_only))
    assert fix_stage(flow, (READ, WRITE)).id == "edit"
    assert fix_stage(flow_of(Stage(id="look", tools=read_only)), (READ, WRITE)).id == "look"


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
