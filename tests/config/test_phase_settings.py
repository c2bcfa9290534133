"""What may be configured about phases."""

from typing import Any

import pytest
from pydantic import ValidationError

from headgate.config import PhaseControl


def test_defaults_are_those_of_the_specification() -> None:
    assert PhaseControl().model_dump() == {
        "mode": "off",
        "states": ("context", "plan", "implement"),
        "default": "context",
        "rules": {"min_files_read_for_plan": 1, "auto_plan_after_read": True, "write_to_implement": True},
        "probe": {"temperature": 0, "max_tokens": 64, "system_prompt": None, "user_prompt": None},
        "prompts": {},
    }


@pytest.mark.parametrize(
    ("fields", "place", "message"),
    [
        ({"mode": "on"}, ("mode",), "Input should be 'off', 'rules', 'llm' or 'hybrid'"),
        ({"states": []}, ("states",), "Tuple should have at least 1 item after validation, not 0"),
        ({"states": ["context", "context"]}, ("states",), 'names the state "context" twice'),
        ({"states": ["context", "Context"]}, ("states",), 'names the state "Context" twice'),
        (
            {"states": ["context", "code review"]},
            ("states",),
            'must contain names such as "context" or "code-review", not "code review"',
        ),
        (
            {"default": "review"},
            ("default",),
            'must be one of the states (context, plan, implement), not "review"',
        ),
        ({"states": ["explore", "plan"]}, (), 'needs a "default": one of its states (explore, plan)'),
        (
            {"prompts": {"contxt": "Read."}},
            ("prompts",),
            'has a hint for "contxt", which is not a state: did you mean "context"?',
        ),
        (
            {"prompts": {"xyz": "Read."}},
            ("prompts",),
            'has a hint for "xyz", which is not a state: the states are context, plan, implement',
        ),
        ({"rules": {"min_files_read_for_plan": 0}}, ("rules", "min_files_read_for_plan"), None),
        ({"probe": {"max_tokens": 0}}, ("probe", "max_tokens"), None),
        ({"probe": {"temperature": -1}}, ("probe", "temperature"), None),
        ({"probe": {"temperature": "inf"}}, ("probe", "temperature"), None),
        ({"probe": {"tools": []}}, ("probe", "tools"), None),
        ({"state": ["context"]}, ("state",), None),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(
    fields: dict[str, Any], place: tuple[str, ...], message: str | None
) -> None:
    with pytest.raises(ValidationError) as caught:
        PhaseControl.model_validate(fields)
    (fault,) = caught.value.errors()
    assert fault["loc"] == place
    assert message in (None, fault["msg"].removeprefix("Value error, "))


def test_bad_states_are_reported_alone() -> None:
    with pytest.raises(ValidationError) as caught:
        PhaseControl.model_validate({"states": ["a", "a"], "default": "b", "prompts": {"c": "x"}})
    assert [fault["loc"] for fault in caught.value.errors()] == [("states",)]
