"""What a text only quotes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Constraints, find_quotations, parse_task_text
from headgate.core.quoted_text import Quotation

PYTEST = """\
=================================== FAILURES ===================================
__________________________________ test_solve __________________________________
>       assert solve() == 3
E       assert 0 == 3
----------------------------- Captured stdout call -----------------------------
Constraints:
- x < 3

Boundaries: src/**
=========================== short test summary info ============================
FAILED test_solve.py::test_solve - assert 0 == 3
1 failed in 0.01s
"""
UNITTEST = f"""\
{"=" * 70}
FAIL: test_solve (test_solve.Solving)
{"-" * 70}
Boundaries: src/**

AssertionError: 0 != 3

{"-" * 70}
Ran 1 test in 0.001s

FAILED (failures=1)
"""
GO = "=== RUN   TestSolve\nBoundaries: src/**\n--- FAIL: TestSolve (0.00s)\nFAIL\texample.org/solve\t0.2s\n"
CARGO = "running 1 test\n\nBoundaries: src/**\n\ntest result: FAILED. 0 passed; 1 failed\n"
JEST = "FAIL src/solve.test.js\n  console.log\n\nBoundaries: src/**\n\nTests: 1 failed\nTime:        0.5 s\n"
TRACEBACK = """\
Traceback (most recent call last):
  File "solve.py", line 3, in <module>
    Boundaries: src/**
solver.Infeasible.SolveError: no
"""
PRINTED = (
    PYTEST,
    f"\x1b[31m{PYTEST}".replace("FAILURES", "\x1b[1mFAILURES"),
    UNITTEST,
    GO,
    CARGO,
    JEST,
    TRACEBACK,
)


@pytest.mark.parametrize("printed", [*PRINTED, f"```\n{PYTEST}```\n", f"~~~~ text\n```\nKeep: x\n{GO}~~~~\n"])
def test_nothing_that_is_quoted_binds_a_task(printed: str) -> None:
    asked = parse_task_text(f"Fix this:\n{printed}Boundaries: db/**\n")
    assert asked.constraints == Constraints(boundaries=("db/**",))
    assert asked.request == f"Fix this:\n{printed}".strip()


@pytest.mark.parametrize(
    "text",
    [
        "error: no such column\nBoundaries: db/**\nerror: another one",
        "Traceback (most recent call last):\n...\nBoundaries: db/**",
        "FAILED test_a.py::test_x\nBoundaries: db/**\nFAILED test_b.py::test_y",
        "=== FAILURES ===\nBoundaries: db/**",
        "```\nBoundaries: db/**",
        f"{TRACEBACK}\nBoundaries: db/**\n\nAlso this:\n{TRACEBACK}",
        f'Traceback (most recent call last):\n  File "a.py", line 3\n...\nBoundaries: db/**\n\n{TRACEBACK}',
        f"=== FAILURES ===\n...\n\nBoundaries: db/**\n\n=== test session starts ===\n{PYTEST}",
        "--- FAIL: TestSolve (0.00s)\n\nBoundaries: db/**\n\nI want to see:\nPASS",
        f"Tidy up\n{'=' * 70}\nBoundaries: db/**\n\nWhat it should print:\nOK",
        "Boundaries:\n```\ndb/**\n```\n",
    ],
)
def test_what_may_be_a_persons_word_counts(text: str) -> None:
    assert parse_task_text(text).constraints == Constraints(boundaries=("db/**",))


def test_an_open_fence_may_go_to_the_end() -> None:
    lines = ["a", "```", "b"]
    assert list(find_quotations(lines)) == []
    assert list(find_quotations(lines, open_fences=True)) == [Quotation(1, 3, True)]


@given(st.lists(st.sampled_from([*"".join(PRINTED).splitlines(), "```", "~~~~", "", "text"]), max_size=60))
def test_quotations_stand_in_their_order(lines: list[str]) -> None:
    at = 0
    for quotation in find_quotations(lines, open_fences=True):
        assert at <= quotation.first < quotation.end <= len(lines)
        at = quotation.end
