"""Many changes tried with one start of the project's own pytest."""

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from repair_runs import Case, mutate_flow

from headgate.core import CandidateTried, Decision, Reply, Request
from headgate.engine.tree import TaskTree
from headgate.features.repair.quick_trials import Outcome, QuickTrials
from headgate.log import Bus, TaskLog
from headgate.run import Trials
from headgate.tree import FileChange, Snapshots

SOURCE = "def is_free(total, limit):\n    return total > limit\n"
TEST = """\
import pytest
from cart import is_free

@pytest.mark.parametrize("total", [5, 7])
def test_equal(total):
    assert is_free(total, total)

def test_below():
    assert not is_free(4, 5)

def test_above():
    assert is_free(6, 5)
"""
EQUAL = frozenset({"test_cart.py::test_equal[5]", "test_cart.py::test_equal[7]"})
PYTEST = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q -x -p no:cacheprovider"
PAIR = """\
def smaller(one, other):
    return one if one > other else other


def larger(one, other):
    return one if one < other else other
"""
PAIR_TEST = """\
import pytest
from cart import larger, smaller

@pytest.mark.parametrize(("one", "other"), [(1, 2), (4, 3)])
def test_smaller(one, other):
    assert smaller(one, other) == sorted([one, other])[0]

@pytest.mark.parametrize(("one", "other"), [(1, 2), (4, 3)])
def test_larger(one, other):
    assert larger(one, other) == sorted([one, other])[1]
"""


class Silent:
    """Is never asked."""

    name = "silent"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        raise AssertionError


def case_of(files: dict[str, str], check: str = PYTEST) -> Case:
    return Case(mutate_flow(), files, check, lambda store: Silent())


def body(text: str) -> tuple[FileChange, ...]:
    """The function with another body."""
    after = f"def is_free(total, limit):\n    {text}\n"
    return (FileChange("cart.py", SOURCE.encode(), after.encode()),)


def outcomes(
    top: Path,
    changes: list[tuple[FileChange, ...]],
    files: dict[str, str] | None = None,
    check: str = PYTEST,
    longest: float = 60.0,
) -> list[Outcome] | None:
    """What becomes of the changes; None if it does not work there."""

    async def find(case: Case) -> list[Outcome] | None:
        with case.place(top) as store:
            log = TaskLog(store, Bus(), case.task, time.time)
            tree = TaskTree(Snapshots(top / "repo"), lambda: log.state.first_hashes)
            await tree.begin()
            job = case.job(store, log, tree)
            assert job.place.verifier is not None
            quick = await QuickTrials.begin(Trials(job), job.place.verifier.steps[0], longest)
            return await replace(quick, seconds=600.0).run(changes) if quick else None

    return asyncio.run(find(case_of({"cart.py": SOURCE, "test_cart.py": TEST, **(files or {})}, check)))


def test_each_change_is_tried_alone(tmp_path: Path) -> None:
    changes = [
        body("return total >= limit"),
        body("return total < limit"),
        body("return total == 5"),
        body("return ("),
        body("__import__('os')._exit(0)"),
        body("raise SystemExit(0)"),
        body("return total >= limit"),
    ]
    found = outcomes(tmp_path, changes)
    assert found is not None
    assert [each.passed for each in found] == [True, False, False, False, False, False, True]
    assert [each.failing for each in found[:5]] == [
        frozenset(),
        EQUAL,  # nothing is fixed, so the other tests are left out
        frozenset({"test_cart.py::test_equal[7]", "test_cart.py::test_above"}),
        frozenset({"test_cart.py"}),
        None,
    ]
    assert (tmp_path / "repo" / "cart.py").read_text() == SOURCE


def test_a_change_that_does_not_end_is_killed(tmp_path: Path) -> None:
    changes = [body("while True: pass"), body("return total >= limit")]
    found = outcomes(tmp_path, changes, longest=3.0)
    assert found is not None
    assert found[0] == Outcome()
    assert found[1].passed


def test_what_conftest_imports_is_changed_as_well(tmp_path: Path) -> None:
    found = outcomes(tmp_path, [body("return total >= limit")], {"conftest.py": "import cart\n"})
    assert found == [Outcome(True, frozenset())]


@pytest.mark.parametrize(
    "check",
    [
        f"{sys.executable} -m unittest",
        f"{PYTEST} && {PYTEST}",
        f"{PYTEST}; {PYTEST}",
        f"{PYTEST} --version",
        "exit 1",
    ],
)
def test_commands_that_do_not_start_pytest_once(tmp_path: Path, check: str) -> None:
    assert not outcomes(tmp_path, [body("return total >= limit")], check=check)


def test_what_was_loaded_before_is_not_changed(tmp_path: Path) -> None:
    script = 'import cart, pytest; raise SystemExit(pytest.main(["-q"]))'
    check = f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -c '{script}'"
    assert outcomes(tmp_path, [body("return total >= limit")], check=check) == []


def kept(top: Path, case: Case) -> tuple[Decision, str, list[CandidateTried]]:
    """How a run ends, what it makes of the file, and what is on record."""
    with case.place(top) as store:
        decision = asyncio.run(case.start(store, store))
        bodies = [event.body for event in store.events("t1")]
    tried = [body for body in bodies if isinstance(body, CandidateTried)]
    return decision, (top / "repo" / "cart.py").read_text(), tried


def test_what_the_tests_claim_is_no_verdict(tmp_path: Path) -> None:
    lying = """\
import os, sys
from pathlib import Path

def pytest_sessionfinish():
    plugin = sys.modules.get("headgate_inside_pytest")
    changes = list(Path(plugin.__file__).parents[1].glob("*-0")) if plugin else []
    for file in changes:
        (file.parent / f"{file.name[:-2]}.json").write_text('{"passed": true, "failed": []}')
    if changes:
        os._exit(0)
"""
    case = case_of({"cart.py": SOURCE, "test_cart.py": TEST, "conftest.py": lying})
    decision, source, tried = kept(tmp_path, case)
    assert decision == Decision("advance", "done")
    assert source == SOURCE.replace(">", ">=")
    assert [each.verdict for each in tried] == ["passed"]


def test_two_changes_that_fix_a_part_each(tmp_path: Path) -> None:
    decision, source, tried = kept(tmp_path, case_of({"cart.py": PAIR, "test_cart.py": PAIR_TEST}))
    assert decision == Decision("advance", "done")
    assert "one if one < other else other\n\n\ndef larger" in source.replace("<=", "<")
    assert [each.origin for each in tried] == ["mutation"]
    assert ", and " in tried[0].reason
    assert tried[0].place == "cart.py:2 and cart.py:6"


def test_two_changes_that_one_test_each_speaks_for_are_not_kept(tmp_path: Path) -> None:
    few = PAIR_TEST.replace(", (4, 3)]", "]")
    decision, source, _ = kept(tmp_path, case_of({"cart.py": PAIR, "test_cart.py": few}))
    assert decision.action == "stuck"
    assert source == PAIR


def test_what_a_change_leaves_in_the_copy_does_not_reach_the_next_one(tmp_path: Path) -> None:
    spoils = body("open('left.txt', 'w'); return False")
    test = TEST + "\ndef test_clean():\n    import os\n    assert not os.path.exists('left.txt')\n"
    found = outcomes(tmp_path, [spoils, body("return total >= limit")], {"test_cart.py": test})
    assert found is not None
    assert len(found) == 1


def test_tests_that_write_beside_the_program_are_tried_in_copies_of_their_own(tmp_path: Path) -> None:
    test = TEST + "\ndef test_note():\n    open('note.txt', 'w')\n"
    assert outcomes(tmp_path, [body("return total >= limit")], {"test_cart.py": test}) is None


def test_a_change_that_skips_tests_does_not_pass(tmp_path: Path) -> None:
    test = """\
import pytest
from cart import is_free

@pytest.mark.parametrize("total", [5, 7])
def test_equal(total):
    if is_free(total, total) is None:
        pytest.skip("nothing is known")
    assert is_free(total, total) == "free"
"""
    source = "def is_free(total, limit):\n    if total == limit:\n        return False\n    return None\n"
    files = {"cart.py": source, "test_cart.py": test}
    decision, left, tried = kept(tmp_path, case_of(files, PYTEST.replace(" -x", "")))
    assert decision.action == "stuck"
    assert (left, tried) == (source, [])


@pytest.mark.parametrize("is_risky", [False, True])
def test_without_a_sandbox_nothing_is_tried_where_code_reaches_files(tmp_path: Path, is_risky: bool) -> None:
    source = "import os\n\n\n" + SOURCE + "\n\ndef forget(path):\n    os.remove(path)\n"
    source = source if is_risky else source.replace("os.remove", "os.path.basename")
    decision, left, tried = kept(tmp_path, case_of({"cart.py": source, "test_cart.py": TEST}))
    assert decision.action == ("stuck" if is_risky else "advance")
    assert (left == source, len(tried)) == (is_risky, 0 if is_risky else 1)
