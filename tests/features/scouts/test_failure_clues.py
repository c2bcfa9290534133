"""What is found out about a failed verification: when the steps are run once more, and what that shows."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.checks import Verifier
from headgate.core import (
    Event,
    State,
    VerifyFinished,
    VerifyStep,
)
from headgate.features.scouts.build_facts import FailureClues
from headgate.features.scouts.failure_clues import FailedRun, find_clues, new_failures
from headgate.reading import FailedTest
from headgate.run import Memory
from headgate.tree import DiskWorkspace, IgnoredPaths

CART = """\
def total(prices):
    first = prices[0]
    return first


def count(prices):
    return len(prices)
"""
TESTS = """\
import unittest

import cart


class CartTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(cart.total([1, 2]), 3)

    def test_count(self):
        self.assertEqual(cart.count([1, 2]), 2)
"""
UNITTEST = "python3 -m unittest -q"
TOTAL = FailedTest("test_cart.CartTest.test_total", "test_cart.py:9", "AssertionError: 1 != 3")
COUNT = FailedTest("test_cart.CartTest.test_count", "test_cart.py:12", "AssertionError: 2 != 3")
FAILED = FailedRun("tree-1", (TOTAL,), "AssertionError: 1 != 3", 1.0)
SUSPECTS = ("cart.py:2 in total",)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = Path(os.path.realpath(tmp_path)) / "repo"
    repo.mkdir()
    (repo / "cart.py").write_text(CART)
    (repo / "test_cart.py").write_text(TESTS)
    return repo


def make_job(repo: Path, command: str = UNITTEST, **fields: Any) -> Any:
    """A job whose step notes down, beside the repository, that it runs."""
    steps = (VerifyStep(name="tests", command=f"echo ran >> {repo.parent}/count; {command}", timeout=60),)
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    place = {
        "verifier": Verifier(steps, repo, repo.parent / "runs", environment),
        "context": SimpleNamespace(workspace=DiskWorkspace(repo), protected=None),
        "proposing": fields.pop("proposing", False),
        "redact": lambda text: text,
    }
    given = {
        "place": SimpleNamespace(**place),
        "people": SimpleNamespace(pulse=fields.pop("pulse", lambda source: None)),
        "ignored": IgnoredPaths(repo),
        "state": State(),
        "request": "Repair it.",
        "memory": Memory(),
    }
    return SimpleNamespace(**{**given, **fields})


def runs(repo: Path) -> int:
    count = repo.parent / "count"
    return len(count.read_text().splitlines()) if count.exists() else 0


async def test_one_more_run_shows_suspect_lines_and_flaky_tests(repo: Path) -> None:
    failed = replace(FAILED, failures=(TOTAL, COUNT), new=(TOTAL.name, COUNT.name))
    told: list[str] = []
    found = await find_clues(make_job(repo, pulse=told.append), failed)
    assert found == FailureClues((), SUSPECTS, (COUNT.name,))
    assert (runs(repo), told) == (1, ["again"])


async def test_a_tree_is_run_once_more_and_never_again(repo: Path) -> None:
    job = make_job(repo)
    assert (await find_clues(job, FAILED, runs=False)).suspects == ()
    for _ in range(2):
        assert (await find_clues(job, FAILED)).suspects == SUSPECTS
    assert (await find_clues(job, FAILED, runs=False)).suspects == SUSPECTS
    assert runs(repo) == 1
    await find_clues(job, replace(FAILED, tree="tree-2"))
    assert runs(repo) == 2


async def test_what_shows_nothing_is_not_tried_again_either(repo: Path) -> None:
    job = make_job(repo, "sleep 60")
    for _ in range(2):
        assert await find_clues(job, replace(FAILED, new=(TOTAL.name,)), seconds=1) == FailureClues()
    assert runs(repo) == 1


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"seconds": 10.5}, {}),
        ({}, {"proposing": True}),
        ({"failures": ()}, {}),
        ({"failures": (FailedTest("TestTotal", "cart_test.go:9"),)}, {}),
        ({"failures": (FailedTest("test_cart.py", "cart.py:1", "SyntaxError"),)}, {}),
    ],
)
async def test_what_is_slow_or_dry_or_tells_nothing_is_not_run_again(
    repo: Path, changed: dict[str, Any], fields: dict[str, Any]
) -> None:
    await find_clues(make_job(repo, **fields), replace(FAILED, output="", **changed))
    assert runs(repo) == 0


async def test_tests_in_other_languages_are_run_again_to_see_whether_they_are_flaky(repo: Path) -> None:
    failed = FailedRun("tree-1", (FailedTest("TestTotal", "cart_test.go:9"),), "", 1.0, ("TestTotal",))
    found = await find_clues(make_job(repo, "test -z $COVERAGE_PROCESS_START"), failed)
    assert found == FailureClues(flaky=("TestTotal",))


async def test_a_second_run_that_fails_otherwise_does_not_show_what_is_flaky(repo: Path) -> None:
    failed = replace(FAILED, failures=(COUNT,), new=(COUNT.name,))
    assert (await find_clues(make_job(repo), failed)).flaky == ()


async def test_places_in_the_trace_come_first_and_are_told_once(repo: Path) -> None:
    lines = "".join(f'  File "{repo}/cart.py", line {line}, in count\n' for line in (7, 3))
    found = await find_clues(make_job(repo), replace(FAILED, output=lines))
    assert found == FailureClues(places=("cart.py:3", "cart.py:7"))
    many = "".join(f'  File "{repo}/cart.py", line 7{number}\n' for number in range(9))
    found = await find_clues(make_job(repo), replace(FAILED, output=many))
    assert found.places == tuple(f"cart.py:7{number}" for number in (8, 7, 6, 5, 4))
    assert found.suspects == ()


async def test_files_that_git_ignores_are_not_suspect(repo: Path) -> None:
    (repo / ".gitignore").write_text("cart.py\n")
    assert (await find_clues(make_job(repo), FAILED)).suspects == ()


@pytest.mark.parametrize(
    ("last", "red_before"),
    [
        (["test_a (a.py:3): other words", "test_b"], []),
        ([], ["test_a", "test_b"]),
        (["test_a: x"], ["test_b"]),
    ],
)
def test_what_failed_before_is_not_new(last: list[str], red_before: list[str]) -> None:
    state = State()
    verify = {"passed": False, "steps": (), "run_id": "run_1", "failing": tuple(last)}
    state.apply(Event(1, "t1", "", 0, 0.0, VerifyFinished.model_validate(verify)))
    job: Any = SimpleNamespace(state=state, place=SimpleNamespace(redact=lambda text: text))
    failures = (FailedTest("test_a", "a.py:9", "boom"), FailedTest("test_b", "", ""))
    assert new_failures(job, failures, red_before) == ()
    assert new_failures(job, [FailedTest("test_c")], red_before) == ("test_c",)
