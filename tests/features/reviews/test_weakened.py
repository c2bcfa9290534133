"""Which diffs take something away from the tests."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Fail, Pass
from headgate.features.reviews.weakened import check_weakened
from headgate.tree import Snapshots

PY = """import pytest
from calc import add


def test_add():
    assert add(1, 2) == 3
    assert add(2, 2) == 4


def test_zero():
    assert add(0, 0) == 0


class TestMore:
    def test_negative(self):
        self.assertEqual(add(-1, -1), -2)
"""
JS = """describe('sum', () => {
  it('adds', () => {
    expect(sum(1, 2)).toBe(3);
  });
  it('is zero', () => {
    expect(sum(0, 0)).toBe(0);
  });
});
"""
GO = """package calc

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Fatal("no")
	}
}
"""
RUST = """pub fn add() {}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }
    #[test]
    fn zero() {
        assert_eq!(add(0, 0), 0);
    }
}
"""
JAVA = """class CalcTest {
    @Test
    void adds() {
        assertEquals(3, add(1, 2));
    }
}
"""
START = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "tests/test_calc.py": PY,
    "sum.test.js": JS,
    "calc_test.go": GO,
    "src/lib.rs": RUST,
    "CalcTest.java": JAVA,
    "pytest.ini": "[pytest]\ntestpaths = tests\n",
    "tests/data.json": "{}\n",
}
GOAL = "Make add add."


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name, text in START.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def diff_of(repo: Path, changes: dict[str, str | None]) -> str:
    """The diff that git makes of the changes; None deletes."""
    snapshots = Snapshots(repo)
    before = snapshots.take()
    for name, text in changes.items():
        (repo / name).parent.mkdir(exist_ok=True, parents=True)
        if text is None:
            (repo / name).unlink()
        else:
            (repo / name).write_text(text)
    return snapshots.diff(before, snapshots.take())


def edit(path: str, *edits: tuple[str, str]) -> dict[str, str | None]:
    text = START[path]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return {path: text}


CALC = edit("calc.py", ("a - b", "a + b"))
TESTS = "tests/test_calc.py"
ZERO = "def test_zero():\n    assert add(0, 0) == 0\n\n\n"
WEAKER = [
    (edit(TESTS, (ZERO, "")), "tests/test_calc.py: test_zero removed"),
    ({TESTS: None}, "tests/test_calc.py deleted"),
    ({"calc_test.go": None}, "calc_test.go deleted"),
    (edit(TESTS, ("def test_zero", "@pytest.mark.skip\ndef test_zero")), f"{TESTS}: test_zero skipped"),
    (
        edit(TESTS, ("def test_zero", "@pytest.mark.xfail(reason='x')\ndef test_zero")),
        f"{TESTS}: test_zero skipped",
    ),
    (
        edit(TESTS, ("    assert add(0, 0)", "    pytest.skip()\n    assert add(0, 0)")),
        f"{TESTS}: test_zero skipped",
    ),
    (edit(TESTS, ("class TestMore:", "class TestMore:\n    __test__ = False\n")), f"{TESTS}: a test skipped"),
    (edit(TESTS, ("    assert add(2, 2) == 4\n", "")), f"{TESTS}: an assertion removed"),
    (edit(TESTS, ("    assert add(0, 0)", "    # assert add(0, 0)")), f"{TESTS}: an assertion removed"),
    (
        edit(TESTS, ("assert add(0, 0) == 0", "assert True")),
        f"{TESTS}: an assertion replaced by one that always holds",
    ),
    (
        edit(TESTS, ("assert add(0, 0) == 0", "assert add(0, 0) == 0 or True")),
        f"{TESTS}: an assertion replaced by one that always holds",
    ),
    (
        edit(TESTS, ("assert add(0, 0) == 0", "assert add(0, 0) is not None")),
        f"{TESTS}: an exact assertion replaced by a weaker one",
    ),
    (
        edit(TESTS, ("self.assertEqual(add(-1, -1), -2)", "self.assertTrue(add(-1, -1))")),
        f"{TESTS}: an exact assertion replaced by a weaker one",
    ),
    (edit("sum.test.js", ("it('is zero'", "it.skip('is zero'")), "sum.test.js: is zero skipped"),
    (edit("sum.test.js", ("it('is zero'", "xit('is zero'")), "sum.test.js: is zero skipped"),
    (edit("sum.test.js", ("describe('sum'", "describe.skip('sum'")), "sum.test.js: a test skipped"),
    (edit("sum.test.js", ("it('adds'", "it.only('adds'")), "sum.test.js: adds skipped"),
    (
        edit("sum.test.js", ("expect(sum(0, 0)).toBe(0)", "expect(sum(0, 0)).toBeDefined()")),
        "sum.test.js: an exact assertion replaced by a weaker one",
    ),
    (edit("calc_test.go", ("{\n\tif", '{\n\tt.Skip("later")\n\tif')), "calc_test.go: TestAdd skipped"),
    (
        edit("src/lib.rs", ("    #[test]\n    fn zero", "    #[test]\n    #[ignore]\n    fn zero")),
        "src/lib.rs: zero skipped",
    ),
    (
        edit("src/lib.rs", ("    #[test]\n    fn zero() {\n        assert_eq!(add(0, 0), 0);\n    }\n", "")),
        "src/lib.rs: zero removed",
    ),
    (edit("CalcTest.java", ("    @Test", "    @Disabled\n    @Test")), "CalcTest.java: adds skipped"),
    (edit("pytest.ini", ("tests\n", "tests\naddopts = --ignore=tests\n")), "pytest.ini: --ignore added"),
    ({"conftest.py": "collect_ignore = ['tests']\n"}, "conftest.py: collect_ignore added"),
    ({"package.json": '{"scripts": {"test": "exit 0"}}\n'}, 'package.json: "test": "exit 0 added'),
]


@pytest.mark.parametrize(("changes", "found"), WEAKER, ids=[found for _, found in WEAKER])
def test_weaker(repo: Path, changes: dict[str, str | None], found: str) -> None:
    verdict = check_weakened(diff_of(repo, {**CALC, **changes}), GOAL)
    assert verdict == Fail(
        "tests_weakened", f"tests were weakened ({found}): restore them, or say why the change is right"
    )
    assert check_weakened(diff_of(repo, {}), GOAL) == Pass()


NEW_TEST = "\n\n@pytest.mark.skipif(True, reason='x')\ndef test_new():\n    assert add(1, 1) == 2\n"
NOT_WEAKER: list[dict[str, str | None]] = [
    CALC,
    edit(TESTS, ("test_zero", "test_nothing_and_nothing")),
    edit(TESTS, (ZERO, "")) | {"tests/test_zero.py": f"from calc import add\n\n\n{ZERO}"},
    {TESTS: None, "tests/unit/test_sums.py": PY},
    {TESTS: None, "tests/unit/test_sums.py": PY.replace("add(0, 0) == 0", "add(0, 0) == 0.0")},
    edit(TESTS, ("add(0, 0) == 0", "add(0, 1) == 1")),
    edit(TESTS, ("assert add(0, 0) == 0", "assert add(0, 0) == 0, 'zero'")),
    edit(TESTS, ("    assert add(1, 2) == 3\n", "    assert add(1, 2) == 3\n    assert add(3, 3)\n")),
    {TESTS: PY + NEW_TEST},
    {"tests/test_new.py": "import pytest\n\n\n@pytest.mark.skip\ndef test_x():\n    assert True\n"},
    edit(
        TESTS,
        (
            "    assert add(1, 2) == 3\n    assert add(2, 2) == 4\n",
            "    check(3)\n    assert add(2, 2) == 4\n",
        ),
    )
    | {"tests/helping.py": "def check(value):\n    assert add(1, 2) == 3\n"},
    edit(
        TESTS,
        (
            "def test_add():\n    assert add(1, 2) == 3\n    assert add(2, 2) == 4\n\n\n" + ZERO,
            "@pytest.mark.parametrize('a', [1, 2])\ndef test_sums(a):\n    assert add(a, 0) == a\n\n\n",
        ),
    ),
    edit("sum.test.js", ("it('is zero'", "it('gives zero'")),
    {"tests/data.json": None},
    {"docs.md": "Use `pytest.skip()` and --ignore.\n"},
    edit("calc.py", ("return a - b", "assert a\n    return a + b")),
    edit("pytest.ini", ("tests\n", "tests\naddopts = -q\n")),
]


@pytest.mark.parametrize("changes", NOT_WEAKER)
def test_not_weaker(repo: Path, changes: dict[str, str | None]) -> None:
    assert check_weakened(diff_of(repo, {**CALC, **changes}), GOAL) == Pass()


def test_expectations_that_were_made_to_fit(repo: Path) -> None:
    diff = diff_of(repo, edit(TESTS, ("add(1, 2) == 3", "add(1, 2) == -1")))
    fitted = f"{TESTS}: only expected values changed, and no code"
    assert check_weakened(diff, GOAL) == Fail(
        "tests_weakened", f"tests were weakened ({fitted}): restore them, or say why the change is right"
    )
    assert check_weakened(diff, "Correct the expected value of the first test.") == Pass()


@pytest.mark.parametrize("goal", ["Remove the obsolete tests of add.", "Skip the flaky test on Windows"])
def test_what_was_asked_for(repo: Path, goal: str) -> None:
    assert check_weakened(diff_of(repo, {TESTS: None}), goal) == Pass()


def test_many_findings_are_cut(repo: Path) -> None:
    many = {f"tests/test_{name}.py": f"def test_{name}():\n    assert {name} == 1\n" for name in "abcdefg"}
    diff_of(repo, dict(many))
    verdict = check_weakened(diff_of(repo, dict.fromkeys(many)), GOAL)
    assert isinstance(verdict, Fail)
    assert verdict.reason.count(";") == 5
    assert "; and 2 more)" in verdict.reason


@given(st.text(alphabet="+- @\nabtes#.()'/\"\\", max_size=200))
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(
        check_weakened(f"diff --git a/test_a.py b/test_a.py\n@@ -1 +1 @@\n{text}", GOAL), Pass | Fail
    )


@given(st.permutations(PY.split("\n\n\n")))
def test_an_order_of_tests_is_as_good_as_another(parts: list[str]) -> None:
    old, new = PY.splitlines(), "\n\n\n".join(parts).splitlines()
    lines = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    diff = "\n".join([f"diff --git a/{TESTS} b/{TESTS}", "@@ -1 +1 @@", *lines])
    assert check_weakened(diff, GOAL) == Pass()
