"""Tests in two parts: a run sees those of a task's `repo`, and those in `held_out` judge what passed."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from evaltasks import Task, run_check

Item = TypeVar("Item")


def deal(items: Sequence[Item], fails: Callable[[Item], bool]) -> tuple[list[Item], list[Item]]:
    """Two halves, in the order of the items; the first gets the odd ones."""
    failing = [item for item in items if fails(item)]
    passing = [item for item in items if not fails(item)]
    first = [*failing[::2], *passing[::2]]
    return [item for item in items if item in first], [item for item in items if item not in first]


def holds(task: Task, repo: Path) -> bool:
    """Whether the tests that the run did not see pass with what it left in this folder."""
    with TemporaryDirectory(prefix="headgate-eval-") as temporary:
        judged = Path(temporary) / "repo"
        shutil.copytree(repo, judged, ignore=shutil.ignore_patterns(".git", ".headgate", "__pycache__"))
        for stray in [*judged.rglob("test_*.py"), *judged.rglob("conftest.py")]:
            stray.unlink()
        shutil.copytree(task.folder / "held_out", judged, dirs_exist_ok=True)
        return run_check(judged)[0]
