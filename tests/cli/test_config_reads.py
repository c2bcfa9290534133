"""How often a command reads `agent.yaml`: once; a process that is given a stored task does not read it."""

from pathlib import Path

import pytest
from command import environment

from launcher import run_python

HEADGATE = """
import sys

config, counted, *args = sys.argv[1:]

def hear(event, details):
    if event == "open" and str(details[0]) == config:
        with open(counted, "a") as reads:
            reads.write("read\\n")

sys.addaudithook(hear)
from headgate.cli.main import main
main(args)
"""
"""Runs a command line in a process whose interpreter notes each time that the configuration is opened."""


def count_reads(repo: Path, *args: str) -> int:
    counted = repo.parent / "reads"
    counted.write_text("")
    words = ["-c", HEADGATE, str(repo / "agent.yaml"), str(counted), *args]
    done = run_python(words, repo, environment(repo))
    assert done.returncode == 0, done.stderr
    return len(counted.read_text().splitlines())


ANSWER = "- calls: [{read_file: {path: agent.yaml}}]\n- text: It says flat.\n"


@pytest.mark.parametrize(
    ("args", "script"),
    [
        (["run", "Do it.", "--boundary", "db/**", "--package", "pkg"], None),
        (["run", "Do it.", "--dry-run"], None),
        (["ask", "What does it say?"], ANSWER),
    ],
)
def test_a_command_that_submits_a_task_and_carries_it_out_reads_once(
    repo: Path, args: list[str], script: str | None
) -> None:
    (repo / "pkg").mkdir()
    text = (repo / "script.yaml").read_text().replace("new.txt", "pkg/new.txt")
    (repo / "script.yaml").write_text(script or text)
    assert count_reads(repo, *args) == 1


def test_the_process_that_carries_out_a_stored_task_reads_nothing(repo: Path) -> None:
    assert count_reads(repo, "submit", "--no-start", "Do it.") == 1
    assert count_reads(repo, "work") == 0
    assert (repo / "new.txt").read_text() == "hello\n"


def test_a_retry_reads_once(repo: Path) -> None:
    (repo / "broken.yaml").write_text("- error: {kind: refused}\n")
    assert count_reads(repo, "submit", "--no-start", "Do it.", "--model", "script:broken.yaml") == 1
    assert count_reads(repo, "work") == 0
    assert count_reads(repo, "run", "--resume", "t1", "--model", "script:script.yaml") == 1
