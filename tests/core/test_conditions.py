"""The small language of conditions: what it reads, what it refuses, and what it comes to."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import (
    Flow,
    Situation,
    Stage,
    flow_problems,
)
from headgate.core.conditions import (
    check_condition,
    find_name,
    holds,
    is_expression,
    named_stages,
    read_ending,
)

SITUATION = Situation(
    results={
        "look": {"count": 3, "items": ["a", "b"], "kind": "bug", "deep": [{"x": 0}], "none": None},
        "research.web": {"score": 0.5},
        "later": None,
        "word": "yes",
    },
    variables={"env": "prod", "limit": 2, "on": True},
)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("results.look.count > 2", True),
        ("results.look.count > variables.limit", True),
        ("2 < results.look.count <= 3", True),
        ("results.look.kind == 'bug' and variables.env != 'test'", True),
        ("results.look.kind in ['feature', 'bug']", True),
        ("results.look.kind not in ('feature', 'bug')", False),
        ("len(results.look.items) == 2", True),
        ('"a" in results.look.items', True),
        ("results.look.deep[0].x == 0", True),
        ("results['look']['deep'][-1]['x'] == 0", True),
        ("results.look.deep[7].x == 0", False),
        ("results.research.web.score >= 0.5", True),
        ("results['research.web'].score >= 0.5", True),
        ("results.word == 'yes'", True),
        ("variables.on", True),
        ("not variables.on or results.look.count == -1", False),
        ("results.later.count > 1", False),
        ("results.later.count != 1", False),
        ("results.later.count not in [1]", False),
        ("results.look.count != results.later.count", False),
        ("len(results.later) == 0", False),
        ("results.later.count == None", True),
        ("results.later is None", True),
        ("results.look.count is not None", True),
        ("results.look.count != None", True),
        ("results.look.kind > 2", False),
        ("results.look.count.real == 3", False),
        ("results.look.items.append", False),
        ("variables.nothing", False),
        ("not variables.nothing", True),
    ],
)
def test_what_a_condition_comes_to(when: str, expected: bool) -> None:
    check_condition(when)
    assert is_expression(when)
    assert holds(when, SITUATION) is expected


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("results.look.count >", "cannot be read at column 21: "),
        ("count > 2", 'unknown name "count": there are `STAGE.passed`, `results.STAGE.FIELD` and'),
        ("len(results) > 2", "`results` alone is not a value: write `results.NAME` (column 5)"),
        ("results.look() == 1", "only comparisons, and, or, not, in, len() and plain values are allowed"),
        ("results.look.count + 1 > 2", "only comparisons"),
        ("[x for x in results.look.items]", "only comparisons"),
        ("(lambda: 1)()", "only comparisons"),
        ("__import__('os')", "only comparisons"),
        ("len.__class__", 'unknown name "len"'),
        ("().__class__", "only results and variables have fields"),
        ("f'{results.look}' == ''", "only comparisons"),
        ("results.look[variables.n] == 1", "only results and variables have fields"),
        ("results.look is variables.on", "`is` is for None: use `==`"),
        ("b'x' == results.look", "only comparisons"),
        ("(" * 300 + ")" * 300, "cannot be read"),
        ("1 == " * 300 + "1", "a condition has at most 1000 characters"),
        ("\x00", "cannot be read"),
        ("", "cannot be read"),
        ("code:", "`code:` must be followed by the name of a function"),
    ],
)
def test_what_no_condition_may_be(when: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_condition(when)


@given(st.text(max_size=60), st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3)))
def test_any_text_is_refused_or_comes_to_something(when: str, output: dict[str, Any]) -> None:
    try:
        check_condition(when)
    except ValueError:
        return
    if is_expression(when):
        assert holds(when, Situation({"a": output}, output)) in (True, False)


def test_conditions_on_endings_are_no_expressions() -> None:
    assert read_ending("not plan.failed") == ("plan", "failed")
    assert read_ending("research.web.passed") == ("research.web", "passed")
    assert read_ending("results.failed") == ("results", "failed")
    assert read_ending("results.plan.failed") is None
    assert not any(map(is_expression, [None, "again", "replan", "suspects", "plan.passed", "code:x"]))


def test_the_stages_that_a_condition_names() -> None:
    known = {"a", "b", "b.c"}
    assert named_stages("results.b.c.x > results['a'] and results.zzz and variables.b", known) == ("b.c", "a")
    assert named_stages("not a.passed", known) == ("a",)
    assert named_stages("code:local:f", known) == ()
    assert find_name(("b", "x"), known) == "b"


def test_a_condition_may_name_a_stage_anywhere_in_the_flow() -> None:
    inner = {"id": "inner", "when": "results.first.x > 1"}
    stages = [{"id": "first"}, {"id": "group", "stages": [inner]}, {"id": "last", "when": "results.inner.y"}]
    flow = Flow.model_validate({"name": "test", "stages": stages})
    assert list(flow_problems(flow)) == []
    assert Stage(id="a", when="code:local:f").when == "code:local:f"
