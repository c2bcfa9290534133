"""A store that came with the repository: what it claims counts for nothing."""

import subprocess
from pathlib import Path

import pytest
from command import headgate

SCRIPT = "- calls: [stage_done: {stage: work, summary: Done.}]\n"


@pytest.mark.parametrize("command", ["tasks", "show", "report", "diff"])
def test_tasks_that_somebody_has_committed_are_not_shown(tmp_path: Path, command: str) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "agent.yaml").write_text("model: script:s.yaml\ntask_flow_mode: flat\n")
    (repo / "s.yaml").write_text(SCRIPT)
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    headgate(repo, "run", "Say it.")
    assert "t1" in headgate(repo, "tasks").stdout
    subprocess.run(["git", "add", "-f", ".headgate"], cwd=repo, check=True)
    done = headgate(repo, command)
    assert done.returncode == 2
    assert ".headgate/ is committed to git" in done.stderr
    assert not done.stdout


def test_commands_for_the_terminal_may_be_committed(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    (repo / ".headgate" / "commands").mkdir(parents=True)
    (repo / ".headgate" / "commands" / "review.md").write_text("Review $ARGUMENTS.\n")
    (repo / "agent.yaml").write_text("model: script:s.yaml\ntask_flow_mode: flat\n")
    (repo / "s.yaml").write_text(SCRIPT)
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    subprocess.run(["git", "add", "."], cwd=repo, check=True)
    assert headgate(repo, "run", "Say it.").returncode == 0
    shown = subprocess.run(["git", "status", "--porcelain"], cwd=repo, check=True, capture_output=True)
    assert b"headgate.db" not in shown.stdout
    assert headgate(repo, "diff").stdout == ""
