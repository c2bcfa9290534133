"""Makes tasks of Refactory's data: programs that students handed in, with the mistakes that they really made.

    python eval/refactory.py data FOLDER

The data is `data.zip` in the repository githubhuyang/refactory, unpacked. Of each of its five exercises, ten
wrong programs are taken at equal distances, by turns for tables (`table`) and to try things out (`trial`).
A run sees the exercise's own cases. What passed is judged by the cases below; what they must return is what
the exercise's reference program returns.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from case_tests import Case, failing_cases, write_task, write_tests

EACH = 10
"""How many programs of one exercise are taken."""
_DAYS = (
    '(("May", "3"), ("May", "4"), ("June", "3"), ("July", "9"))',
    '(("June", "1"), ("May", "1"), ("May", "2"), ("April", "2"), ("April", "7"))',
    '(("May", "8"),)',
    "()",
)
_LISTS = ("[7, 7]", "[2, 1, 2, 1]", "[5]", "[0, 0, 1, 0]", "[9, 8, 7]", "[4, 3, 4, 3, 3, 2]", "[-1, 1, -1]")
_PEOPLE = (
    '[("F", 40), ("M", 41)]',
    '[("M", 3), ("F", 2), ("M", 1)]',
    '[("M", 1), ("F", 2), ("M", 3)]',
    '[("F", 50), ("M", 9), ("F", 60), ("M", 8), ("F", 70), ("M", 7), ("F", 65)]',
)
JUDGING: tuple[tuple[str, ...], ...] = (
    tuple(
        f"search({x}, {seq})"
        for x, seq in product((-9, 0, 2, 4, 9, 50), ("[]", "(2,)", "[-9, 0, 4, 9]", "(1, 2, 3, 4, 5)"))
    ),
    (
        *(f'unique_day("{day}", {days})' for day, days in product("123478", _DAYS)),
        *(f'unique_month("{month}", {days})' for month, days in product(("May", "June", "April"), _DAYS)),
        *(f'contains_unique_day("{month}", {days})' for month, days in product(("May", "June"), _DAYS)),
    ),
    tuple(f"remove_extras({each})" for each in _LISTS),
    tuple(f"sort_age({each})" for each in _PEOPLE),
    (
        *(f"top_k({each}, {k})" for each, k in product(_LISTS, (0, 1))),
        *("top_k([3, 9, 3, 8], 3)", "top_k([1, 2, 3], 3)", "top_k([5, 5, 4], 2)", "top_k([-1, -5, -3], 2)"),
    ),
)
"""For each exercise, calls that its own cases do not make."""
MODULES = ("search", "birthdays", "remove_extras", "sort_age", "top_k")


def main() -> None:
    """Writes a folder for each program that is taken."""
    data, folder = Path(sys.argv[1]), Path(sys.argv[2])
    for number, (module, calls) in enumerate(zip(MODULES, JUDGING, strict=True), 1):
        exercise = data / f"question_{number}"
        given = exercise / "code" / "global.py"
        head = given.read_text("utf-8").strip() + "\n\n\n" if given.exists() else ""
        about = (exercise / "description.txt").read_text("utf-8").strip()
        program = f'"""{about}"""\n\n{head}'
        reference = program + next((exercise / "code" / "reference").glob("*.py")).read_text("utf-8")
        seen, judging = own_cases(exercise, reference), run_calls(reference, calls)
        for place, (name, source) in enumerate(wrong_programs(exercise, head, seen)):
            files = {
                "task.txt": f"The tests of {module}.py fail. Find the bug in {module}.py and fix it.\n",
                "level": f"{module}\n",
                f"repo/{module}.py": f"{program}{source}\n",
                f"solution/{module}.py": reference,
                f"repo/test_{module}.py": write_tests(module, seen),
                f"held_out/test_{module}.py": write_tests(module, judging),
            }
            part = "trial" if place % 2 else "table"
            write_task(folder / part / f"{name.removeprefix('wrong_')}_{module}", files)


def own_cases(exercise: Path, reference: str) -> list[Case]:
    """The exercise's own cases, each once."""
    calls = [file.read_text("utf-8").strip() for file in sorted((exercise / "ans").glob("input_*.txt"))]
    return list(dict.fromkeys(run_calls(reference, calls)))


def run_calls(program: str, calls: Sequence[str]) -> list[Case]:
    """Cases of these calls: what they are given, by value, and what the program returns."""
    rows = [
        f"[{call.partition('(')[0]!r}, repr(({call.partition('(')[2][:-1]},)), repr({call})]"
        for call in calls
    ]
    script = "\n".join([program, "import json", f"print(json.dumps([{', '.join(rows)}]))"])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True
    )
    return [tuple(row) for row in json.loads(done.stdout)]


def wrong_programs(exercise: Path, head: str, cases: list[Case]) -> Iterator[tuple[str, str]]:
    """Programs at equal distances, or the next one that compiles and fails one of the cases."""
    files = sorted((exercise / "code" / "wrong").glob("*.py"))
    for part in range(EACH):
        for file in files[len(files) * part // EACH : len(files) * (part + 1) // EACH]:
            source = file.read_text("utf-8").strip()
            if is_program(source, {name for name, _, _ in cases}) and failing_cases(head + source, cases):
                yield file.stem, source
                break


def is_program(source: str, names: set[str]) -> bool:
    """Whether it parses, and has the functions that are asked for."""
    try:
        module = ast.parse(source)
    except SyntaxError:
        return False
    return names <= {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}


if __name__ == "__main__":
    main()
