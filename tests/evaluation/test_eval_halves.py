"""Half of a task's tests are shown, and the others judge what passed."""

import subprocess
import sys
from pathlib import Path

EVAL = Path(__file__).parents[2] / "eval"
SCRIPT = """
import shutil, sys
from pathlib import Path
from evaltasks import all_tasks, is_solved
from halves import holds, seen_half, tests_in

(task,) = all_tasks("16")
file = "test_sheet_columns.py"
every = tests_in((task.folder / "repo" / file).read_text())
with seen_half(task) as half:
    seen, judging = (tests_in((half.folder / part / file).read_text()) for part in ("repo", "held_out"))
    assert sorted([*seen, *judging]) == sorted(every)
    assert 0 <= len(seen) - len(judging) <= 2
    repo = half.folder / "repo"
    assert not is_solved(half, repo) and not holds(half, repo)
    shutil.copytree(half.folder / "solution", repo, dirs_exist_ok=True)
    assert is_solved(half, repo) and holds(half, repo)
print("both halves judge")
"""


def test_the_halves_of_a_task() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=EVAL, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("both halves judge\n", 0), done.stderr
