"""Whole runs with a real model that is far too small for them: they end, and the report is true."""

import asyncio
import subprocess
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headgate.cli.commands.demo import describe_control
from headgate.cli.local_server import LocalServer
from headgate.config import load_config
from headgate.core import (
    Constraints,
    Event,
    Message,
    Model,
    OnDelta,
    Reply,
    ReplyFailed,
    ReplyReceived,
    Request,
    ToolCall,
    ViewCompacted,
)
from headgate.engine import Engine
from headgate.log import Report, report_problems
from headgate.models.network import open_model

PATIENCE = 300.0
"""Seconds after which a run counts as one that does not end."""
LONGEST = 24
"""Tokens of a reply: as many as the object for one call needs."""
FLOW = """
name: brief
stages:
  - id: work
    prompt: Look.
    tools: {allow: [ls]}
    checks: [{tool_calls: TURNS}]
    advance: rules
    budget: {turns: TURNS, bad_replies: TURNS, retries: 0, verify_loops: 1, exhausted: stuck}
checks: [verify]
"""
SETTINGS = """
flow: FLOW
task_status: never
loop_detection: false
verification: {steps: [{name: there, command: test -d .git}]}
"""
OPENING = Reply(Message("assistant", "Look.", (ToolCall("c1", "ls", "{}"),)), finish="calls")
FEW = ("n",)
MANY = (f"a{'information' * 20}", f"b{'1' * 240}", f"c{'1' * 240}", f"d{'information' * 20}")
"""Names that are too long together; each figure is a token, and what a cut leaves is cheap to read."""


@dataclass
class Opened:
    """Gives one reply that was written for it, as an example, then asks a real model."""

    model: Model
    name: str = "opened"
    offered: list[set[str]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.offered.append({tool.name for tool in request.tools})
        self.sizes.append(sum(len(message.content) for message in request.messages))
        if len(self.sizes) == 1:
            return OPENING
        self.replies.append(await self.model.reply(request, on_delta))
        return self.replies[-1]


def make_repo(repo: Path, names: tuple[str, ...]) -> Path:
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / ".gitignore").write_text("*\n")  # so that `ls` alone tells the names, not the first message
    for name in names:
        (repo / name).touch()
    return repo


async def run(
    place: Path, server: LocalServer, names: tuple[str, ...], turns: int
) -> tuple[Report, list[Event], Opened]:
    repo = make_repo(place / "repo", names)
    # Beside the repository, where the model does not see them.
    flow, settings_file = place / "flow.yaml", place / "agent.yaml"
    flow.write_text(FLOW.replace("TURNS", str(turns)))
    settings_file.write_text(SETTINGS.replace("FLOW", str(flow)))
    loaded = load_config(repo, environ={}, flags={}, user_file=settings_file)
    events: list[Event] = []
    async with AsyncExitStack() as stack:
        settings = server.settings(temperature=0, seed=1, max_tokens=LONGEST, tool_transport="schema")
        model = Opened(await stack.enter_async_context(open_model(settings)))
        engine = Engine.open(repo, loaded, models={None: model})
        stack.callback(engine.store.close)
        engine.bus.on_event.append(events.append)
        async with asyncio.timeout(PATIENCE):
            report = await engine.run(engine.submit("Look.", Constraints()))
    assert report_problems(report.model_dump(mode="json")) == ()
    # The stage is done if every turn brought a call that succeeded, which is up to the model.
    assert (report.state, report.verified) in (("SUCCESS", True), ("STUCK", False))
    assert (report.files_changed, report.traceback) == ((), "")
    return report, events, model


async def test_a_session_of_five_turns_ends(tmp_path: Path, server: LocalServer) -> None:
    report, events, model = await run(tmp_path, server, FEW, turns=1 + 5)
    replies = [event.body for event in events if isinstance(event.body, ReplyReceived)][1:]
    assert len(replies) == len(model.replies) == report.requests - 1 == 5
    for reply, offered in zip(model.replies, model.offered[1:], strict=True):
        assert reply.finish in ("calls", "length")
        assert {call.name for call in reply.message.calls} <= offered
    # The first reply is a script's: no server counts its tokens, so they are estimated.
    all_replies = [event.body for event in events if isinstance(event.body, ReplyReceived)]
    assert report.prompt_tokens == sum(reply.prompt_tokens for reply in all_replies) > 0
    assert 0 < report.completion_tokens <= LONGEST * len(replies)
    told = " ".join(describe_control(report))
    assert f"in {report.requests} replies" in told
    assert report.verified or f"the state is {report.state}, and the exit code 1" in told
    # Each turn only adds to the prompt, so the server has read most of it before.
    assert all(reply.cached_tokens > reply.prompt_tokens / 2 for reply in replies[1:])


async def test_a_context_that_is_full_is_cut_and_the_run_goes_on(tmp_path: Path, server: LocalServer) -> None:
    report, events, model = await run(tmp_path, server, MANY, turns=1 + 1)
    kinds = [
        type(event.body).__name__ if not isinstance(event.body, ReplyFailed) else event.body.error
        for event in events
        if isinstance(event.body, ReplyReceived | ReplyFailed | ViewCompacted)
    ]
    assert kinds == ["ReplyReceived", "overflow", "ViewCompacted", "ReplyReceived"]
    assert model.sizes[2] < model.sizes[1]
    assert report.requests == 1 + len(model.replies) == 2
