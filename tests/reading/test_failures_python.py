"""Failing tests of pytest and unittest, from what the real programs print."""

import subprocess
import sys
from pathlib import Path

import pytest

from headgate.reading import FailedTest, find_failures

BROKEN_TESTS = """\
import unittest
import pytest

def is_two(number):
    assert number == 2

def test_fine():
    print("FAILED a.py::test_b - not a failure")

def test_deep():
    is_two(1)

@pytest.mark.parametrize("value", ["x - y", "[z]"])
def test_values(value):
    raise ValueError(f"{value} is bad, said at such length that the summary cannot show it")

class TestGroup:
    def test_method(self):
        raise ValueError("bad - worse")

@pytest.fixture
def broken():
    raise RuntimeError("no fixture")

def test_with_fixture(broken):
    pass

@pytest.mark.xfail
def test_expected():
    assert False

class TestOld(unittest.TestCase):
    def test_cause(self):
        try:
            1 / 0
        except ZeroDivisionError as error:
            raise ValueError("outer") from error

def test_loud():
    print("=== hello ===")
    print("E   nothing")
    print("____ test_other ____")
    assert [] == [1]
"""
LONG = "is bad, said at such length that the summary cannot show it"
EXPECTED = [
    FailedTest("tests/test_a.py::test_deep", "tests/test_a.py:5", "assert 1 == 2"),
    FailedTest("tests/test_a.py::test_values[x - y]", "tests/test_a.py:15", f"ValueError: x - y {LONG}"),
    FailedTest("tests/test_a.py::test_values[[z]]", "tests/test_a.py:15", f"ValueError: [z] {LONG}"),
    FailedTest("tests/test_a.py::TestGroup::test_method", "tests/test_a.py:19", "ValueError: bad - worse"),
    FailedTest("tests/test_a.py::TestOld::test_cause", "tests/test_a.py:37", "ValueError: outer"),
    FailedTest("tests/test_a.py::test_loud", "tests/test_a.py:43", "assert [] == [1]"),
    FailedTest("tests/test_b.py", "tests/test_b.py:1", "ModuleNotFoundError: No module named 'nothing_here'"),
    FailedTest("tests/test_c.py", "tests/test_c.py:2", "SyntaxError: invalid syntax"),
    FailedTest("tests/test_a.py::test_with_fixture", "tests/test_a.py:23", "RuntimeError: no fixture"),
]


def run(directory: Path, *words: str) -> str:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # those of this project take longer than the tests
    done = subprocess.run(
        [sys.executable, *words],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode()


def run_pytest(directory: Path, *options: str) -> str:
    plugins = ["-p", "xdist"] if any(option.startswith("-n") for option in options) else []
    return run(directory, "-m", "pytest", "-p", "no:cacheprovider", *plugins, *options)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    tests = root / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text(BROKEN_TESTS)
    (tests / "test_b.py").write_text("import nothing_here\n")
    (tests / "test_c.py").write_text("\ndef x(:\n")
    return root


@pytest.mark.parametrize("options", ["-q", "-v --tb=short", "--color=yes -rA", "-n2"])
def test_pytest_with_its_usual_options(project: Path, options: str) -> None:
    output = run_pytest(project, "--continue-on-collection-errors", *options.split())
    found = find_failures(output, str(project))
    if options == "-n2":  # the workers are not in step
        assert sorted(found, key=str) == sorted(EXPECTED, key=str)
    else:
        ordered = EXPECTED if "-rA" not in options else [*EXPECTED[6:], *EXPECTED[:6]]
        assert list(found) == ordered


def test_pytest_without_tracebacks(project: Path) -> None:
    output = run_pytest(project, "--continue-on-collection-errors", "-q", "--tb=no")
    found = find_failures(output, str(project))
    assert [failure.name for failure in found] == [failure.name for failure in EXPECTED]
    assert found[0] == FailedTest("tests/test_a.py::test_deep", "", "assert 1 == 2")


def test_pytest_that_ends_at_the_collection(project: Path) -> None:
    assert list(find_failures(run_pytest(project, "-q"), str(project))) == EXPECTED[6:8]


@pytest.mark.parametrize("options", ["-v", "-v -n1"])
def test_pytest_that_was_stopped_before_its_summary(project: Path, options: str) -> None:
    output = run_pytest(project, "--continue-on-collection-errors", *options.split())
    unfinished = output[: output.index("= ERRORS =")]
    names = {failure.name for failure in find_failures(unfinished, str(project))}
    assert names == {failure.name for failure in EXPECTED if "::" in failure.name}


def test_pytest_that_was_told_to_give_no_summary(project: Path) -> None:
    found = find_failures(run_pytest(project, "-q", "-rN", "tests/test_a.py", "-k", "deep"), str(project))
    assert found == (FailedTest("test_deep", "tests/test_a.py:5", "assert 1 == 2"),)


def test_pytest_subtests_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "test_sub.py").write_text(
        "import unittest\n"
        "class TestIt(unittest.TestCase):\n"
        "    def test_all(self):\n"
        "        for n in range(3):\n"
        "            with self.subTest('case', n=n):\n"
        "                self.assertEqual(n, 1)\n"
    )
    found = find_failures(run_pytest(tmp_path, "-q"), str(tmp_path))
    expected = [
        (f"test_sub.py::TestIt::test_all [case] (n={n})", "test_sub.py:6", f"AssertionError: {n} != 1")
        for n in (0, 2)
    ]
    if any("[case]" in failure.name for failure in found):  # older versions report the test as a whole
        assert [(each.name, each.location, each.message) for each in found] == expected
    else:
        assert [each.name for each in found] == ["test_sub.py::TestIt::test_all"]


def test_what_passes_has_no_failures(project: Path, tmp_path: Path) -> None:
    passing = run_pytest(project, "-v", "-rA", "tests/test_a.py", "-k", "fine or expected")
    assert "1 passed" in passing
    assert find_failures(passing, str(project)) == ()
    (tmp_path / "test_good.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\n"
    )
    assert find_failures(run(tmp_path, "-m", "unittest", "-v")) == ()


UNITTESTS = '''\
import unittest

class Sums(unittest.TestCase):
    def test_sum(self):
        """Sums are right."""
        self.assertEqual([1], [2])

    def test_error(self):
        raise ValueError("boom")

    def test_many(self):
        for number in range(2):
            with self.subTest("case", number=number):
                self.assertEqual(number, 5)

    def test_fine(self):
        pass

    @unittest.expectedFailure
    def test_surprise(self):
        pass

class NoClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no class")

    def test_never(self):
        pass
'''


@pytest.mark.parametrize("options", [(), ("-v",), ("-b",)])
def test_unittest(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_sums.py").write_text(UNITTESTS)
    (tmp_path / "test_gone.py").write_text("import nothing_here\n")
    found = find_failures(run(tmp_path, "-m", "unittest", *options), str(tmp_path))
    assert sorted(found, key=str) == [
        FailedTest("test_gone", "test_gone.py:1", "ModuleNotFoundError: No module named 'nothing_here'"),
        FailedTest("test_sums.NoClass.setUpClass", "test_sums.py:26", "RuntimeError: no class"),
        FailedTest("test_sums.Sums.test_error", "test_sums.py:9", "ValueError: boom"),
        FailedTest("test_sums.Sums.test_many [case] (number=0)", "test_sums.py:14", "AssertionError: 0 != 5"),
        FailedTest("test_sums.Sums.test_many [case] (number=1)", "test_sums.py:14", "AssertionError: 1 != 5"),
        FailedTest("test_sums.Sums.test_sum", "test_sums.py:6", "AssertionError: Lists differ: [1] != [2]"),
        FailedTest("test_sums.Sums.test_surprise", "", "unexpected success"),
    ]


def test_unittest_of_older_pythons() -> None:
    rule, line = "=" * 70, "-" * 70
    output = (
        f"F\n{rule}\nFAIL: test_x (shop.tests.Prices)\n{line}\nTraceback (most recent call last):\n"
        f'  File "/repo/shop/tests.py", line 7, in test_x\n    self.assertTrue(False)\n'
        f"AssertionError: False is not true\n\n{line}\nRan 1 test in 0.001s\n\nFAILED (failures=1)\n"
    )
    expected = FailedTest("shop.tests.Prices.test_x", "shop/tests.py:7", "AssertionError: False is not true")
    assert find_failures(output, "/repo") == (expected,)


def test_unittest_that_was_stopped_before_its_summary() -> None:
    output = "test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... FAIL\ntest_c (m.T.test_c) ... "
    assert find_failures(output) == (FailedTest("m.T.test_b"),)
