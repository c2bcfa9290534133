"""Tasks made of public collections: a program, and tests with one case for each call and its result."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

Case = tuple[str, str, str]
"""The function, what it is given (a tuple), and what it must return: source code."""
_TEST = """

@pytest.mark.parametrize(
    ("given", "expected"),
    [
{cases}
    ],
)
def test_{name}(given, expected):
    assert {name}(*given) == expected
"""
_TRY = """
def hold(place, check):
    try:
        if check():
            print("\\nholds", place, flush=True)
    except Exception:
        pass
"""


def read_case(call: ast.expr, expected: ast.expr) -> Case | None:
    """The case that a call and its result are; None if the call is of another form."""
    match call:
        case ast.Call(ast.Name(name), given, []):
            return name, ast.unparse(ast.Tuple(given, ast.Load())), ast.unparse(expected)
        case _:
            return None


def failing_cases(source: str, cases: Sequence[Case]) -> set[int]:
    """The places of the cases that do not hold for a program, or of which that was not known in time."""
    checks = (
        f"hold({place}, lambda: {name}(*{given}) == {expected})"
        for place, (name, given, expected) in enumerate(cases)
    )
    script = "\n".join([source, _TRY, *checks])
    try:
        held = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except subprocess.TimeoutExpired as late:
        held = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    lines = (line.removeprefix("holds ") for line in held.splitlines() if line.startswith("holds "))
    return set(range(len(cases))) - {int(line) for line in lines if line.isdigit()}


def write_task(folder: Path, files: dict[str, str]) -> None:
    """The files of one task."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def write_tests(module: str, cases: Iterable[Case]) -> str:
    """A file of tests: one test for each function, one case of it for each call."""
    by_name: dict[str, list[str]] = {}
    for name, given, expected in cases:
        by_name.setdefault(name, []).append(f"        ({given}, {expected}),")
    head = f"import pytest\n\nfrom {module} import {', '.join(sorted(by_name))}\n"
    tests = (_TEST.format(name=name, cases="\n".join(rows)) for name, rows in by_name.items())
    return head + "".join(tests)
