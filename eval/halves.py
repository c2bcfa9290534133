"""The tests of a task, dealt out in two: a run sees one half, and the other judges what passed.

A task from elsewhere may bring its own second half, in the folder `held_out`. The project's own tasks are
divided by test functions: those that fail and those that pass are dealt out in turn, so that both halves have
some of each where there are two.
"""

import ast
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeGuard, TypeVar

from evaltasks import Task, run_check

Item = TypeVar("Item")
_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+?::(\w+)", re.MULTILINE)


def deal(items: Sequence[Item], fails: Callable[[Item], bool]) -> tuple[list[Item], list[Item]]:
    """Two halves, in the order of the items; the first gets the odd ones."""
    failing = [item for item in items if fails(item)]
    passing = [item for item in items if not fails(item)]
    first = [*failing[::2], *passing[::2]]
    return [item for item in items if item in first], [item for item in items if item not in first]


@contextmanager
def seen_half(task: Task) -> Iterator[Task]:
    """The task with the tests that a run may see, in a folder that is gone with the block."""
    with TemporaryDirectory(prefix="headgate-eval-") as temporary:
        folder = Path(temporary) / task.name
        shutil.copytree(task.folder, folder)
        if not (folder / "held_out").exists():
            divide(folder)
        yield Task(folder)


def divide(folder: Path) -> None:
    """Leaves half of a task's test functions where they are, and moves the others to `held_out`."""
    failing = set(_FAILED.findall(run_check(folder / "repo")[1]))
    for file in (folder / "repo").rglob("test_*.py"):
        seen, judging = deal(tests_in(file.read_text("utf-8")), failing.__contains__)
        source = file.read_text("utf-8")
        held_out = folder / "held_out" / file.relative_to(folder / "repo")
        held_out.parent.mkdir(parents=True, exist_ok=True)
        held_out.write_text(without(source, seen), encoding="utf-8")
        file.write_text(without(source, judging), encoding="utf-8")


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def tests_in(source: str) -> list[str]:
    """The test functions of a file."""
    return [node.name for node in ast.parse(source).body if _is_test(node)]


def without(source: str, names: Collection[str]) -> str:
    """The file without some of its test functions."""
    lines = source.splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        if _is_test(node) and node.name in names:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            del lines[first - 1 : node.end_lineno]
    return "".join(lines)


def holds(task: Task, repo: Path) -> bool:
    """Whether the tests that the run did not see pass with what it left in this folder."""
    with TemporaryDirectory(prefix="headgate-eval-") as temporary:
        judged = Path(temporary) / "repo"
        shutil.copytree(repo, judged, ignore=shutil.ignore_patterns(".git", ".headgate", "__pycache__"))
        for stray in [*judged.rglob("test_*.py"), *judged.rglob("conftest.py")]:
            stray.unlink()
        shutil.copytree(task.folder / "held_out", judged, dirs_exist_ok=True)
        return run_check(judged)[0]
