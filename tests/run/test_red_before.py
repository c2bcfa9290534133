"""A failed step beside the same step at the task's start."""

import pytest

from headgate.core import (
    BaselineVerified,
    Body,
    CheckFinished,
    Event,
    State,
    StepResult,
    VerifyFinished,
    VerifyRuns,
    VerifyStarted,
)
from headgate.run.red_before import Comparison, compare, line_marks

STEP = StepResult(name="tests", passed=False, exit_code=1, timed_out=False, seconds=1)
SAME_TESTS = "; the same tests failed before this task as well"
SAME_WAY = "; it failed before this task as well, in the same way"


def start(*names: str, output: str = "", code: int = 1, step: str = "tests") -> BaselineVerified:
    return BaselineVerified(
        steps=(step,), failed=step, exit_code=code, failing=names, lines=line_marks(output, "/copy/repo")
    )


@pytest.mark.parametrize(
    ("names", "complete", "at_start", "expected"),
    [
        (("a", "b"), True, start("a", "b"), Comparison(("a", "b"), True, SAME_TESTS)),
        (("a",), True, start("a", "b"), Comparison(("a",), True, SAME_TESTS)),
        (
            ("a", "b"),
            True,
            start("a"),
            Comparison(("a",), clause="; of these tests, a failed before this task as well"),
        ),
        (("b",), True, start("a"), Comparison()),
        (("a",), True, start("a", step="lint"), Comparison()),
        (("a",), True, BaselineVerified(steps=("tests",)), Comparison()),
        (("a",), True, BaselineVerified(steps=("tests",), problem="too large"), Comparison()),
        # Of very many only the first are known: then the whole output decides.
        (("a",), False, start("a", output="line"), Comparison(("a",), True, SAME_WAY)),
        (("a",), False, start("a", output="other"), Comparison()),
    ],
)
def test_tests_that_failed_before(
    names: tuple[str, ...], complete: bool, at_start: BaselineVerified, expected: Comparison
) -> None:
    assert compare(STEP, names, line_marks("line", "/repo"), complete, at_start) == expected


@pytest.mark.parametrize(
    ("now", "before", "same"),
    [
        ("/repo/a.py:12:5: F401\nFound 1 error.", "/copy/repo/a.py:3:1: F401\nFound 1 error.", True),
        ("a.py:3: F401", "a.py:3: F401\nb.py:1: E501", True),
        ("a.py:3: F401\na.py:9: F401", "a.py:3: F401", False),
        ("a.py:3: F401\nb.py:1: E501", "a.py:3: F401", False),
        ("Ran in 0.12s at 12:30:01 <x at 0x7f01>", "Ran in 3.5s at 09:01:59 <x at 0x80ff>", True),
        (" 12 | import os\n", " 3 | import os\n", True),
        ("n is 3", "n is 2", False),
        ("", "", True),
    ],
)
def test_output_that_was_the_same(now: str, before: str, same: bool) -> None:
    found = compare(STEP, (), line_marks(now, "/repo"), True, start(output=before))
    assert found == (Comparison(("tests",), True, SAME_WAY) if same else Comparison())


def test_another_exit_code_is_another_failure() -> None:
    assert compare(STEP, (), (), True, start(code=2)) == Comparison()


def finished(run_id: str, **fields: object) -> VerifyFinished:
    return VerifyFinished.model_validate({"run_id": run_id, "passed": False, "steps": (), **fields})


def happen(state: State, body: Body) -> None:
    state.apply(Event(state.last_seq + 1, "t1", "", 0, 1.0, body))


def test_only_runs_that_ended_have_a_log() -> None:
    state = State()
    record = state[VerifyRuns]
    for body in (
        VerifyStarted(run_id="cut_short", steps=("tests",)),
        VerifyStarted(run_id="ended", steps=("tests",)),
        finished("ended"),
        VerifyStarted(run_id="broken", steps=("tests",)),
        CheckFinished(check="verify", verdict="broken", reason="no shell"),
    ):
        happen(state, body)
    assert record.whole_runs == ("ended", "broken")


def test_what_was_red_and_is_green() -> None:
    state = State()
    record = state[VerifyRuns]
    assert (record.was_red(), record.was_green(["tests"])) == (False, False)
    happen(state, BaselineVerified(steps=("lint", "tests")))
    assert (record.was_red(), record.was_green(["tests"]), record.was_green(["other"])) == (
        False,
        True,
        False,
    )
    happen(state, start("a", "b"))
    happen(state, finished("run", passed=True, forgiven=("tests",), red_before=("a", "b")))
    assert (record.was_red(), tuple(record.warnings(state))) == (
        False,
        ('step "tests" failed, as it did before this task',),
    )
    happen(state, finished("run", passed=True, forgiven=("tests",), red_before=("a",)))
    assert record.was_red()  # b was red, and is green
    happen(state, finished("run", passed=True))
    assert (record.was_red(), tuple(record.warnings(state))) == (True, ())
