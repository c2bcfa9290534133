"""What a report says about verification: what was run, and what only went round."""

import pytest

from headgate.core import (
    Body,
    Calls,
    Constraints,
    Event,
    Flow,
    Stage,
    State,
    TaskEnded,
    TaskStarted,
    VerifyFinished,
    VerifyStarted,
)
from headgate.log import build_report, render_markdown, write_summary

STARTED = TaskStarted(
    text="Make it pass.",
    goal="Make it pass.",
    constraints=Constraints(),
    flow=Flow(name="f", stages=(Stage(id="work"),)),
    model="script:s.yaml",
    tools=(),
    baseline="",
    config={},
)


def run(number: int, **fields: object) -> tuple[Body, ...]:
    name = f"run_{number}"
    ended = {"run_id": name, "passed": False, "steps": (), "reason": "tests fail", **fields}
    return VerifyStarted(run_id=name, steps=("tests",)), VerifyFinished.model_validate(ended)


def state_after(*bodies: Body) -> State:
    state = State()
    for number, body in enumerate((STARTED, *bodies), 1):
        state.apply(Event(number, "t1", "", 0, 1000.0 + number, body))
    return state


def test_every_failed_verification_is_a_run() -> None:
    state = state_after(*run(1), *run(2), *run(3))
    report = build_report(state)
    assert (report.verify_loops, report.run_ids) == (3, ("run_1", "run_2", "run_3"))
    summary = write_summary(state, "STUCK", "verify_loops", "", ())
    assert summary.splitlines()[0] == "Verification failed 3 times; the last failure: tests fail"
    page = render_markdown(report, state).splitlines()
    assert [line for line in page if line.startswith(("1. ", "2. ", "3. "))] == [
        "1. tests fail (run_1)",
        "2. the same again (run_2)",
        "3. the same again (run_3)",
    ]


def test_a_failing_test_is_named_once() -> None:
    failing = ("tests/test_a.py::test_x: ValueError: no", "tests/test_a.py::test_y")
    clause = "; the same tests failed before this task as well"
    other = {"failing": ("tests/test_a.py::test_z",), "reason": "tests fail"}
    last = {"failing": failing, "reason": f"tests fail{clause}", "clause": clause}
    state = state_after(*run(1, **other), *run(2, **last), *run(3, **last))
    told = f"tests/test_a.py::test_x: ValueError: no (and 1 more){clause}"
    summary = write_summary(state, "STUCK", "verify_loops", "", ())
    assert summary.splitlines()[0] == f"Verification failed 3 times; the last failure: {told}"
    state.status, state.reason, state.summary = "STUCK", "verify_loops", summary
    report = build_report(state)
    assert report.error == f"verify_loops: {told}"
    assert report.failures[1].model_dump(include={"reason", "sentence", "failing"}) == {
        "reason": f"tests fail{clause}",
        "sentence": told,
        "failing": failing,
    }
    page = render_markdown(report, state)
    assert page.count("test_x") == 1
    assert [line for line in page.splitlines() if line.startswith(("1. ", "2. ", "3. "))] == [
        "1. tests/test_a.py::test_z (run_1)",
        "2. the failure named above (run_2)",
        "3. the same again (run_3)",
    ]


def test_a_page_for_people_cannot_steer_their_terminal() -> None:
    state = state_after(*run(1))
    state.summary = "The model says: \x1b[2J\u202eno\x9b1m\rVerified by run_1."
    page = render_markdown(build_report(state), state)
    assert "The model says: \\x1b[2J\\u202eno\\x9b1m\\rVerified by run_1." in page


def test_a_run_that_was_cut_short_is_not_named() -> None:
    state = state_after(*run(1), VerifyStarted(run_id="run_2", steps=("tests",)))
    assert build_report(state).run_ids == ("run_1",)
    assert "run_2" not in write_summary(state, "INFRA_ERROR", "crash", "", ())


def test_a_step_that_failed_as_before_is_not_said_to_have_passed() -> None:
    steps = [
        {"name": name, "passed": name == "tests", "exit_code": 0, "timed_out": False, "seconds": 1.0}
        for name in ("lint", "tests")
    ]
    passed = run(1, passed=True, reason="", steps=steps, forgiven=("lint",), red_before=("lint",))
    end = TaskEnded(state="SUCCESS", verified=True, reason="done", summary="", files_changed=())
    state = state_after(*passed, end)
    report = build_report(state)
    assert report.red_before == ("lint",)
    assert report.warnings == ('step "lint" failed, as it did before this task',)
    page = render_markdown(report, state)
    assert "- lint: failed, as it did before this task, in 1.0 s\n- tests: passed in 1.0 s" in page


def test_of_very_many_files_the_summary_names_the_first() -> None:
    files = tuple(f"{number:03}.txt" for number in range(152))
    summary = write_summary(State(), "SUCCESS", "done", "", files)
    assert "\nChanged: 000.txt, 001.txt, " in summary
    assert "049.txt and 102 more." in summary


@pytest.mark.parametrize(
    ("corrections", "said"),
    [
        ({"text_only": 1}, None),
        ({"text_only": 2}, "The model called no tool: "),
        ({"text_only": 1, "bad_reply": 1}, "None of the model's tool calls could be run: "),
        ({"bad_reply": 2}, "None of the model's tool calls could be run: "),
    ],
)
def test_a_model_without_a_single_call_is_one_for_doctor(
    corrections: dict[str, int], said: str | None
) -> None:
    state = state_after()
    state[Calls].corrections.update(corrections)
    summary = write_summary(state, "STUCK", "stage_failed", "", ())
    hints = [line for line in summary.splitlines() if "headgate doctor" in line]
    assert hints == ([f"{said}headgate doctor shows how it can call tools."] if said else [])
