"""Every evaluation task is whole: its tests fail as it stands and pass with its solution, which is small.

The same is true of its held-out tests, which a run does not see.
"""

import difflib
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

TASKS = Path(__file__).parents[2] / "eval" / "tasks"
NAMES = sorted(path.name for path in TASKS.iterdir() if path.is_dir())
LEVELS = {"easy", "medium", "hard"}
PARTS = {"task.txt", "level", "repo", "solution", "held_out"}
MOST_CHANGED_LINES = 12
FEWEST_HELD_OUT_FAILURES = 2

Outcomes = dict[str, Counter[str]]
"""How many tests of a task passed and failed."""


def python_files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))


def top_names(root: Path) -> set[str]:
    """Return the names under which the modules and packages of a repository are imported."""
    return {Path(path).parts[0].removesuffix(".py") for path in python_files(root)}


def is_test(path: str) -> bool:
    return Path(path).name.startswith("test_")


class Ran(NamedTuple):
    """What came of the tests that a run sees, and of those that judge what passed."""

    own: Outcomes
    held_out: Outcomes


def run_all(home: Path, *, solved: bool) -> Ran:
    """Run all tests of all tasks in one process; the names of their modules do not clash."""
    for name in NAMES:
        shutil.copytree(TASKS / name / "repo", home / name)
        shutil.copytree(TASKS / name / "held_out", home / name, dirs_exist_ok=True)
        if solved:
            shutil.copytree(TASKS / name / "solution", home / name, dirs_exist_ok=True)
    report = home / "report.xml"
    settings = home / "pytest.ini"
    settings.write_text("[pytest]\njunit_family = xunit1\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(settings), "-p", "no:cacheprovider", "--tb=no"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [*command, f"--junitxml={report}", *NAMES],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    ran = Ran({name: Counter() for name in NAMES}, {name: Counter() for name in NAMES})
    for case in ET.parse(report).iter("testcase"):
        name, *inside = Path(case.attrib["file"]).parts
        outcomes = ran.held_out if TASKS.joinpath(name, "held_out", *inside).exists() else ran.own
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcomes[name][kinds.pop() if kinds else "passed"] += 1
    return ran


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_all(tmp_path_factory.mktemp("broken"), solved=False)


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run_all(tmp_path_factory.mktemp("solved"), solved=True)


def test_tasks_are_numbered_without_gaps() -> None:
    assert len(NAMES) >= 26
    assert [name[:3] for name in NAMES] == [f"{number:02d}_" for number in range(1, len(NAMES) + 1)]


def test_modules_have_names_of_their_own() -> None:
    parts = [TASKS / name / part for name in NAMES for part in ("repo", "held_out")]
    count = Counter(top for part in parts for top in top_names(part))
    assert [top for top, times in count.items() if times > 1] == []
    assert set(count) & sys.stdlib_module_names == set()


def test_every_task_has_its_parts() -> None:
    for name in NAMES:
        task = TASKS / name
        assert {path.name for path in task.iterdir()} == PARTS, name
        assert (task / "task.txt").read_text(encoding="utf-8").strip(), name
        assert (task / "level").read_text(encoding="utf-8").strip() in LEVELS, name
        assert any(is_test(path) for path in python_files(task / "repo")), name
        assert all(is_test(path) for path in python_files(task / "held_out")), name


def test_every_task_fails_in_part_before_its_solution(broken: Ran) -> None:
    for name, outcome in broken.own.items():
        assert set(outcome) == {"failure", "passed"}, f"{name}: {dict(outcome)}"
        assert 1 <= outcome["failure"] <= 3, name


def test_held_out_tests_fail_in_part_before_the_solution(broken: Ran) -> None:
    for name, outcome in broken.held_out.items():
        assert set(outcome) == {"failure", "passed"}, f"{name}: {dict(outcome)}"
        assert outcome["failure"] >= FEWEST_HELD_OUT_FAILURES, name


def test_every_task_passes_with_its_solution(solved: Ran, broken: Ran) -> None:
    for now, before in zip(solved, broken, strict=True):
        assert now == {name: Counter(passed=outcome.total()) for name, outcome in before.items()}


def test_solutions_are_small_and_leave_the_tests_alone() -> None:
    for name in NAMES:
        repo, solution = TASKS / name / "repo", TASKS / name / "solution"
        changed = python_files(solution)
        assert changed, name
        assert set(changed) <= set(python_files(repo)), name
        assert not any(is_test(path) for path in changed), name
        lines = 0
        for path in changed:
            before = (repo / path).read_text(encoding="utf-8").splitlines()
            after = (solution / path).read_text(encoding="utf-8").splitlines()
            assert before != after, f"{name}: {path}"
            lines += sum(line[:2] in ("- ", "+ ") for line in difflib.ndiff(before, after))
        assert lines <= MOST_CHANGED_LINES, f"{name}: {lines} lines"
