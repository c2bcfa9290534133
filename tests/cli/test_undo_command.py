"""`headgate undo`, as people type it."""

import json
from pathlib import Path

import pytest
from command import headgate

SCRIPT = """
- calls: [{edit_file: {path: a.txt, old: "two", new: "2"}}]
- calls: [{write_file: {path: "made/new.txt", content: "new\\n"}}]
- text: Done.
"""


@pytest.fixture
def changed(repo: Path) -> Path:
    """A repository in which task t1 has changed two files."""
    (repo / "a.txt").write_text("one\ntwo\nthree\n")
    (repo / "script.yaml").write_text(SCRIPT)
    done = headgate(repo, "run", "--model", "script:script.yaml", "Change it")
    assert done.returncode == 0, done.stderr
    return repo


def test_the_latest_task_is_undone_and_said_to_be(changed: Path) -> None:
    done = headgate(changed, "undo")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "Task t1 was undone: a.txt, made/new.txt.",
            "headgate diff t1 | git apply restores the changes.",
        ],
    )
    assert (changed / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert not (changed / "made").exists()
    assert "SUCCESS, undone" in headgate(changed, "tasks").stdout
    assert json.loads(headgate(changed, "tasks", "--json").stdout)[0]["undone"]
    shown = headgate(changed, "show").stdout
    assert "t1  SUCCESS, undone  Change it" in shown
    assert "Task t1 was undone: 2 files" in shown
    assert json.loads(headgate(changed, "report", "t1", "--json").stdout)["undone"] is True
    assert "| undone | yes |" in headgate(changed, "report").stdout
    again = headgate(changed, "undo", "t1")
    assert (again.returncode, again.stdout) == (2, "")
    assert "is undone already" in again.stderr
    nothing = headgate(changed, "undo")
    assert (nothing.returncode, "nothing to undo" in nothing.stderr) == (2, True)
    assert "+2" in headgate(changed, "diff", "t1").stdout
    assert headgate(changed, "undo", "t9").returncode == 2


def test_an_overlap_is_exit_code_1_and_names_the_hunk(changed: Path) -> None:
    (changed / "a.txt").write_text("one\nzwei\nthree\n")
    done = headgate(changed, "undo", "T1")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "Nothing was changed: the changes of task t1 no longer fit the working tree.",
        "  a.txt: has changed at the same place, near line 2",
    ]
    assert (changed / "made" / "new.txt").exists()
