"""Makes tasks of the Python part of HumanEvalFix: a folder that `eval/run.py --tasks-from` runs.

    python eval/humanevalfix.py humanevalpack.jsonl FOLDER

The file is in the repository bigcode-project/octopack, below evaluation/create. Every assertion becomes a
case of a test. The cases are dealt out to the tests that a run sees and to those that judge what passed:
those that fail and those that pass take turns. Of the tasks that can be dealt out, every third is for tables
(`table`), and the others are for trying things out (`trial`).
"""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from case_tests import Case, failing_cases, read_case, write_task, write_tests
from halves import deal


def main() -> None:
    """Writes a folder for every task that fits."""
    file, folder = Path(sys.argv[1]), Path(sys.argv[2])
    fitting = [row for row in map(json.loads, file.read_text("utf-8").splitlines()) if cases_of(row)]
    for place, (row, seen, judging) in enumerate(split_rows(fitting)):
        part = "trial" if place % 3 else "table"
        name = f"{row['task_id'].rpartition('/')[2]:0>3}_{row['entry_point']}"
        write_task(folder / part / name, files_of(row, seen, judging))


def cases_of(row: dict[str, Any]) -> list[Case]:
    """What the function is given and what it must return, in each assertion; nothing if one is different."""
    check = next(node for node in ast.parse(row["test"]).body if isinstance(node, ast.FunctionDef))
    found: list[Case] = []
    for statement in check.body:
        match statement:
            case ast.Assert(test=ast.Constant()):
                continue
            case ast.Assert(ast.Compare(call, [ast.Eq()], [expected])) if case := read_case(call, expected):
                found.append((row["entry_point"], *case[1:]))
            case _:
                return []
    return found if len(found) >= 4 and len(set(found)) == len(found) else []


def split_rows(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[Case], list[Case]]]:
    """Each task with its two halves of cases: in both, at least one fails."""
    for row in rows:
        cases = cases_of(row)
        failing = failing_cases(row["declaration"] + row["buggy_solution"], cases)
        if len(failing) > 1 and not failing_cases(row["declaration"] + row["canonical_solution"], cases):
            seen, judging = deal(range(len(cases)), failing.__contains__)
            yield row, [cases[place] for place in seen], [cases[place] for place in judging]


def files_of(row: dict[str, Any], seen: list[Case], judging: list[Case]) -> dict[str, str]:
    """The files of one task."""
    name = row["entry_point"]
    return {
        "task.txt": f"The tests of {name} fail. Find the bug in {name}.py and fix it.\n",
        "level": f"{row['bug_type']}\n",
        f"repo/{name}.py": row["prompt"] + row["buggy_solution"],
        f"solution/{name}.py": row["prompt"] + row["canonical_solution"],
        f"repo/test_{name}.py": write_tests(name, seen),
        f"held_out/test_{name}.py": write_tests(name, judging),
    }


if __name__ == "__main__":
    main()
