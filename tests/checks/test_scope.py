"""What a diff shows before anything is verified."""

import pytest

from headgate.checks.scope import FileDiff, check_scope, check_tests, read_diff
from headgate.core.rules import Fail, Pass
from headgate.core.testfiles import is_test

DIFF = """diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@
 x
-old
+new
@@ -9 +9 @@
-  y
+y
diff --git "a/caf\\303\\251.txt" "b/caf\\303\\251.txt"
new file mode 100644
--- /dev/null
+++ "b/caf\\303\\251.txt"
@@ -0,0 +1 @@
+hello
"""


def test_a_diff_is_read() -> None:
    assert read_diff(DIFF) == [
        FileDiff("src/a.py", [(["old"], ["new"]), (["  y"], ["y"])]),
        FileDiff("café.txt", [([], ["hello"])]),
    ]
    assert read_diff("") == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("src/test_a.py", True),
        ("a_test.go", True),
        ("a.spec.ts", True),
        ("src/__tests__/a.js", True),
        ("FooTest.java", True),
        ("conftest.py", True),
        ("src/contest.py", False),
        ("src/latest.py", False),
        ("testimony.md", False),
    ],
)
def test_tests_are_known_by_their_names(path: str, expected: bool) -> None:
    assert is_test(path) == expected


CHANGE = FileDiff("src/a.py", [(["old"], ["new"])])
LAYOUT = FileDiff("src/b.py", [(["f(a,b)"], ["f(a,", "  b)"])])


@pytest.mark.parametrize(
    ("diff", "named", "verdict"),
    [
        ([CHANGE], [], Pass()),
        ([CHANGE], ["Change a.py"], Pass()),
        ([CHANGE], ["Change src/a.py", "Then rest"], Pass()),
        ([CHANGE], ["No file is named"], Pass()),
        ([CHANGE, FileDiff("tests/test_a.py", [([], ["x"])])], ["Change a.py"], Pass()),
        (
            [CHANGE, FileDiff("src/c.py", [([], ["x"])])],
            ["Change a.py"],
            Fail("diff_scope", "no step of the plan names src/c.py: is that change needed for the task?"),
        ),
        (
            [CHANGE, LAYOUT],
            [],
            Fail("diff_scope", "only white space or layout was changed in parts of src/b.py: take that back"),
        ),
    ],
)
def test_scope(diff: list[FileDiff], named: list[str], verdict: object) -> None:
    assert check_scope(diff, named) == verdict


@pytest.mark.parametrize(
    ("diff", "goal", "has_tests", "passes"),
    [
        ([CHANGE], "Change it", True, False),
        ([CHANGE], "Change it", False, True),
        ([CHANGE], "Fix the failing test", True, True),
        ([CHANGE], "Make the tests pass", True, True),
        ([CHANGE, FileDiff("tests/test_a.py")], "Change it", True, True),
        ([FileDiff("README.md")], "Change it", True, True),
        ([], "Change it", True, True),
    ],
)
def test_tests(diff: list[FileDiff], goal: str, has_tests: bool, passes: bool) -> None:
    assert isinstance(check_tests(diff, goal, has_tests), Pass) == passes
