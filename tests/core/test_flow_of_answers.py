"""Flows with stages of whole answers: who mends, and what such a stage has no use for."""

from typing import Any

import pytest

from headgate.core import Flow, ToolSpec, fix_stage, flow_problems
from headgate.core.flow_check import Problem
from headgate.engine import CHECK_SPECS

WRITE = ToolSpec("edit_file", "", {}, "write")
ANSWER: dict[str, Any] = {"id": "answer", "candidates": {"ask": "line"}}


def flow_of(*stages: dict[str, Any], **fields: Any) -> Flow:
    return Flow.model_validate({"name": "test", "begin": "verify", "stages": stages, **fields})


@pytest.mark.parametrize(
    ("stages", "fix"),
    [
        ([{"id": "work"}, ANSWER], "work"),
        ([{"id": "edit"}, {"id": "look", "tools": {"allow": ["read"]}}, ANSWER], "edit"),
        ([{"id": "first", "tools": {"allow": ["read"]}}, {"id": "look", "tools": {"allow": []}}], "look"),
        ([ANSWER], None),
        ([ANSWER, {**ANSWER, "id": "again"}], None),
    ],
)
def test_a_stage_of_answers_mends_nothing(stages: list[dict[str, Any]], fix: str | None) -> None:
    found = fix_stage(flow_of(*stages), [WRITE])
    assert (found.id if found else None) == fix


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tools", {"allow": ["read"]}),
        ("view", {"transcript": "parent"}),
        ("checks", ["files_read"]),
        ("advance", "rules"),
        ("allow_missing_done", True),
        ("retry_hints", False),
        ("foreach", "plan"),
    ],
)
def test_what_would_be_ignored_is_an_error(key: str, value: Any) -> None:
    problem = Problem(("stages", 1, key), f"{key} has no effect in a stage with candidates: leave it out")
    assert list(flow_problems(flow_of({"id": "work"}, {**ANSWER, key: value}))) == [problem]
    assert list(flow_problems(flow_of({"id": "work", key: value}, ANSWER))) == []


def test_a_flat_name_is_no_way_round() -> None:
    (problem,) = flow_problems(flow_of({**ANSWER, "tools_allow": ["read"]}))
    assert problem.where == ("stages", 0, "tools")


def test_what_a_stage_of_answers_does_heed() -> None:
    heeded = {
        "label": "X",
        "prompt": "?",
        "system": "!",
        "model": "m",
        "budget": {"turns": 2},
        "required": False,
        "needs": ["work"],
        "priority": "high",
        "when": "suspects",
    }
    assert list(flow_problems(flow_of({"id": "work"}, {**ANSWER, **heeded}))) == []


def test_a_stage_of_answers_cannot_be_named_to_mend() -> None:
    said = '"answer" has candidates: `fix` must name a stage without candidates'
    assert list(flow_problems(flow_of({"id": "work"}, ANSWER, fix="answer"))) == [Problem(("fix",), said)]


@pytest.mark.parametrize("check", ["diff_scope", "tests_touched", "tests_weakened"])
def test_a_finding_that_nobody_could_be_told(check: str) -> None:
    said = f"{check} needs a stage without candidates, and there is none: leave it out"
    assert list(flow_problems(flow_of(ANSWER, checks=[check, "verify"]), checks=CHECK_SPECS)) == [
        Problem(("checks",), said)
    ]
    assert (
        list(flow_problems(flow_of(ANSWER, {"id": "work"}, checks=[check, "verify"]), checks=CHECK_SPECS))
        == []
    )
    assert list(flow_problems(flow_of(ANSWER, checks=["verify"]))) == []
