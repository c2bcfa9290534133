"""What a diff shows: does it stay with the task, and does it have a test?"""

import difflib

import pytest

from headgate.core import Fail, Pass
from headgate.features.reviews.scope import check_scope, check_tests
from headgate.reading import TaskDiff, is_test, read_git_diff

DIFF = """diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@
 x
-old
+new
@@ -9 +10 @@
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
    found = [
        (file.path, hunk.place and hunk.place.new_start, [sign + text for sign, text in hunk.lines])
        for file in read_git_diff(DIFF)
        for hunk in file.hunks
    ]
    assert found == [
        ("src/a.py", 1, [" x", "-old", "+new"]),
        ("src/a.py", 10, ["-  y", "+y"]),
        ("café.txt", 1, ["+hello"]),
    ]
    assert list(read_git_diff("")) == []


def task_diff(known: tuple[str, ...] = (), **files: tuple[str, str]) -> TaskDiff:
    """A diff of files given by name with `__` for a slash and `_` before the suffix: before and after."""
    versions = {
        name.replace("__", "/").rpartition("_")[0] + "." + name.rpartition("_")[2]: sides
        for name, sides in files.items()
    }
    text = ""
    for path, (before, after) in versions.items():
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
        text += f"diff --git a/{path} b/{path}\n"
        text += "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))
    return TaskDiff(text, versions, frozenset({*known, *versions}))


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


CHANGE = ("x = 1\n", "x = 2\n")
FAR = "".join(f"x{n} = {n}\n" for n in range(20))
LOOP = "def f(xs):\n    s = 0\n    for x in xs:\n        s += x\n        return s\n"


def laid_out(*paths: str) -> Fail:
    listed = ", ".join(paths)
    return Fail("diff_scope", f"parts of {listed} changed only in whitespace or layout: undo that")


def stray(path: str) -> Fail:
    return Fail("diff_scope", f"no step of the plan names {path}: undo that change unless the task needs it")


@pytest.mark.parametrize(
    ("diff", "verdict"),
    [
        (task_diff(src__b_py=("f(a,b)\n", "f(a,\n  b)\n")), laid_out("src/b.py")),
        (task_diff(a_py=(f"x=0\n{FAR}y = 1\n", f"x = 0\n{FAR}y = 2\n")), laid_out("a.py")),
        (task_diff(a_js=(f"  f()\n{FAR}y = 1\n", f"f()\n{FAR}y = 2\n")), laid_out("a.js")),
        # What real fixes are made of.
        (task_diff(a_py=(LOOP, LOOP.replace("        return s", "    return s"))), Pass()),
        (task_diff(a_py=("a()\nb()\n", "b()\na()\n")), Pass()),
        (task_diff(a_py=("print('a  b')\n", "print('a b')\n")), Pass()),
        (task_diff(a_yaml=("a:\n  b: 1\n", "a:\nb: 1\n")), Pass()),
        (task_diff(a_py=("if x:\n    a()\n", "if x:\n    a()\n    b()\n")), Pass()),
        (task_diff(a_py=("a()\n", "if x:\n    a()\n")), Pass()),
        (task_diff(a_py=("x = 1\n", "x = 1  # noqa\n")), Pass()),
    ],
)
def test_layout(diff: TaskDiff, verdict: object) -> None:
    assert check_scope(diff, []) == verdict


KNOWN = ("src/a.py", "src/c.py", "math/log.py", "tests/test_a.py", "lib/deep/c.py")


@pytest.mark.parametrize(
    ("named", "verdict"),
    [
        ([], Pass()),
        (["Change src/c.py"], Pass()),
        (["Change c.py", "Then rest"], Pass()),
        (["Change ./src/c.py."], Pass()),
        (["Change project/src/c.py"], Pass()),
        (["Change the wrong/place/c.py"], Pass()),
        (["No file is named"], Pass()),
        (["Change a.py"], stray("src/c.py")),
        (["Change a.py", "and lib/deep/c.py"], stray("src/c.py")),
        # Words with a dot in them that are no files.
        (["Use math.log, e.g. for version 1.0, and self.value; see www.example.org and node.js"], Pass()),
        (["Create src/new.py"], Pass()),
        # The failing test says nothing about where the fault is.
        (["Make tests/test_a.py pass"], Pass()),
        (["Make tests/test_a.py pass, in a.py"], stray("src/c.py")),
    ],
)
def test_files_that_are_named(named: list[str], verdict: object) -> None:
    assert check_scope(task_diff(KNOWN, src__c_py=CHANGE), named) == verdict


def test_a_file_that_is_about_to_be_there_is_one() -> None:
    diff = task_diff(KNOWN, src__c_py=CHANGE, src__new_py=("", "x = 1\n"))
    assert check_scope(diff, ["Create src/new.py"]) == stray("src/c.py")


def test_what_a_verification_run_made_is_not_the_task_s() -> None:
    diff = task_diff(KNOWN, src__a_py=CHANGE, made_py=("", "x\n"))
    found = TaskDiff(diff.text, diff.versions, diff.known, frozenset({"made.py"}))
    assert check_scope(found, ["Change a.py"]) == Pass()


@pytest.mark.parametrize(
    ("diff", "goal", "passes"),
    [
        (task_diff(KNOWN, src__a_py=CHANGE), "Change it", False),
        (task_diff(("src/b.py",), src__a_py=CHANGE), "Change it", True),
        (task_diff(KNOWN, src__a_py=CHANGE), "Fix the failing test", True),
        (task_diff(KNOWN, src__a_py=CHANGE), "Make the tests pass", True),
        (task_diff(KNOWN, src__a_py=CHANGE, tests__test_a_py=CHANGE), "Change it", True),
        (task_diff(KNOWN, README_md=CHANGE), "Change it", True),
        (task_diff(KNOWN), "Change it", True),
    ],
)
def test_tests(diff: TaskDiff, goal: str, passes: bool) -> None:
    assert isinstance(check_tests(diff, goal), Pass) == passes
