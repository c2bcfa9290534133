"""How many tests ran, and how many were left out, by what runners say at their ends."""

import pytest

from headgate.reading import count_tests


@pytest.mark.parametrize(
    ("output", "tests", "left_out"),
    [
        ("..s [100%]\n2 passed, 1 skipped in 0.01s\n", 3, 1),
        ("===== 1 failed, 2 passed, 1 xfailed, 3 deselected, 1 warning in 0.10s =====\n", 7, 4),
        ("1 skipped in 0.01s\n", 1, 1),
        ("Ran 4 tests in 0.001s\n\nOK (skipped=2, expected failures=1)\n", 4, 3),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1)\n", 4, 0),
        ("Ran 4 tests in 0.001s\n\nOK\n", 4, 0),
        ("Tests:       1 skipped, 2 passed, 3 total\n", 3, 1),
        ("      Tests  2 passed | 1 skipped (3)\n", 3, 1),
        ("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out\n", 4, 1),
        ("  5 passing (10ms)\n  1 pending\n", 6, 1),
        ("I skipped 3 skipped lines, 2 passed by\n", 0, 0),
        ("..s.x   [ 80%]\n.s      [100%]\n", 7, 3),  # pytest -qq
        ("tests/test_a.py ss   [100%]warnings.warn(", 2, 2),
        ("", 0, 0),
        ("\n" * 300_000 + "=" * 300_000, 0, 0),  # and not after minutes
    ],
)
def test_what_runners_say(output: str, tests: int, left_out: int) -> None:
    counted = count_tests(output)
    assert (counted.tests, counted.left_out) == (tests, left_out)


@pytest.mark.parametrize(
    ("output", "told_all"),
    [
        ("1 failed, 2 passed in 0.10s\n", True),
        ("!!!!!!!! stopping after 1 failures !!!!!!!!\n1 failed, 2 passed in 0.10s\n", False),
        ("!!!!!!!! Interrupted: 1 error during collection !!!!!!!!\n1 error in 0.10s\n", False),
        ("1 failed, 2 passed, 1 error in 0.10s\n", False),
        ("Ran 4 tests in 0.001s\n\nFAILED (failures=1)\n", False),
        (".F.  [100%]\nFAILED tests/test_a.py::test_a\n", True),
        (".F.  [ 60%]\n", False),
        ("1 passed in 0.01s\ntest result: ok. 3 passed; 0 failed; 1 ignored\n", False),
        ("", False),
    ],
)
def test_whether_a_runner_came_to_all_its_tests(output: str, told_all: bool) -> None:
    assert count_tests(output).told_all == told_all
