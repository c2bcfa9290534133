"""What the ending of a needed stage means, and the short names for errors."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headgate.core import (
    Budget,
    Flow,
    Stage,
    retry_seconds,
)
from headgate.core.needs import NEEDS, NeedEnding, OnSkip, blocking_need, needs_met, ready_stages, skips_with

ENDINGS: tuple[NeedEnding, ...] = ("completed", "exhausted", "absent", "skipped", "failed", "unmet")
ON_SKIP: tuple[OnSkip, ...] = (None, "run", "skip")


@pytest.mark.parametrize("on_skip", ON_SKIP)
@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending_means_one_thing(ending: NeedEnding, on_skip: OnSkip) -> None:
    stage = Stage(id="b", needs=("a",), on_skip=on_skip)
    ended: dict[str, NeedEnding] = {"a": ending}
    found = {
        "run": needs_met(stage, ended),
        "skip": skips_with(stage, ended),
        "block": blocking_need(stage, ended) == f"needs: a {ending}",
    }
    assert [meaning for meaning, holds in found.items() if holds] == [NEEDS[ending][on_skip]]


def test_a_need_that_has_not_ended_means_nothing_yet() -> None:
    stage = Stage(id="b", needs=("a",), on_skip="skip")
    assert (needs_met(stage, {}), skips_with(stage, {}), blocking_need(stage, {})) == (False, False, "")


def test_ready_stages_come_by_priority_then_in_file_order() -> None:
    stages = [
        Stage(id="a", priority="low"),
        Stage(id="b"),
        Stage(id="c", needs=("z",)),
        Stage(id="d", priority="high"),
        Stage(id="e"),
    ]
    assert [stage.id for stage in ready_stages(stages, {"e": "failed"})] == ["d", "b", "a"]


def test_the_document_has_the_same_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "flows.md").read_text(encoding="utf-8")
    words = {"runs": "run", "is skipped": "skip", "cannot run": "block"}
    row = re.compile(r"^\| `(\w+)` \|[^|]*\| ([a-z ]+) \| ([a-z ]+) \| ([a-z ]+) \|$", re.MULTILINE)
    found = {
        name: dict(zip(ON_SKIP, map(words.get, cells), strict=True)) for name, *cells in row.findall(page)
    }
    assert found == NEEDS


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [("none", [0, 0, 0, 0]), ("linear", [1, 2, 3, 4]), ("exponential", [1, 2, 4, 8])],
)
def test_waits_before_another_attempt(backoff: Any, waits: list[float]) -> None:
    budget = Budget(retry_backoff=backoff)
    assert [retry_seconds(tries, budget) for tries in (1, 2, 3, 4)] == waits
    assert retry_seconds(9_999, budget) in (0, 60)


@pytest.mark.parametrize(
    ("written", "budget"),
    [
        ({"on_error": "retry"}, {"retries": 3}),
        ({"on_error": "retry", "max_retries": 5}, {"retries": 5}),
        ({"on_error": "retry", "budget": {"retries": 2}}, {"retries": 2}),
        ({"on_error": "retry", "on_max_retries": "skip"}, {"retries": 3, "exhausted": "skip"}),
        ({"on_error": "skip"}, {"retries": 0, "exhausted": "skip"}),
        ({"on_error": "fail"}, {"retries": 0, "exhausted": "fail"}),
        ({"max_retries": 4, "retry_backoff": "linear"}, {"retries": 4, "retry_backoff": "linear"}),
        ({"on_max_retries": "fail", "budget": {"turns": 2}}, {"turns": 2, "exhausted": "fail"}),
    ],
)
def test_short_names_for_errors(written: dict[str, Any], budget: dict[str, Any]) -> None:
    assert Stage.model_validate({"id": "a", **written}).budget == Budget(**budget)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"on_error": "ignore"}, "`on_error` must be retry, skip or fail"),
        ({"on_max_retries": "stuck"}, "`on_max_retries` must be skip or fail"),
        ({"on_error": "skip", "max_retries": 2}, "`max_retries` has no effect with `on_error: skip`"),
        (
            {"on_error": "fail", "budget": {"retries": 2}},
            "`max_retries` and `budget: {retries}` are the same",
        ),
        ({"max_retries": 2, "stage_retries": 2}, "`max_retries` and `budget: {retries}` are the same"),
    ],
)
def test_short_names_that_contradict(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        Stage.model_validate({"id": "a", **written})


def test_what_a_flow_says_about_errors_holds_for_its_stages() -> None:
    flow = Flow.model_validate(
        {
            "name": "test",
            "max_retries": 2,
            "on_max_retries": "skip",
            "retry_backoff": "exponential",
            "stages": [
                {"id": "a", "max_retries": 5},
                {"id": "b", "stages": [{"id": "c", "budget": {"exhausted": "fail"}}]},
                Stage(id="d", budget=Budget(retry_backoff="none")),
                {"id": "verify", "kind": "verify"},
                {"id": "p", "kind": "planner"},
            ],
        }
    )
    found = {leaf.id: leaf.budget for leaf in flow.leaves()}
    assert found == {
        "a": Budget(retries=5, exhausted="skip", retry_backoff="exponential"),
        "c": Budget(retries=2, exhausted="fail", retry_backoff="exponential"),
        "d": Budget(retries=2, exhausted="skip", retry_backoff="none"),
        "verify": Budget(),
        "p": Budget(retries=2, exhausted="skip", retry_backoff="exponential"),
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"max_retries": -1}, "`max_retries`: input should be greater than or equal to 0"),
        ({"retry_backoff": "often"}, "`retry_backoff`: input should be 'none', 'linear' or 'exponential'"),
        ({"on_error": 3}, "`on_error` must be retry, skip or fail"),
    ],
)
def test_what_a_flow_cannot_say_about_errors(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        Flow.model_validate({"name": "test", "stages": [{"id": "a"}], **written})
