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

from features.research.site import Site
from headgate.config import load_config
from headgate.core import Constraints, Event, RecipeStarted, Report, StageStarted
from headgate.engine import Engine

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
    planned = Habits(planner)
    report, events = await run_type(repo, site, planned, transport)
    assert report.state == "SUCCESS", report.summary
    assert [event.body.task_type for event in events if isinstance(event.body, RecipeStarted)] == [task_type]
    assert planner.steps == []
    if task_type == "research":
        # Who sums up sees the pages, not only what was said about them.
        assert "first described in 1884" in json.dumps(planned.asked[-2]["messages"])
    if task_type == "skill_build":
        steps = [event.body.stage for event in events if isinstance(event.body, StageStarted)]
        built = [step for step in steps if step.startswith("skill_build-")]
        assert built == ["skill_build-1.research", "skill_build-1.generate"]
        assert "Open them slowly." in next(repo.rglob("headgates/SKILL.md")).read_text()


def use(name: str, **arguments: Any) -> Body:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}]}


def offered(body: Body) -> set[str]:
    return {tool["function"]["name"] for tool in body.get("tools", ())}


@pytest.mark.parametrize("called", ["code_modify", "Code Modify", "codeModify", "generic"])
@pytest.mark.parametrize("form", ["native", "text", "schema"])
async def test_a_type_that_is_called_as_a_tool_is_executed(
    repo: Path, site: Site, form: str, called: str
) -> None:
    task_type = "generic" if called == "generic" else "code_modify"
    planner = Planner(form, [(called, {"goals": ["n.txt holds 1"]}), *TYPES[task_type], END])
    planned = Habits(planner)
    report, events = await run_type(repo, site, planned, form)
    assert report.state == "SUCCESS", report.summary
    started = [event.body for event in events if isinstance(event.body, RecipeStarted)]
    assert [(body.task_type, body.goals) for body in started] == [(task_type, ("n.txt holds 1",))]
    # No line of what the model is told reads like a tool of that name.
    told = json.dumps(planned.asked[0]["messages"])
    assert f"- {task_type}" not in told
    assert f"{task_type}(" not in told


async def test_a_planner_is_told_the_same_whatever_the_type(repo: Path, site: Site) -> None:
    asked: list[list[Body]] = []
    for task_type in ("code_create", "research", "memory_op"):
        planned = Habits(Planner("native", [execute(task_type), *TYPES[task_type], END]))
        await run_type(repo, site, planned, "native")
        (repo / "n.txt").write_text("0\n")
        asked.append(planned.asked)
    firsts = [{**requests[0]} for requests in asked]
    assert firsts[0]["messages"]
    assert firsts[1:] == firsts[:1] * 2
    for requests in asked:
        assert requests[-1]["messages"][: len(firsts[0]["messages"])] == firsts[0]["messages"]


class Researcher:
    """Searches for ever, each time for something else, whatever it is told, and says so of no step."""

    def __init__(self, task_type: str, same_goals: bool) -> None:
        self.task_type, self.same_goals, self.turns = task_type, same_goals, 0

    def __call__(self, body: Body) -> Body:
        self.turns += 1
        if "execute" in offered(body):
            goal = "A skill about canals" if self.same_goals else f"A skill about canal {self.turns}"
            return use("execute", task_type=self.task_type, goals=[goal])
        return use("research", query=f"canal {self.turns}")


@pytest.mark.parametrize("same_goals", [True, False])
@pytest.mark.parametrize("task_type", ["skill_build", "research"])
async def test_who_researches_for_ever_is_stopped(
    repo: Path, site: Site, task_type: str, same_goals: bool
) -> None:
    researcher = Researcher(task_type, same_goals)
    report, events = await run_type(repo, site, Habits(researcher), "native")
    assert report.state == "STUCK"
    started = [event.body for event in events if isinstance(event.body, RecipeStarted)]
    assert len(started) == 2
    # Three calls in a step, and one such step in an execution.
    assert len(site.asked) <= 3 * len(started)
    # Of these, 26 are in the two executions, whose steps never conclude either.
    assert researcher.turns <= 34
    assert not list(repo.rglob("SKILL.md"))


async def test_who_hands_everything_back_is_stopped(repo: Path, site: Site) -> None:
    def say(body: Body) -> Body:
        if "execute" in offered(body):
            return use("execute", task_type="code_modify", goals=["n.txt holds 1"])
        return use("escalate", reason="No.") if "escalate" in offered(body) else {"content": "No."}

    report, events = await run_type(repo, site, Habits(say), "native")
    assert report.state == "STUCK"
    rounds = [event.body.round for event in events if isinstance(event.body, RecipeStarted)]
    assert rounds == [1, 2]


async def test_the_state_of_a_task_can_be_read_while_it_runs(repo: Path, site: Site) -> None:
    seen: list[str] = []
    steps = Planner("decisions", [execute("skill_build"), *TYPES["skill_build"], END])

    def say(body: Body) -> Body:
        seen.append((repo / ".headgate" / "context.md").read_text())
        return steps(body)

    report, _ = await run_type(repo, site, Habits(say), "text")
    assert report.state == "SUCCESS", report.summary
    generating = seen[2]
    assert (
        '3. Plan\n\n1. skill_build: "The goal of skill_build" - in progress (research completed' in generating
    )
    assert "### skill_build-1.research\n> Results for" in generating
    # The model claimed that nothing was done yet.
    assert (
        "- current_step: 2\n- max_steps: 5\n- completed_steps: research\n- pending_steps: generate"
        in generating
    )
    assert not (repo / ".headgate" / "context.md").exists()
