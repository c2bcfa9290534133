"""`headgate memory`: reading and deleting what models have saved, whether or not a task runs."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command import headgate
from processes import shows, terminal

from headgate.features.memory import Memories
from headgate.log import Folder, Store

FLOW = """
name: memory
stages:
  - {id: keep, tools: {allow: [memory.save, memory.search]}}
"""
SCRIPT = """
- calls:
    - memory.save: {text: "Tests need \\e[31mPOSTGRES\\e[0m", tags: [tests]}
    - memory_save: {text: "The parser is generated.\\nDo not edit it."}
- calls: [{stage_done: {summary: Saved.}}]
"""


@pytest.fixture
def saved(repo: Path) -> Path:
    (repo / "script.yaml").write_text(SCRIPT)
    (repo / "keep.yaml").write_text(FLOW)
    done = headgate(repo, "run", "--flow", "keep.yaml", "Remember this")
    assert done.returncode == 0, done.stderr
    return repo


def test_memories_are_listed_and_searched(saved: Path) -> None:
    listed = headgate(saved, "memory", "list")
    assert listed.returncode == 0
    assert listed.stdout.splitlines() == [
        "m1  now, t1  [tests]",
        "    Tests need POSTGRES",
        "m2  now, t1",
        "    The parser is generated.",
        "    Do not edit it.",
    ]
    found = json.loads(headgate(saved, "memory", "search", 'the PARSERS (or " so', "--json").stdout)
    assert [(each["id"], each["tags"], each["task"]) for each in found] == [("m2", [], "t1")]
    everything = json.loads(headgate(saved, "memory", "list", "--json").stdout)
    assert [each["text"] for each in everything] == [
        "Tests need POSTGRES",
        "The parser is generated.\nDo not edit it.",
    ]
    assert headgate(saved, "memory", "search", "unheard").stdout == "Nothing found.\n"


def test_a_memory_is_forgotten(saved: Path) -> None:
    assert headgate(saved, "memory", "forget", "m1").stdout == "Deleted 1 memory.\n"
    again = headgate(saved, "memory", "forget", "m1")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == 'headgate: There is no memory "m1": headgate memory list shows them.\n'
    assert headgate(saved, "memory", "forget", "--all").stdout == "Deleted 1 memory.\n"
    assert headgate(saved, "memory", "list", "--json").stdout == "[]\n"


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 2), (b"y\n", 0)])
def test_on_a_terminal_it_asks_before_everything_is_deleted(saved: Path, answer: bytes, left: int) -> None:
    words = [sys.executable, "-m", "headgate", "memory", "forget", "--all"]
    with terminal(saved, words) as (_, screen):
        shows(screen, b"Delete 2 memories? [y/N]: ")
        os.write(screen, answer)
        shows(screen, b"Deleted 2 memories." if left == 0 else b"interrupted")
    assert len(json.loads(headgate(saved, "memory", "list", "--json").stdout)) == left


@pytest.mark.parametrize("words", [(), ("m1", "--all")])
def test_forgetting_needs_one_name_or_all(saved: Path, words: tuple[str, ...]) -> None:
    done = headgate(saved, "memory", "forget", *words)
    assert (done.returncode, "Name one ID, or give --all." in done.stderr) == (2, True)


def test_another_process_may_have_the_store_open(saved: Path) -> None:
    folder = Folder(saved)
    with closing(Store(folder.database)) as store:
        assert headgate(saved, "memory", "forget", "m2").returncode == 0
        assert [memory.id for memory in Memories(store).all()] == ["m1"]


def test_a_command_of_a_task_cannot_delete_them(saved: Path) -> None:
    command = f"{sys.executable} -m headgate memory forget --all; touch tried"
    (saved / "script.yaml").write_text(f"- calls: [{{shell: {{command: '{command}'}}}}]\n- text: Done.\n")
    headgate(saved, "run", "Delete them")
    assert (saved / "tried").exists()
    assert len(json.loads(headgate(saved, "memory", "list", "--json").stdout)) == 2


def test_the_report_counts_them(saved: Path) -> None:
    assert json.loads(headgate(saved, "report", "--json").stdout)["memories_saved"] == 2
    assert "| memories saved | 2 |" in headgate(saved, "report").stdout


def test_a_repository_without_tasks(repo: Path) -> None:
    assert headgate(repo, "memory", "list").stdout == "No task has saved a memory in this repository.\n"
    assert headgate(repo, "memory", "search", "x", "--json").stdout == "[]\n"
    assert headgate(repo, "memory", "forget", "m1").returncode == 2
    assert not (repo / ".headgate").exists()
