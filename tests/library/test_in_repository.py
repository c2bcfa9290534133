"""Flows of a Python program in a repository: tasks with a lock, a log, a baseline and verification."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import Callbacks, Flow, Stage, restore_flow, run_flow, start_flow
from headgate.core import Constraints
from headgate.engine import Engine
from headgate.errors import ConfigError
from library.replies import script


class Cause(BaseModel):
    line: int


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
    run = start_flow(flow, repo=repo, model=model, input="Fix add.")
    result = await run.result()
    model.check_finished()
    kinds = [event.kind async for event in run.events()]
    assert (kinds[0], kinds[-1]) == ("task_started", "task_ended")
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
    with pytest.raises(ConfigError, match="needs os:system, which only a Python program can hand in"):
        engine.submit("Do it.", Constraints())
    engine.store.close()
    (repo / "f.yaml").write_text("name: f\ntools: ['os:system']\nstages: [{id: a}]\n")
    (repo / "agent.yaml").write_text("model: script:x\nflow: ./f.yaml\n")
    engine = Engine.open(repo, models={None: script()})
    with pytest.raises(ConfigError, match="needs os:system, which only a Python program can hand in"):
        engine.submit("Do it.", Constraints())
    engine.store.close()


CRASHING = """
import os, sys, time
from pathlib import Path
from headgate import Checkpoint, run_flow_sync
from library.replies import script
from library.test_in_repository import PLACES, TWO


def crash():
    # The flow does not wait until it is saved.
    saved = Path(sys.argv[2])
    while not saved.exists() or b"stage_ended" not in saved.read_bytes():
        time.sleep(0.01)
    os._exit(7)


PLACES["crash"] = crash
model = script(
    {"stage_done": {"stage": "first", "summary": "Done.", "output": {"line": 2}}},
    {"strike": {"place": "crash"}},
)
checkpoint = Checkpoint(path=sys.argv[2], interval="on_turn")
run_flow_sync(TWO, repo=sys.argv[1], model=model, input="Fix it.", checkpoint=checkpoint)
"""
PLACES: dict[str, Callable[[], Any]] = {}


def strike(place: str) -> str:
    """Strike somewhere."""
    PLACES[place]()
    return f"struck {place}"


TWO = Flow(
    name="two",
    stages=[Stage(id="first", output_schema=Cause), Stage(id="second", needs=["first"], tools=[strike])],
)


def crash(repo: Path, saved: Path) -> None:
    """A flow whose process dies in the middle of a call of its second stage."""
    tests = str(Path(__file__).parents[1])
    words = [sys.executable, "-c", CRASHING, str(repo), str(saved)]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": tests}, capture_output=True, check=False)
    assert done.returncode == 7, done.stderr.decode()


async def test_a_task_whose_process_died_goes_on_from_its_checkpoint(repo: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.jsonl"
    crash(repo, saved)
    restored = restore_flow(saved)
    assert (restored.source.head.repo, restored.source.head.task) == (str(repo), "t1")
    kinds = [event.kind for event in restored.saved.events]
    assert (kinds[0], "stage_ended" in kinds) == ("task_started", True)
    model = script({"strike": {"place": "there"}}, {"stage_done": {"stage": "second", "summary": "Done."}})
    PLACES["there"] = lambda: None
    heard: list[Any] = []
    run = restored.start(model=model, callbacks=Callbacks(on_progress=lambda *told: heard.append(told)))
    result = await run.result()
    assert (result.status, result["first"].output) == ("completed", Cause(line=2))
    assert "was interrupted by a crash and not run again" in model.requests[0].messages[-1].content
    assert heard == [(2, 2, "second")]
    kinds = [event.kind async for event in run.events()]
    assert (kinds[0], kinds[-1]) == ("task_resumed", "task_ended")
    # The task has ended: its report is returned.
    again = await restore_flow(saved).run(model=script())
    assert again.report is not None
    assert (again.status, again.report.task_id) == ("completed", "t1")
    engine = Engine.open(repo)
    assert [row.state for row in engine.store.tasks()] == ["SUCCESS"]
    engine.store.close()


async def test_a_checkpoint_of_a_task_needs_its_repository(repo: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.jsonl"
    crash(repo, saved)
    restored = restore_flow(saved)
    other = tmp_path / "other"
    with pytest.raises(
        ConfigError, match=f"is a task in the repository {repo}: it cannot continue in {other}"
    ):
        restored.start(model=script(), repo=other)
    with pytest.raises(ConfigError, match="leave `log` out"):
        restored.start(model=script(), log=tmp_path / "log.jsonl")
    with pytest.raises(ConfigError, match="leave `workspace` out"):
        restored.start(model=script(), workspace=other)
    shutil.rmtree(repo / ".headgate")
    shutil.rmtree(repo / ".git" / "headgate")
    with pytest.raises(ConfigError, match="does not know the task of this checkpoint, t1"):
        await restored.run(model=script())
    repo.rename(other)
    with pytest.raises(ConfigError, match="which is gone: put it back, or start the flow again"):
        restored.start(model=script())


async def test_the_key_that_a_program_gives_is_sent(repo: Path) -> None:
    heard: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        flow = Flow(name="one", stages=[Stage(id="a")])
        result = await run_flow(flow, repo=repo, model="openai/any", base_url=address, api_key="key-of-mine")
    assert result.status == "failed"
    assert all(b"bearer key-of-mine" in head.lower() for head in heard), heard
    assert heard
