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
