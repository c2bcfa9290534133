"""Every type of task, from the planner's decision to its report, over each transport; a real engine, model
server and web site."""

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from local_model_server import Body, Habits
from test_transport_tasks import Steps, say

from headgate.config.load import load_config
from headgate.core.events import Event, RecipeStarted, StageStarted
from headgate.core.report import Report
from headgate.core.task import Constraints
from headgate.engine.engine import Engine
from web.site import Site

END = ("stage_done", {"summary": "All is done."})
DONE = ("stage_done", {"summary": "The step is done."})


def execute(task_type: str) -> tuple[str, dict[str, Any]]:
    return "execute", {"task_type": task_type, "goals": [f"The goal of {task_type}"]}


WRITE = ("write_file", {"path": "n.txt", "content": "1\n"})
SKILL = {"name": "headgates", "description": "Use for canals.", "source": "Open them slowly."}
TYPES: dict[str, Steps] = {
    "code_modify": [("read_file", {"path": "n.txt"}), DONE, WRITE, DONE],
    "code_create": [("ls", {}), DONE, WRITE, DONE],
    "research": [("research", {"query": "headgate"}), DONE, DONE],
    "skill_build": [("research", {"query": "headgate"}), ("make_skill", SKILL)],
    "memory_op": [("memory_search", {"query": "canals"}), ("memory_save", {"text": "Canals are wet."}), DONE],
    "generic": [WRITE, DONE],
}


class Planner:
    """A model that follows a script, and makes the decisions of planner and executor in one form of calls."""

    def __init__(self, form: str, steps: Steps) -> None:
        self.form, self.steps = form, list(steps)

    def __call__(self, body: Body) -> Body:
        name, arguments = self.steps.pop(0)
        if self.form == "decisions":
            return {"content": json.dumps(as_decision(name, arguments))}
        if self.form == "native":
            function = {"name": name, "arguments": json.dumps(arguments)}
            return {
                "tool_calls": [{"id": f"call_{len(self.steps)}", "type": "function", "function": function}]
            }
        return say(self.form, name, arguments)


def as_decision(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "execute":
        return {"_type": "PLANNER_DECISION", "action": "EXECUTE", **arguments}
    if name == "stage_done":
        return {"_type": "EXECUTOR_DECISION", "action": "DONE", "reasoning": arguments["summary"]}
    state = {"step": 1, "completed": [], "pending": ["generate"]}
    tool = {"name": name, "args": arguments}
    return {"_type": "EXECUTOR_DECISION", "action": "CALL_TOOL", "tool": tool, "state": state}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().running() as running:
        running.finds("/article")
        yield running


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    (made / "n.txt").write_text("0\n")
    return made


async def run_type(repo: Path, site: Site, habits: Habits, transport: str) -> tuple[Report, list[Event]]:
    user_file = repo.parent / "user.yaml"
    user_file.write_text(
        f"sandbox: off\nresearch: {{backend: searxng, url: '{site.url('')}', allow_private: true}}\n"
    )
    async with habits.running() as server:
        settings = {"model": "openai/m", "base_url": server.url, "tool_transport": transport}
        steps = [{"name": "check", "command": "test -f n.txt"}]
        config = {
            "flow": "planned",
            "models": {"m": settings},
            "model": "m",
            "verification": {"steps": steps},
        }
        (repo / "agent.yaml").write_text(json.dumps(config))
        loaded = load_config(repo, environ={}, flags={}, user_file=user_file)
        engine = Engine.open(repo, loaded)
        events: list[Event] = []
        engine.bus.on_event.append(events.append)
        try:
            report = await engine.run(engine.submit("Do what has to be done.", Constraints()))
        finally:
            engine.store.close()
    return report, events


@pytest.mark.parametrize("task_type", TYPES)
@pytest.mark.parametrize(
    ("form", "transport"),
    [("native", "native"), ("text", "text"), ("schema", "schema"), ("decisions", "text")],
)
async def test_a_type_of_task_is_done_over_each_transport(
    repo: Path, site: Site, form: str, transport: str, task_type: str
) -> None:
    planner = Planner(form, [execute(task_type), *TYPES[task_type], END])
    report, events = await run_type(repo, site, Habits(planner), transport)
    assert report.state == "SUCCESS", report.summary
    assert [event.body.task_type for event in events if isinstance(event.body, RecipeStarted)] == [task_type]
    assert planner.steps == []
    if task_type == "skill_build":
        steps = [event.body.stage for event in events if isinstance(event.body, StageStarted)]
        assert steps[1:3] == ["skill_build-1.research", "skill_build-1.generate"]
        assert "Open them slowly." in next(repo.rglob("headgates/SKILL.md")).read_text()
