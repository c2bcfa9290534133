"""Makes tasks of the Python part of HumanEvalFix: a folder that `eval/run.py --tasks-from` runs.

    python eval/humanevalfix.py humanevalpack.jsonl FOLDER

The file is in the repository bigcode-project/octopack, below evaluation/create. Every assertion becomes a
case of a test. The cases are dealt out to the tests that a run sees and to those that judge what passed:
those that fail and those that pass take turns. Of the tasks that can be dealt out, every third is for tables
(`table`), and the others are for trying things out (`trial`).
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from halves import deal

_TEST = """import pytest

from {name} import {name}


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
            print(place, flush=True)
    except Exception:
        pass
"""
Case = tuple[str, str]
"""What the function is given, and what it must return."""


def main() -> None:
    """Writes a folder for every task that fits."""
    file, folder = Path(sys.argv[1]), Path(sys.argv[2])
    fitting = [row for row in map(json.loads, file.read_text("utf-8").splitlines()) if cases_of(row)]
    for place, (row, seen, judging) in enumerate(split_rows(fitting)):
        part = "trial" if place % 3 else "table"
        write_task(
            folder / part / f"{row['task_id'].rpartition('/')[2]:0>3}_{row['entry_point']}",
            row,
            seen,
            judging,
        )


def cases_of(row: dict[str, Any]) -> list[Case]:
    """What the function is given and what it must return, in each assertion; nothing if one is different."""
    check = next(node for node in ast.parse(row["test"]).body if isinstance(node, ast.FunctionDef))
    found: list[Case] = []
    for statement in check.body:
        match statement:
            case ast.Assert(test=ast.Constant()):
                continue
            case ast.Assert(ast.Compare(ast.Call(ast.Name(), given, []), [ast.Eq()], [expected])):
                found.append((ast.unparse(ast.Tuple(given, ast.Load())), ast.unparse(expected)))
            case _:
                return []
    return found if len(found) >= 4 and len(set(found)) == len(found) else []


def split_rows(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[Case], list[Case]]]:
    """Each task with its two halves of cases: in both, at least one fails."""
    for row in rows:
        cases = cases_of(row)
        checks = [f"{row['entry_point']}(*{given}) == {expected}" for given, expected in cases]
        failing = fail(row["declaration"] + row["buggy_solution"], checks)
        if len(failing) > 1 and not fail(row["declaration"] + row["canonical_solution"], checks):
            seen, judging = deal(range(len(cases)), failing.__contains__)
            yield row, [cases[place] for place in seen], [cases[place] for place in judging]


def fail(source: str, checks: list[str]) -> set[int]:
    """The places of the checks that do not hold, or of which that was not known in time."""
    script = [source, _TRY, *(f"hold({place}, lambda: {check})" for place, check in enumerate(checks))]
    try:
        ran = subprocess.run(
            [sys.executable, "-c", "\n".join(script)], capture_output=True, text=True, timeout=20, check=False
        )
        held = ran.stdout
    except subprocess.TimeoutExpired as late:
        held = (late.stdout or b"").decode() if isinstance(late.stdout, bytes | None) else late.stdout
    return set(range(len(checks))) - {int(line) for line in held.splitlines() if line.isdigit()}


def write_task(folder: Path, row: dict[str, Any], seen: list[Case], judging: list[Case]) -> None:
    """The files of one task."""
    name = row["entry_point"]
    files = {
        "task.txt": f"The tests of {name} fail. Find the bug in {name}.py and fix it.\n",
        "level": f"{row['bug_type']}\n",
        f"repo/{name}.py": row["prompt"] + row["buggy_solution"],
        f"solution/{name}.py": row["prompt"] + row["canonical_solution"],
        f"repo/test_{name}.py": _test(name, seen),
        f"held_out/test_{name}.py": _test(name, judging),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def _test(name: str, cases: list[Case]) -> str:
    return _TEST.format(
        name=name, cases="\n".join(f"        ({given}, {expected})," for given, expected in cases)
    )


if __name__ == "__main__":
    main()
