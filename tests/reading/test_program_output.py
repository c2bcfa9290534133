"""Whether a text is what a program printed, and what of it matters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.reading import condense_output, output_kind

PYTEST = """\
============================= test session starts ==============================
collected 2 items

test_cart.py .F                                                          [100%]

=================================== FAILURES ===================================
__________________________________ test_total __________________________________

    def test_total():
>       assert total([1, 2]) == 3
E       assert 0 == 3

test_cart.py:5: AssertionError
=========================== short test summary info ============================
FAILED test_cart.py::test_total - assert 0 == 3
========================= 1 failed, 1 passed in 0.01s ==========================
"""
LOG = "2026-01-02 10:00:00 INFO start\n2026-01-02 10:00:01 INFO\nConstraints:\n2026-01-02 10:00:02 INFO x\n"


@pytest.mark.parametrize(
    "text",
    [
        PYTEST,
        "\x1b[31mFAILED\x1b[0m test_cart.py::test_total",
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no',
        "src/main.c:3:5: error: expected ';' before '}' token",
        "In file included from a.c:1:\na.h:3:1: error: unknown type name 'foo'",
        "src/a.ts(3,5): error TS2322: Type 'string' is not assignable.",
        "error[E0308]: mismatched types\n  --> src/lib.rs:2:5",
        "app/models.py:3: error: Incompatible types in assignment",
        "make: *** [Makefile:3: all] Error 1",
        "thread 'main' panicked at src/main.rs:2:5:\nboom",
        "panic: runtime error\n\ngoroutine 1 [running]:",
        "TypeError: x is not a function\n    at run (/app/src/a.js:3:7)",
        "npm ERR! Test failed.",
        "--- FAIL: TestTotal (0.00s)\n    cart_test.go:7: got 0\nFAIL\n",
        PYTEST.replace(
            "test_cart.py:5:", "-- Captured stdout call --\nConstraints:\n- x < 3\n\ntest_cart.py:5:"
        ),
        f"{LOG}2026-01-02 10:00:03 ERROR cannot solve it\n",
    ],
)
def test_output_of_what_fails(text: str) -> None:
    assert output_kind(text) == "failing"


@pytest.mark.parametrize(
    "text",
    [
        "Fix the total of the cart.",
        f"Fix this:\n{PYTEST}",
        f"Why does this fail?\n\n{PYTEST}",
        f"total() is wrong\n```\n{PYTEST}```\n",
        f"total() is wrong\nBoundaries: db/**\n\n{PYTEST}",
        f"total() is wrong\n\n{PYTEST}\nBoundaries: db/**\n",
        f"total() is wrong\n\nBoundaries:\n```\ndb/**\n```\n\n{PYTEST}",
        "Rounding: the total loses cents",
        "## Goal\nMake the tests pass",
        "",
        "\n \n",
    ],
)
def test_requests(text: str) -> None:
    assert output_kind(text) == "request"


def test_output_of_what_passes() -> None:
    assert output_kind("..\n2 passed in 0.01s\n") == "passing"
    assert output_kind("...\nRan 3 tests in 0.1s\n\nOK\n") == "passing"
    assert output_kind(LOG) == "passing"


def test_beside_words_that_ask_a_heading_makes_no_request() -> None:
    crash = "Solver 1.0\nConstraints:\n- x < 3\n\nTraceback (most recent call last):\nSolveError: no\n"
    assert [output_kind(crash), output_kind(crash, beside_words=True)] == ["request", "failing"]
    described = "Login\n\nIt must be faster.\n\nConstraints:\n- keep the tokens\n"
    assert [output_kind(described), output_kind(described, beside_words=True)] == ["request", "request"]


def test_what_failed_in_the_middle_is_kept() -> None:
    noise = [f"line {number} of what nobody reads" for number in range(200_000)]
    noise[100_000] = "E       assert 0 == 3"
    shown = condense_output("\n".join(["first", *noise, "last"]), 10_000)
    assert len(shown) <= 10_000
    assert shown.startswith("first\nline 0 ")
    assert shown.endswith("line 199999 of what nobody reads\nlast")
    assert "line 99999 of what nobody reads\nE       assert 0 == 3\nline 100001 " in shown
    assert " lines cut ...]\n" in shown


@given(st.text(alphabet=st.sampled_from("error FAIL\n\nab"), max_size=3_000), st.integers(0, 2_000))
def test_it_never_gets_longer(text: str, limit: int) -> None:
    shown = condense_output(text, limit)
    assert len(shown) <= max(limit, 0)
    assert shown == text or len(text) > limit


def test_one_endless_line_is_cut() -> None:
    shown = condense_output("x" * 1_000_000, 5_000)
    assert len(shown) <= 5_000
    assert "characters cut" in shown
