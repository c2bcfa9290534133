"""Flows of a Python program in a repository: tasks with a lock, a log, a baseline and verification."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import Flow, Stage, run_flow
from headgate.engine.engine import Engine
from headgate.errors import ConfigError
from headgate.models.scripted import ScriptedModel, ScriptEntry


class Cause(BaseModel):
    line: int


def script(*replies: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel([ScriptEntry.model_validate({"calls": [reply]}) for reply in replies])


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (repo / "check.py").write_text("from calc import add\n\nassert add(1, 2) == 3\n")
    (repo / "agent.yaml").write_text("verification: {steps: [{name: check, command: python3 -B check.py}]}\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@t", *words], cwd=repo, check=True)
    return repo


async def test_a_flow_is_a_task_of_the_repository(repo: Path) -> None:
    seen: list[str] = []

    def remember(text: str) -> str:
        seen.append(text)
        return "ok"

    flow = Flow(
        name="fix",
        stages=[
            Stage(id="find", output_schema=Cause, tools_allow=["read"]),
            Stage(id="repair", needs=["find"], tools=[remember]),
        ],
        options={"checks": ["verify"]},
    )
    model = script(
        {"read_file": {"path": "calc.py"}},
        {"stage_done": {"stage": "find", "summary": "It subtracts.", "output": {"line": 2}}},
        {"remember": {"text": "line 2"}},
        {"edit_file": {"path": "calc.py", "old": "a - b", "new": "a + b"}},
        {"stage_done": {"stage": "repair", "summary": "add adds."}},
    )
    result = await run_flow(flow, repo=repo, model=model, input="Fix add.")
    model.check_finished()
    assert (result.status, result["find"].output, seen) == ("completed", Cause(line=2), ["line 2"])
    assert result.report is not None
    assert (result.report.verified, result.report.files_changed) == (True, ("calc.py",))
    assert "add(a, b):\n    return a + b" in (repo / "calc.py").read_text()
    engine = Engine.open(repo)
    assert [row.state for row in engine.store.tasks()] == ["SUCCESS"]
    engine.store.close()


async def test_a_repository_cannot_name_functions_of_python(repo: Path) -> None:
    (repo / "agent.yaml").write_text("model: script:x\nflow: [{id: a, prompt: A., accept: 'os:system'}]\n")
    engine = Engine.open(repo, models={None: script()})
    from headgate.core import Constraints

    with pytest.raises(ConfigError, match="needs os:system, which only a Python program can hand in"):
        engine.submit("Do it.", Constraints())
    engine.store.close()
