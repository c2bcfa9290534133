"""Tests that a run does not see judge what it left."""

import subprocess
import sys
from pathlib import Path

EVAL = Path(__file__).parents[2] / "eval"
SCRIPT = """
import shutil, tempfile
from pathlib import Path
from evaltasks import all_tasks, is_solved
from halves import deal, holds

assert deal("abCDEfg", str.isupper) == (["a", "C", "E", "f"], ["b", "D", "g"])

(task,) = all_tasks("16")
with tempfile.TemporaryDirectory() as folder:
    repo = shutil.copytree(task.folder / "repo", Path(folder) / "repo")
    (repo / "conftest.py").write_text("collect_ignore_glob = ['*_more.py']")
    assert not holds(task, repo)
    program = repo / "sheet_columns.py"
    fitted = "name = 'A' if number > 26 else ''; return name + chr(64 + (number - 1) % 26 + 1)"
    program.write_text(program.read_text().replace('name = ""', fitted, 1))
    assert is_solved(task, repo) and not holds(task, repo)
    shutil.copytree(task.folder / "solution", repo, dirs_exist_ok=True)
    assert holds(task, repo)
print("the held-out tests judge")
"""


def test_a_fix_that_only_fits_the_tests_it_saw_does_not_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=EVAL, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("the held-out tests judge\n", 0), done.stderr
