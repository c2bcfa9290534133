"""Which sentences forbid changing the tests."""

import pytest

from headgate.guard.spared_tests import SparedTests, find_spared_tests

BINDING = """
Don't change the tests.
Do not modify the tests
dont touch tests
Don’t edit any of the existing tests!
Do not alter existing tests, please.
Never change the tests.
You must not update the unit tests.
You MUST NOT modify, delete, or skip the tests.
Please do **not** edit the test files.
Make sure not to change the tests.
Make sure that you don't touch the test suite.
Leave the tests alone.
Keep the tests as they are.
Please leave the existing tests untouched.
The tests must not be changed.
Tests should not be modified because they are right.
The tests must stay unchanged.
The existing tests stay as they are.
The tests are off limits.
No changes to the tests.
Fix add() without changing the tests.
Make it pass without touching any tests.
Fix the code instead of changing the tests.
Avoid editing the tests.
Fix the code, not the tests.
Do not change the public API or the tests.
Don't change the tests to make them pass.
Don't change the tests, but add new ones.
Don't touch anything in tests/.
Do not change `tests/`.
Don't modify the tests folder.
IMPORTANT: do not rewrite the tests
Fix it (do not change the tests).
Leave the tests in tests/ untouched.
Don't touch the files in tests/.
You are not allowed to modify any tests.
It is forbidden to edit tests.
Changing the tests is not allowed.
Do not make any changes to the tests.
Make no changes to the tests.
Fix add() without any changes to the tests.
No test changes.
I don't want you to change the tests.
Don't under any circumstances modify the tests.
The test suite is off-limits.
Hands off the tests!
Make the failing tests pass without modifying them.
Make tests/test_a.py pass without changing the tests.
Fix it w/o touching the tests.
Fix add() but don't change the tests.
Make the failing test pass and leave the tests alone, please.
Rename add() to plus() in calc.py, but please do not touch the tests.
Never edit files under tests/.
Do not modify tests/*.py.
""".strip().splitlines()
FREE = """
Update the tests.
Change the tests.
Don't forget to change the tests.
Do not hesitate to update the tests.
Don't just change the tests, change the code.
Don't change the tests folder name.
Do not change the test runner.
Do not edit the test timeout.
Why should we not change the tests?
Should we leave the tests alone?
When people do not update the tests, the build fails.
If you do not change the tests, they fail.
When people change the code and do not update the tests, the build fails.
Fix add() and do not forget to change the tests.
Add a test but do not change the test runner.
The tests are unchanged since May.
fmt does not change the tests.
Print "Don't change the tests" at the start.
Don't skip the tests.
Fix the failing tests.
The latest tests do not change anything.
Run the tests without changing the environment.
Do not change the order of linters and tests.
Don't change the contest.
Make changes to the tests.
Any changes to the tests are welcome.
You are allowed to change the tests.
Make tests/test_a.py pass.
Don't skip tests/test_a.py.
Don't touch test_mode.
Make the tests pass without changing the timeout.
""".strip().splitlines()
LOOSE = """
Don't change the tests unless you have to.
Do not modify the tests except tests/test_a.py.
Don't change the tests unnecessarily.
Don't touch the tests of the parser.
Do not edit the other tests.
Don't change the tests in tests/unit.
If possible, do not change the tests.
Fix tests/test_b.py, but don't touch tests/test_a.py.
Don't touch tests/test_a.py unless you have to.
""".strip().splitlines()


NAMED = {
    "Don't touch tests/test_a.py.": "tests/test_a.py",
    "Fix add() in calc.py, but `tests/test_a.py` must not be changed.": "tests/test_a.py",
    "Leave src/App.spec.ts alone.": "src/App.spec.ts",
}


@pytest.mark.parametrize("sentence", NAMED)
def test_a_sentence_may_close_one_test_file(sentence: str) -> None:
    assert find_spared_tests([sentence]) == SparedTests(named=(NAMED[sentence],))


@pytest.mark.parametrize("sentence", BINDING)
def test_sentences_that_bind(sentence: str) -> None:
    text = f"Make add() right. {sentence}\nThe file is calc.py."
    assert find_spared_tests([text]) == SparedTests((sentence,))


@pytest.mark.parametrize("sentence", FREE)
def test_sentences_that_say_something_else(sentence: str) -> None:
    assert find_spared_tests([f"Make add() right. {sentence}\n"]) == SparedTests()


@pytest.mark.parametrize("sentence", LOOSE)
def test_sentences_with_an_exception_are_not_enforced(sentence: str) -> None:
    assert find_spared_tests([sentence]) == SparedTests((), (sentence,))


def test_wrapped_lines_and_lists() -> None:
    text = "Fix add().\n\n- do not\n  change the tests\n- update the docs\n"
    assert find_spared_tests([text]).binding == ("do not change the tests",)
    assert find_spared_tests(["1. Don't change the tests\n2. Fix add()"]).binding == (
        "Don't change the tests",
    )


def test_what_is_quoted_binds_nobody() -> None:
    assert (
        find_spared_tests(["The bot says:\n```\nDo not change the tests.\n```\nFix that."]) == SparedTests()
    )


@pytest.mark.parametrize(
    ("item", "binds"),
    [
        ("the tests", True),
        ("changing the tests", True),
        ("Updating existing tests.", True),
        ("changes to the tests", True),
        ("test changes", True),
        ("a new test runner", False),
        ("tests of the parser", False),
        ("faster tests", False),
    ],
)
def test_what_a_list_of_what_is_forbidden_names(item: str, binds: bool) -> None:
    assert find_spared_tests((), [item]).binding == ((item,) if binds else ())
