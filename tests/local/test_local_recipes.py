"""Recipes with a real model that is far too small for them: each reply has the form, and the task ends.

The planner's decisions are written for it; the steps are the model's own. Whether it does them well is not
asserted, only that the protocol holds: the steps are taken in order, and what they lead to is told truly.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headgate.cli.local_server import LocalServer, find_model, local_server
from headgate.config.load import load_config
from headgate.core.events import Event, RecipeStarted, StageStarted, ToolFinished
from headgate.core.messages import Message, Model, OnDelta, Reply, Request, ToolCall
from headgate.core.report import report_problems
from headgate.core.task import Constraints
from headgate.engine.engine import Engine
from headgate.errors import ConfigError
from headgate.models.network import open_model
from web.site import Site

PATIENCE = 600.0
LONGEST = 64
"""Tokens of a reply."""
MOST_ASKED = 6
"""Replies of the model; after that, each step is handed back, so that the test ends soon."""


@pytest.fixture(scope="module")
def roomy() -> Iterator[LocalServer]:
    try:
        find_model()
    except ConfigError as error:
        pytest.skip(str(error))
    with local_server(context=3072) as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    (made / "n.txt").write_text("0\n")
    return made


@dataclass
class Executor:
    """Plans as it was told, and asks a real model in steps."""

    model: Model
    task_type: str
    name: str = "executor"
    asked: list[set[str]] = field(default_factory=list)
    planned: int = 0

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        offered = {tool.name for tool in request.tools}
        if "execute" in offered:
            self.planned += 1
            return self._decide()
        if not offered:
            return Reply(Message("assistant", "Nothing more."))
        if len(self.asked) >= MOST_ASKED:
            return hand_back() if "escalate" in offered else conclude()
        self.asked.append(offered)
        return await self.model.reply(request, on_delta)

    def _decide(self) -> Reply:
        if self.planned == 1:
            return call("execute", task_type=self.task_type, goals=["n.txt holds 1"])
        return conclude() if self.planned == 2 else hand_back()


def hand_back() -> Reply:
    return call("escalate", reason="It is too hard.")


def conclude() -> Reply:
    return call("stage_done", summary="It is done.")


def call(name: str, **arguments: Any) -> Reply:
    made = ToolCall(f"c-{name}", name, json.dumps(arguments))
    return Reply(Message("assistant", "", (made,)), finish="calls")


@pytest.mark.parametrize(("task_type", "first"), [("code_modify", "read"), ("research", "search")])
async def test_a_small_model_takes_the_steps_of_a_recipe(
    tmp_path: Path, repo: Path, roomy: LocalServer, task_type: str, first: str
) -> None:
    events: list[Event] = []
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(Site().running())
        site.finds("/article")
        backend = {"backend": "searxng", "url": site.url(""), "allow_private": True, "page_chars": 500}
        steps = [{"name": "check", "command": "grep -q 1 n.txt"}]
        written = {"flow": "planned", "task_status": "never", "verification": {"steps": steps}}
        (tmp_path / "agent.yaml").write_text(json.dumps({**written, "research": backend}))
        loaded = load_config(repo, environ={}, flags={}, user_file=tmp_path / "agent.yaml")
        settings = roomy.settings(temperature=0, seed=1, max_tokens=LONGEST, tool_transport="schema")
        model = Executor(await stack.enter_async_context(open_model(settings)), task_type)
        engine = Engine.open(repo, loaded, models={None: model})
        stack.callback(engine.store.close)
        engine.bus.on_event.append(events.append)
        async with asyncio.timeout(PATIENCE):
            report = await engine.run(engine.submit("Make n 1.", Constraints()))
    assert report_problems(report.model_dump(mode="json")) == ()
    assert report.state in ("SUCCESS", "STUCK")
    assert [event.body.task_type for event in events if isinstance(event.body, RecipeStarted)] == [task_type]
    started = [event.body.stage for event in events if isinstance(event.body, StageStarted)]
    assert started[1] == f"{task_type}-1.{first}"
    assert model.asked
    # Held to the schema, it can only call what the step offers.
    assert not [
        event
        for event in events
        if isinstance(event.body, ToolFinished) and event.body.error == "unknown_tool"
    ]
    if report.state == "SUCCESS" and task_type == "code_modify":
        assert "1" in (repo / "n.txt").read_text()
