"""What makes a report invalid, and that a report of the runtime's own never is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import FINAL_STATES, Calls, State, TaskState
from headgate.log import REQUIRED, build_report, report_problems


def report(**changes: Any) -> dict[str, Any]:
    state = State(task="t1", text="Do it.", goal="Do it.")
    state.status, state.reason, state.summary = "STUCK", "stage_failed", "It did not work."
    return {**build_report(state).model_dump(mode="json"), **changes}


def test_a_report_as_it_should_be() -> None:
    assert report_problems(report()) == ()


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"task_id": ""}, ("empty:task",)),
        ({"status": "in_progress"}, ("status:not_ended", "error:unexpected")),
        ({"status": "completed"}, ("error:unexpected",)),
        ({"error": None}, ("error:missing",)),
        ({"error": "x" * 2_001}, ("error:too_long",)),
        ({"tool_calls_total": 1}, ("sum:tool_calls_total",)),
        ({"tool_errors_total": 1}, ("sum:tool_errors_total", "sum:more_errors_than_calls")),
        ({"attempts": -1}, ("negative:attempts",)),
        ({"attempts": True}, ("type:attempts",)),
        ({"files_read": "a.py"}, ("type:files_read",)),
    ],
)
def test_what_is_wrong_has_a_code(changes: dict[str, Any], codes: tuple[str, ...]) -> None:
    assert report_problems(report(**changes)) == codes


@pytest.mark.parametrize("name", REQUIRED)
def test_every_required_field_is_required(name: str) -> None:
    lacking = report()
    del lacking[name]
    assert report_problems(lacking) == (f"missing:{name}",)


@given(st.sampled_from(sorted(FINAL_STATES)), st.text(max_size=50), st.text(max_size=5_000))
def test_the_runtime_s_own_are_valid(status: TaskState, reason: str, summary: str) -> None:
    state = State(task="t1", text="Do it.", goal="Do it.", status=status, reason=reason, summary=summary)
    state[Calls].made.update(["ls", "ls", "shell"])
    state[Calls].failed.update(["shell"])
    assert report_problems(build_report(state).model_dump(mode="json")) == ()
