"""Recipes with a real model that is far too small for them: they end, and what is reported is true.

The planner's decisions are written for the model, so that it is known which recipe runs. Every reply in the
recipe's steps is its own.
"""

import asyncio
import json
import subprocess
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from features.research.site import Site
from headgate.cli.local_server import LocalServer
from headgate.config import load_config
from headgate.core import (
    Constraints,
    Event,
    Message,
    Model,
    OnDelta,
    Reply,
    Request,
    StageEnded,
    ToolCall,
    ToolFinished,
)
from headgate.engine import Engine
from headgate.features.recipes import RecipeStarted
from headgate.log import report_problems
from headgate.models.network import open_model

PATIENCE = 900.0
"""Seconds after which a run counts as one that does not end."""
LONGEST = 48
"""Tokens of a reply."""
GOAL = "Change 0 to 1 in n.txt"
DECISIONS = (
    ("stage_done", {"summary": "It was carried out."}),
    ("escalate", {"reason": "The recipe was handed back."}),
)


@dataclass
class Executor:
    """A real model in the steps of a recipe; the planner has its decisions from the list."""

    model: Model
    decisions: list[tuple[str, dict[str, Any]]]
    name: str = "executor"
    offered: list[set[str]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        offered = {tool.name for tool in request.tools}
        if not offered:
            return Reply(Message("assistant", "The model is too small."), finish="stop")
        if "execute" in offered:
            name, arguments = self.decisions.pop(0)
            call = ToolCall(f"c{len(self.decisions)}", name, json.dumps(arguments))
            return Reply(Message("assistant", "", (call,)), finish="calls")
        self.offered.append(offered)
        short = replace(request, max_tokens=min(request.max_tokens or LONGEST, LONGEST))
        self.replies.append(await self.model.reply(short, on_delta))
        return self.replies[-1]


def make_repo(repo: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "n.txt").write_text("0\n")
    return repo


@pytest.mark.parametrize("task_type", ["code_modify", "research"])
async def test_a_small_model_carries_a_recipe_out(
    tmp_path: Path, roomy_server: LocalServer, task_type: str
) -> None:
    repo = make_repo(tmp_path / "repo")
    user_file = tmp_path / "user.yaml"
    events: list[Event] = []
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(Site().running())
        site.finds("/article")
        config = {
            "flow": "planned",
            "sandbox": "off",
            "task_status": "never",
            "verification": {"steps": [{"name": "there", "command": "test -f n.txt"}]},
            "research": {"backend": "searxng", "url": site.url(""), "allow_private": True},
        }
        user_file.write_text(json.dumps(config))
        loaded = load_config(repo, environ={}, flags={}, user_file=user_file)
        settings = roomy_server.settings(temperature=0, seed=1, tool_transport="schema")
        opened = await stack.enter_async_context(open_model(settings))
        model = Executor(opened, [("execute", {"task_type": task_type, "goals": [GOAL]}), *DECISIONS])
        engine = Engine.open(repo, loaded, models={None: model})
        stack.callback(engine.store.close)
        engine.bus.on_event.append(events.append)
        async with asyncio.timeout(PATIENCE):
            report = await engine.run(engine.submit(f"{GOAL}.", Constraints()))
    assert report_problems(report.model_dump(mode="json")) == ()
    # Every reply kept to the protocol: a call of a tool that this step has, or one that was cut off.
    for reply, offered in zip(model.replies, model.offered, strict=True):
        assert reply.finish in ("calls", "length")
        assert {call.name for call in reply.message.calls} <= offered
    assert [event.body.task_type for event in events if isinstance(event.body, RecipeStarted)] == [task_type]
    steps = [
        event.body for event in events if isinstance(event.body, StageEnded) and "-1." in event.body.stage
    ]
    assert steps
    # The state says what happened, whatever the model says.
    complete = all(step.ending == "completed" for step in steps)
    assert (report.state, report.verified) == (("SUCCESS", True) if complete else ("STUCK", False))
    changed = (repo / "n.txt").read_text() != "0\n"
    assert report.files_changed == (("n.txt",) if changed else ())
    if task_type == "research" and complete:
        calls = [event.body for event in events if isinstance(event.body, ToolFinished)]
        assert any(call.name == "research" and call.ok for call in calls)
        assert site.asked
