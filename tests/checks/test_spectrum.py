"""Which lines tests run: measured with real runners over a small project."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from headgate.checks import CoverageByTest, measure_coverage
from headgate.core import VerifyStep

CART = """\
def total(prices):
    return sum(prices)


def rest(prices, paid):
    if paid > 100:
        return 0
    return total(prices) - paid
"""
PYTEST = """\
import pytest
from shop.cart import rest, total


class TestTotal:
    def test_total(self):
        assert total([1, 2]) == 3


@pytest.mark.parametrize("paid", [1, 101, 102])
def test_rest(paid):
    assert rest([200], paid) == 200 - paid
"""
UNITTEST = """\
import subprocess
import sys
import unittest
from shop.cart import rest, total


class TestTotal(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1, 2]), 3)

    def test_rest(self):
        self.assertEqual(rest([200], 101), 99)
"""
FIXTURES = """\
import subprocess
import sys
import pytest
from shop.cart import total


@pytest.fixture
def three():
    return total([1, 2])


def test_fixture(three):
    assert three == 3


def test_process():
    code = "from shop.cart import rest; print(rest([200], 101))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "0\\n"
"""
TOTAL, REST = {"shop/cart.py": frozenset({2})}, {"shop/cart.py": frozenset({6, 7})}
PAID_LITTLE = {"shop/cart.py": frozenset({2, 6, 8})}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = Path(os.path.realpath(tmp_path)) / "tree"
    (tree / "shop").mkdir(parents=True)
    (tree / "shop" / "__init__.py").write_text("")
    (tree / "shop" / "cart.py").write_text(CART)
    return tree


def run(tree: Path, *commands: str, seconds: float = 60, **environment: str) -> CoverageByTest:
    steps = [VerifyStep(name=f"s{n}", command=command, timeout=60) for n, command in enumerate(commands)]
    variables = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **environment}
    variables["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # those of this project take longer than the tests
    return asyncio.run(measure_coverage(steps, tree, tree, variables, seconds))


def of_project(spectrum: CoverageByTest) -> dict[str, dict[str, frozenset[int]]]:
    return {
        test: {path: lines for path, lines in ran.items() if not path.startswith("test_")}
        for test, ran in spectrum.tests.items()
    }


CASES = ("test_shop.py::test_rest[1]", "test_shop.py::test_rest[101]", "test_shop.py::test_rest[102]")


@pytest.mark.parametrize("options", ["", "-x", "--maxfail=1", "--exitfirst -p xdist -n 2"])
def test_with_pytest(tree: Path, options: str) -> None:
    """Each case of a parametrised test is one, and all of them run."""
    (tree / "test_shop.py").write_text(PYTEST)
    (tree / "pytest.ini").write_text("[pytest]\naddopts = -x\n")
    before = sorted(path.name for path in tree.iterdir())
    spectrum = run(tree, f"{sys.executable} -m pytest -q -p no:cacheprovider {options}")
    total = "test_shop.py::TestTotal::test_total"
    assert of_project(spectrum) == {total: TOTAL, CASES[0]: PAID_LITTLE, CASES[1]: REST, CASES[2]: REST}
    assert sorted(path.name for path in tree.iterdir()) == before
    assert spectrum.failed == set(CASES[1:])
    failed, passed = spectrum.split(["what the runner printed of it"])
    assert [set(lines["shop/cart.py"]) for lines in failed] == [{6, 7}, {6, 7}]
    assert sorted(sorted(lines["shop/cart.py"]) for lines in passed) == [[2], [2, 6, 8]]


def test_what_fixtures_and_other_processes_run_belongs_to_the_case(tree: Path) -> None:
    (tree / "test_shop.py").write_text(FIXTURES)
    spectrum = run(tree, f"{sys.executable} -m pytest -q -p no:cacheprovider", PYTHONPATH=str(tree))
    inside = {test: lines["shop/cart.py"] & {2, 6, 7} for test, lines in of_project(spectrum).items()}
    assert inside == {"test_shop.py::test_fixture": {2}, "test_shop.py::test_process": {6, 7}}


def test_with_unittest(tree: Path) -> None:
    (tree / "test_shop.py").write_text(UNITTEST)
    spectrum = run(
        tree, f"{sys.executable} -m unittest", PYTHONPATH=str(tree), PYTEST_CURRENT_TEST="of::another (call)"
    )
    names = {"test_shop.TestTotal.test_total": TOTAL, "test_shop.TestTotal.test_rest": REST}
    assert of_project(spectrum) == names
    failed, _ = spectrum.split(["test_rest (test_shop.TestTotal.test_rest)"])
    assert [set(lines["shop/cart.py"]) for lines in failed] == [{6, 7}]


def test_what_cannot_be_measured_brings_no_lines(tree: Path) -> None:
    assert run(tree).tests == {}
    assert run(tree, "false", "/nowhere/python -m pytest").tests == {}
    assert run(tree, f"{sys.executable} -E -m shop.cart").tests == {}
    assert run(tree, f"{sys.executable} -m shop.cart").tests == {}  # no test ran


def test_time_is_bounded_over_all_steps(tree: Path) -> None:
    marks = [f"echo {number} >> {tree}/ran; sleep 600" for number in range(3)]
    assert run(tree, *marks, seconds=0.3).tests == {}
    assert (tree / "ran").read_text() == "0\n"


def test_a_file_that_is_half_written_is_passed_over(tree: Path) -> None:
    (tree / "test_shop.py").write_text(UNITTEST)
    spoil = 'echo spoilt > "${COVERAGE_PROCESS_START%settings}data.spoilt"'
    spectrum = run(tree, spoil, f"{sys.executable} -m unittest")
    assert set(spectrum.tests) == {"test_shop.TestTotal.test_total", "test_shop.TestTotal.test_rest"}
