"""Whole runs with a real model that is far too small for them: they end, and the report is true."""

import asyncio
import subprocess
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headgate.cli.localserver import LocalServer
from headgate.config.load import load_config
from headgate.core.events import Event, ReplyFailed, ReplyReceived, ViewCompacted
from headgate.core.messages import Message, Model, OnDelta, Reply, Request, ToolCall
from headgate.core.report import Report
from headgate.core.report_check import report_problems
from headgate.core.task import Constraints
from headgate.engine.engine import Engine
from headgate.models.base import open_model

PATIENCE = 300.0
"""Seconds after which a run counts as one that does not end."""
TOKENS = {"native": 8, "schema": 32}
"""The longest reply: words are no use here, an object should come to its end."""
FLOW = """
name: brief
stages:
  - id: work
    prompt: Do it.
    tools: {allow: [TOOLS]}
    budget: {turns: TURNS, bad_replies: TURNS, retries: 0, verify_loops: 1, exhausted: stuck}
checks: [verify]
"""
SETTINGS = """
flow: brief.yaml
verification: {steps: [{name: tests, command: grep -q 2 number.txt}]}
"""
LINES = "".join(f"The line has the words of the {word} one.\n" for word in ("first", "next", "last") * 20)


@dataclass
class Opened:
    """Gives replies that were written for it, then asks a real model: this one never calls a tool."""

    model: Model
    openings: Sequence[Reply]
    name: str = "opened"
    asked: list[Request] = field(default_factory=list)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.asked.append(request)
        if len(self.asked) <= len(self.openings):
            return self.openings[len(self.asked) - 1]
        return await self.model.reply(request, on_delta)


def make_repo(repo: Path, flow: str) -> dict[str, str]:
    files = {"number.txt": "1\n", "long.txt": LINES, "brief.yaml": flow, "agent.yaml": SETTINGS}
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    for name, text in files.items():
        (repo / name).write_text(text)
    return files


async def run(
    repo: Path,
    server: LocalServer,
    *,
    turns: int,
    tool: str,
    transport: Literal["native", "schema"] = "native",
    openings: Sequence[Reply] = (),
) -> tuple[Report, list[Event], Opened]:
    files = make_repo(repo, FLOW.replace("TURNS", str(turns)).replace("TOOLS", tool))
    loaded = load_config(repo, environ={}, flags={}, user_file=repo / "none.yaml")
    events: list[Event] = []
    async with AsyncExitStack() as stack:
        settings = server.settings(
            temperature=0, seed=1, max_tokens=TOKENS[transport], tool_transport=transport
        )
        model = Opened(await stack.enter_async_context(open_model(settings)), openings)
        engine = Engine.open(repo, loaded, models={None: model})
        stack.callback(engine.store.close)
        engine.bus.on_event.append(events.append)
        async with asyncio.timeout(PATIENCE):
            report = await engine.run(engine.submit("Write 2 into number.txt.", Constraints()))
    changed = {name for name, text in files.items() if (repo / name).read_text() != text}
    assert report_problems(report.model_dump(mode="json")) == ()
    assert report.state in ("SUCCESS", "STUCK")
    assert report.verified == (report.state == "SUCCESS") == ("2" in (repo / "number.txt").read_text())
    assert set(report.files_changed) == changed
    assert report.traceback == ""
    return report, events, model


async def test_a_session_of_five_turns_ends(tmp_path: Path, server: LocalServer) -> None:
    report, events, model = await run(tmp_path, server, turns=5, tool="ls", transport="schema")
    replies = [event.body for event in events if isinstance(event.body, ReplyReceived)]
    failures = [event.body for event in events if isinstance(event.body, ReplyFailed)]
    # A model that goes in circles gets a last turn, in which it can only conclude, and that twice at most.
    assert len(replies) <= 5 + 2
    assert len(model.asked) <= 2 * (5 + 2)
    assert report.requests == len(replies) == len(model.asked) - len(failures)
    assert report.prompt_tokens == sum(reply.prompt_tokens for reply in replies) > 0
    assert 0 < report.completion_tokens <= TOKENS["schema"] * len(replies)
    # Each turn only adds to the prompt, so the server has read most of it before.
    assert all(reply.cached_tokens for reply in replies[1:])


async def test_a_context_that_is_full_is_cut_and_the_run_goes_on(tmp_path: Path, server: LocalServer) -> None:
    read = ToolCall("c1", "read_file", '{"path": "long.txt"}')
    opening = Reply(Message("assistant", "", (read,)), finish="calls")
    report, events, model = await run(tmp_path, server, turns=2, tool="read_file", openings=[opening])
    kinds = [
        type(event.body).__name__ if not isinstance(event.body, ReplyFailed) else event.body.error
        for event in events
        if isinstance(event.body, ReplyReceived | ReplyFailed | ViewCompacted)
    ]
    assert kinds[:2] == ["ReplyReceived", "overflow"]
    cut = kinds.index("ReplyReceived", 1)
    assert set(kinds[1:cut]) == {"overflow", "ViewCompacted"}
    assert report.files_read == ("long.txt",)
    sizes = [sum(len(message.content) for message in request.messages) for request in model.asked]
    assert sizes[2] < sizes[1]
