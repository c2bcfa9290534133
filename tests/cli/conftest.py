"""A small repository whose model is a script."""

import subprocess
from pathlib import Path

import pytest
from command import SCRIPT


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    (path / "script.yaml").write_text(SCRIPT)
    (path / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:script.yaml\n")
    return path
