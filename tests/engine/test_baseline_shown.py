"""What people who watch see of the steps that are run on the tree as it was at the task's start."""

import subprocess
from pathlib import Path

import pytest

from headgate.config import load_config
from headgate.core import Constraints, Event, Pulse
from headgate.engine import Engine
from headgate.log import Bus

STEP = 'cat calc.py; grep -q "a + b" calc.py'
STILL_WRONG = """
- calls:
    - edit_file: {path: calc.py, old: a - b, new: a * b}
    - stage_done: {summary: add adds.}
"""
RIGHT = """
- calls:
    - edit_file: {path: calc.py, old: "OLD", new: a + b}
    - stage_done: {summary: add adds.}
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    return tmp_path / "repo"


@pytest.mark.parametrize(
    ("script", "failed_first"),
    [(RIGHT.replace("OLD", "a - b"), False), (STILL_WRONG + RIGHT.replace("OLD", "a * b"), True)],
    ids=["after it passed", "after the first failure"],
)
async def test_it_is_told_apart_and_prints_nothing(repo: Path, script: str, failed_first: bool) -> None:
    """Its output is that of the code before the task: `a - b`, which would be taken for the task's."""
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (repo / "test_calc.py").write_text("def test_nothing():\n    pass\n")
    (repo.parent / "script.yaml").write_text(script)
    (repo / "agent.yaml").write_text(
        "task_flow_mode: flat\nscouts: off\nmodel: script:../script.yaml\n"
        f"verification: {{steps: [{{name: tests, command: '{STEP}'}}]}}\n"
    )
    told: list[str] = []

    def hear(event: Event) -> None:
        if event.body.kind in ("verify_started", "verify_finished", "baseline_verified"):
            told.append(event.body.kind)

    def feel(pulse: Pulse) -> None:
        if pulse.source in ("step", "start", "command") and pulse.text.strip() != "def add(a, b):":
            told.append(f"{pulse.source} {pulse.text.strip()}".strip())

    loaded = load_config(repo, environ={}, flags={}, user_file=repo / "none.yaml")
    engine = Engine.open(repo, loaded, Bus([hear], [feel]))
    report = await engine.run(engine.submit("add in calc.py has to add, not to subtract", Constraints()))
    engine.store.close()
    assert report.state == "SUCCESS", report
    looking_back = ["start", "start tests"]
    failing = ["verify_started", "step tests", "command return a * b", *looking_back]
    passing = ["verify_started", "step tests", "command return a + b", "verify_finished"]
    assert told == (
        [*failing, "baseline_verified", "verify_finished", *passing]
        if failed_first
        else [*passing, *looking_back, "baseline_verified"]
    )
