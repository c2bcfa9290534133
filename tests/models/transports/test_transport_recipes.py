"""From a planner's decision to its report, over each transport: a real engine and a real server."""

import json
from pathlib import Path
from typing import Any

import pytest
from local_model_server import Body, Habits
from test_transport_tasks import Steps, Worker, repo, work

from headgate.core import StageStarted
from headgate.features.recipes import RecipeStarted

__all__ = ["repo"]
GOALS = {"goals": ["calc.py adds"]}
STEPS: Steps = [
    ("read_file", {"path": "calc.py"}),
    ("stage_done", {"summary": "It subtracts."}),
    ("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
    ("stage_done", {"summary": "It adds now."}),
    ("stage_done", {"summary": "All is done."}),
]


class Decider(Worker):
    """A model that makes the decisions of planner and executor as objects of their own."""

    def __call__(self, body: Body) -> Body:
        return {"content": json.dumps(as_decision(*self.steps.pop(0)))}


def as_decision(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "execute":
        return {"_type": "PLANNER_DECISION", "action": "EXECUTE", **arguments}
    if name == "stage_done":
        return {"_type": "EXECUTOR_DECISION", "action": "DONE", "reasoning": arguments["summary"]}
    state = {"step": 1, "completed": [], "pending": ["write"]}
    return {
        "_type": "EXECUTOR_DECISION",
        "action": "CALL_TOOL",
        "tool": {"name": name, "args": arguments},
        "state": state,
    }


@pytest.mark.parametrize(
    ("form", "transport", "decision"),
    [
        ("native", "native", ("Code Modify", GOALS)),
        ("text", "text", ("codeModify", GOALS)),
        ("schema", "schema", ("execute", {"task_type": "code_modify", **GOALS})),
        ("decisions", "text", ("execute", {"task_type": "code_modify", **GOALS})),
    ],
)
async def test_a_recipe_is_carried_out_over_each(
    repo: Path, form: str, transport: str, decision: tuple[str, dict[str, Any]]
) -> None:
    model = (Decider if form == "decisions" else Worker)(form, [decision, *STEPS])
    top = {
        "flow": "planned",
        "verification": {"steps": [{"name": "adds", "command": "grep -q 'a + b' calc.py"}]},
    }
    report, events = await work(repo, Habits(model), top, tool_transport=transport)
    assert report.state == "SUCCESS", report.summary
    started = [event.body for event in events if isinstance(event.body, RecipeStarted)]
    assert [(body.task_type, body.goals) for body in started] == [("code_modify", ("calc.py adds",))]
    stages = [event.body.stage for event in events if isinstance(event.body, StageStarted)]
    assert next(stage for stage in stages if stage.startswith("code_modify-1.")) == "code_modify-1.read"
    assert model.steps == []
