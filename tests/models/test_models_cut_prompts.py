"""Prompts that a server cuts off without a word: noticed, told once, and never suspected without reason."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from model_server import answer, chunk, serve, stream
from ollama_server import calling, ollama

from headgate.config import load_config
from headgate.core import (
    Constraints,
    Cut,
    Event,
    Message,
    ModelSettings,
    PromptCut,
    Request,
    State,
    ToolSpec,
    ViewCompacted,
)
from headgate.engine import Engine
from headgate.log import Report
from headgate.models.network import open_model
from headgate.models.servers import explain_remedy

LONG = Request([Message("system", "Be brief."), Message("user", "word " * 8000)])
"""About 10,000 tokens."""
REMEDY = (
    "Write model: ollama/qwen3:8b, for which Headgate sets the window, "
    "or start Ollama with OLLAMA_CONTEXT_LENGTH=32768 ollama serve"
)


async def ask(request: Request, url: str, **fields: Any) -> Cut | None:
    given = {"model": "openai/qwen3:8b", "base_url": url, **fields}
    async with open_model(ModelSettings.model_validate(given)) as model:
        return (await model.reply(request)).cut


@pytest.mark.parametrize("transport", [None, "native", "text"])
async def test_ollama_s_default_window(transport: str | None) -> None:
    async with ollama() as (server, _):
        cut = await ask(LONG, server.url, tool_transport=transport)
    assert cut is not None
    assert (cut.window, cut.remedy) == (4096, REMEDY)
    assert 9_000 < cut.sent < 11_000
    assert cut.read <= 4096


async def test_an_older_ollama_does_not_tell_its_window() -> None:
    async with ollama(tells_loaded=False) as (server, _):
        cut = await ask(LONG, server.url)
    assert cut is not None
    assert (cut.window, cut.remedy) == (None, REMEDY)


async def test_ollama_s_own_api_never_cuts() -> None:
    async with ollama() as (server, _):
        assert await ask(LONG, server.url, model="ollama/qwen3:8b") is None


def counting(tokens: int, *more: Any) -> Any:
    """An answer whose prompt had so many tokens, by the server's count."""
    return answer(
        stream(
            chunk({"content": "Hi"}),
            chunk(finish="stop"),
            {"choices": [], "usage": {"prompt_tokens": tokens}},
        )
    )


async def test_a_server_that_leaves_its_cache_out_of_the_count() -> None:
    """It reads 300 new tokens of 10,000, or 1,500 in a conversation that goes on: neither was cut."""
    going_on = [*LONG.messages, Message("assistant", "Yes."), Message("user", "Go on.")]
    async with serve(counting(300)) as server:
        assert await ask(LONG, server.url) is None
    async with serve(counting(1500)) as server:
        assert await ask(Request(going_on), server.url) is None


async def test_a_low_count_within_the_window_is_no_cut() -> None:
    async def respond(seen: Any, wire: Any) -> None:
        told = {
            "/v1/models": {"data": [{"id": "qwen3:8b", "owned_by": "library"}]},
            "/api/ps": {"models": [{"name": "qwen3:8b", "context_length": 16_384}]},
        }.get(seen.path)
        await (answer(told) if told else counting(1500))(seen, wire)

    async with serve(respond) as server:
        assert await ask(LONG, server.url) is None


async def test_tools_that_a_server_does_not_show_are_no_cut() -> None:
    tools = tuple(
        ToolSpec(f"tool_{number}", "What it does. " * 100, {"type": "object"}, "read") for number in range(20)
    )
    brief = Request([Message("user", "word " * 1200)], tools)
    async with serve(counting(1200)) as server:
        assert await ask(brief, server.url, tool_transport="native") is None


async def test_a_server_without_a_name() -> None:
    async with serve(counting(2048)) as server:
        cut = await ask(LONG, server.url)
    assert cut is not None
    assert (
        cut.remedy
        == explain_remedy("unknown", "qwen3:8b")
        == ("Start the model server with a larger context window")
    )


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    for number in range(8):
        (folder / f"part{number}.txt").write_text(f"Line {number} of a part.\n" * 180)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


async def run_task(repo: Path, agent: str) -> tuple[Report, list[Event]]:
    (repo / "agent.yaml").write_text(agent)
    loaded = load_config(repo, environ={}, flags={}, user_file=repo.parent / "none.yaml")
    engine = Engine.open(repo, loaded)
    events: list[Event] = []
    engine.bus.on_event.append(events.append)
    try:
        return await engine.run(engine.submit("Make add() add.", Constraints())), events
    finally:
        engine.store.close()


async def test_a_whole_task_says_it_once_and_goes_on_in_the_window(repo: Path) -> None:
    steps = [
        *(calling("read_file", path=f"part{number}.txt") for number in range(8)),
        calling("edit_file", path="calc.py", old="a - b", new="a + b"),
        calling("stage_done", stage="work", summary="It adds now."),
    ]
    left = iter(steps)
    async with ollama(say=lambda body: [next(left)]) as (server, _):
        agent = f"task_flow_mode: flat\nmodel: openai/qwen3:8b\nbase_url: {server.url}\n"
        report, events = await run_task(repo, agent)
    assert report.state == "SUCCESS"
    cuts = [event.body for event in events if isinstance(event.body, PromptCut)]
    assert [(cut.model, cut.window, cut.remedy) for cut in cuts] == [("openai/qwen3:8b", 4096, REMEDY)]
    (warning,) = report.warnings
    assert warning == cuts[0].describe()
    assert warning.startswith(
        f"the model server read only {cuts[0].read:,} of about {cuts[0].sent:,} tokens "
    )
    assert f"Warning: {warning}." in report.summary
    assert any(isinstance(event.body, ViewCompacted) for event in events)
    state = State()
    lines = [event.line(state) for event in events if state.apply(event) is None]
    assert [line.text for line in lines if line].count(f"Warning: {warning}") == 1
