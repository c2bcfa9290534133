"""What is found out about a server, what is remembered, and stepping down on evidence."""

from pathlib import Path
from typing import Any

import pytest
from local_model_server import ASK, LS, TOOLS, Body, Habits, asking, calling, obedient, text

from headgate.core import Message, Model, ModelSettings, Request, ToolCall
from headgate.errors import ModelUnavailable, ReplyInvalid
from headgate.models import open_configured_model
from headgate.models.network import AutoModel, complete_settings, find_server_facts, open_model
from headgate.models.server_facts import TOOL, ServerFacts, ServerInquiry
from headgate.models.text_transport import NativeModel
from headgate.models.wire.openai import OpenAIModel

CALL = '<tool_call>{"name": "ls", "arguments": {"path": "."}}</tool_call>'


async def found_by(habits: Habits, cache: Path, model: str = "m", **fields: Any) -> ServerFacts | None:
    async with habits.running() as server:
        settings = ModelSettings(
            model=f"openai/{model}", base_url=server.url, **{"tool_transport": "auto", **fields}
        )
        return await find_server_facts(settings, cache)


async def findings(habits: Habits, cache: Path, model: str = "m") -> dict[str, Any]:
    found = await found_by(habits, cache, model)
    assert found is not None
    return found.model_dump(exclude={"at"}, exclude_defaults=True)


def without_tools(body: Body) -> str | None:
    return "tools param requires --jinja flag" if "tools" in body else None


@pytest.mark.parametrize(
    ("habits", "model", "found", "requests"),
    [
        (Habits(lambda body: calling(TOOL.name, ok=True)), "m", {"native": "calls"}, 1),
        (Habits(text('{"name": "report_ready", "arguments": {"ok": true}}')), "m", {"native": "text"}, 1),
        (
            Habits(obedient, count_tools=False),
            "m",
            {"native": "none", "tools_dropped": True, "constrains": True},
            3,
        ),
        (Habits(text("Hm."), refuse=without_tools), "m", {"native": "refused", "constrains": False}, 2),
        (Habits(obedient), "smollm2:135m", {"constrains": True}, 1),  # that family is known to call no tool
    ],
    ids=["calls", "text", "tools dropped", "tools refused", "a family that cannot"],
)
async def test_what_a_probe_finds_out(
    tmp_path: Path, habits: Habits, model: str, found: dict[str, Any], requests: int
) -> None:
    assert await findings(habits, tmp_path, model) == found
    assert len(habits.asked) == requests


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({}, "native"),
        ({"native": "calls"}, "native"),
        ({"native": "text"}, "text"),
        ({"native": "none", "constrains": True}, "schema"),
        ({"native": "none", "constrains": False}, "text"),
        ({"native": "refused", "constrains": True}, "schema"),
    ],
)
async def test_the_transport_follows_from_the_findings(found: dict[str, Any], chosen: str) -> None:
    settings = ModelSettings(model="openai/m", base_url="http://localhost:1/v1", tool_transport="auto")
    async with open_model(settings, ServerInquiry(settings, findings=ServerFacts(**found))) as model:
        assert isinstance(model, AutoModel)
        assert model.transport == chosen


def listed(owner: str, **more: Any) -> dict[str, Any]:
    """The page of models of a server of this kind."""
    models = [{"id": "m", "owned_by": owner, **more}, {"id": "other", "owned_by": owner}]
    return {"/v1/models": {"data": models}}


LLAMACPP = listed("llamacpp") | {"/props": {"default_generation_settings": {"n_ctx": 4096}}}
LARGEST = {"model_info": {"qwen3.context_length": 40960}}
OLLAMA = listed("library") | {"/api/show": LARGEST}
LOADED = {"/api/ps": {"models": [{"name": "m:latest", "context_length": 8192}]}}
SET = {"/api/show": {"parameters": 'stop "x"\nnum_ctx                        16384', **LARGEST}}
LM_STUDIO = {"/api/v0/models/m": {"loaded_context_length": 4096, "max_context_length": 32768}}


@pytest.mark.parametrize(
    ("kind", "window", "pages"),
    [
        ("llamacpp", 4096, LLAMACPP),
        ("vllm", 32768, listed("vllm", max_model_len=32768)),
        ("sglang", 8192, listed("sglang", max_model_len=8192)),
        ("ollama", 8192, OLLAMA | LOADED),
        ("ollama", 16384, OLLAMA | {"/api/ps": {"models": []}} | SET),
        ("ollama", 40960, OLLAMA),
        ("lmstudio", 4096, listed("organization_owner") | LM_STUDIO),
        ("unknown", None, {}),
        ("vllm", None, listed("vllm", max_model_len=-1)),
        ("llamacpp", None, LLAMACPP | {"/props": {"default_generation_settings": "?"}}),
        ("unknown", None, {"/v1/models": {"data": [{"id": 3}, "x"]}}),
    ],
)
async def test_what_servers_tell_of_themselves(
    tmp_path: Path, kind: str, window: int | None, pages: dict[str, Any]
) -> None:
    found = await found_by(Habits(lambda body: calling(TOOL.name, ok=True), pages), tmp_path)
    assert found is not None
    assert (found.server, found.context_window) == (kind, window)
    # Also where the transport is named, and the model is asked nothing.
    habits = Habits(text("?"), pages)
    async with habits.running() as server:
        named = ModelSettings(model="openai/m", base_url=server.url, tool_transport="text")
        fitted, inquiry = await complete_settings(named, tmp_path / "other")
    known = inquiry.findings or ServerFacts()
    assert (known.server, fitted.context_window, habits.asked) == (kind, window, [])


async def test_what_was_found_is_remembered(tmp_path: Path) -> None:
    habits = Habits(lambda body: calling(TOOL.name, ok=True))
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url, tool_transport="auto")
        first = await find_server_facts(settings, tmp_path)
        assert await find_server_facts(settings, tmp_path) == first
        assert len(habits.asked) == 1
        assert await find_server_facts(settings, tmp_path, fresh=True) != first
        assert len(habits.asked) == 2
        await find_server_facts(settings.model_copy(update={"model": "openai/n"}), tmp_path)
        assert len(habits.asked) == 3
        for file in tmp_path.iterdir():
            file.write_text("{")
        await find_server_facts(settings, tmp_path)
        assert len(habits.asked) == 4
        for file in tmp_path.iterdir():
            file.write_text(ServerFacts(native="text", at=1.0).model_dump_json())
        assert (await find_server_facts(settings, tmp_path) or ServerFacts()).native == "calls"


async def test_a_probe_that_fails_is_no_failure(tmp_path: Path) -> None:
    async with Habits(text("?")).running() as server:
        gone = server.url
    settings = ModelSettings(model="openai/m", base_url=gone, tool_transport="auto")
    assert await find_server_facts(settings, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    async with open_configured_model(settings, cache=tmp_path) as (model, fitted):
        assert isinstance(model, AutoModel)
        assert (model.transport, fitted) == ("native", settings)
        with pytest.raises(ModelUnavailable):
            await model.reply(Request([ASK], TOOLS))


async def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    habits = Habits(lambda body: calling(TOOL.name, ok=True))
    assert await findings(habits, tmp_path / "file" / "folder") == {"native": "calls"}


@pytest.mark.parametrize("model", ["openai/gpt-5-pro", "anthropic/claude"])
async def test_the_large_providers_are_not_asked(tmp_path: Path, model: str) -> None:
    settings = ModelSettings(model=model, tool_transport="auto")
    assert await find_server_facts(settings, tmp_path) is None
    async with open_configured_model(settings, cache=tmp_path) as (opened, fitted):
        assert not isinstance(opened, AutoModel | NativeModel)
        assert isinstance(opened, OpenAIModel) == model.startswith("openai")
        assert fitted == settings
    async with open_configured_model(ModelSettings(model=model), cache=tmp_path) as (opened, _):
        assert not isinstance(opened, AutoModel | NativeModel)


async def test_what_the_user_wrote_wins(tmp_path: Path) -> None:
    pages = listed("vllm", max_model_len=8192)
    habits = Habits(lambda body: calling(TOOL.name, ok=True), pages)
    async with habits.running() as server:
        given = {"base_url": server.url, "temperature": 0.3, "context_window": 1000}
        settings = ModelSettings(model="openai/devstral", tool_transport="auto", **given)
        async with open_configured_model(settings, cache=tmp_path) as (_, fitted):
            assert fitted == settings
        left_open = ModelSettings(model="openai/devstral", base_url=server.url, tool_transport="auto")
        async with open_configured_model(left_open, cache=tmp_path) as (_, fitted):
            # The server lists another model, so the family's own window counts.
            assert (fitted.temperature, fitted.context_window) == (0.15, 131072)
        named = ModelSettings(model="openai/m", base_url=server.url, tool_transport="auto")
        async with open_configured_model(named, cache=tmp_path) as (_, fitted):
            assert (fitted.temperature, fitted.context_window) == (None, 8192)


async def answers(model: Model, count: int) -> list[str]:
    """What the model does with as many requests: the called tools, or what is wrong."""
    done = []
    for _ in range(count):
        try:
            reply = await model.reply(Request([ASK], TOOLS))
        except ReplyInvalid as error:
            done.append(str(error)[:22])
        else:
            done.append(",".join(call.name for call in reply.message.calls) or reply.message.content)
    return done


async def opened(habits: Habits, found: ServerFacts, count: int) -> tuple[list[str], str]:
    async with asking(habits, "auto", found) as model:
        done = await answers(model, count)
        assert isinstance(model, AutoModel)
        return done, model.transport


async def test_another_way_to_call_tools_is_told_once() -> None:
    refusing = Habits(text(CALL), refuse=without_tools)
    rescued = Habits(text(CALL))
    for habits, found, first in ((refusing, ServerFacts(), 0), (rescued, ServerFacts(native="calls"), 2)):
        async with asking(habits, "auto", found) as model:
            remarks = [(await model.reply(Request([ASK], TOOLS))).remark for _ in range(5)]
        assert remarks[first].startswith("Calls are read from text from now on.")
        assert [bool(remark) for remark in remarks].count(True) == 1


async def test_a_schema_that_is_ignored_is_given_up() -> None:
    habits = Habits(text("Good morning."))
    found = ServerFacts(native="none", constrains=True)
    done, transport = await opened(habits, found, 3)
    assert (done, transport) == (["The reply must be one "] * 2 + ["Good morning."], "text")


async def test_a_schema_that_is_refused_is_given_up_at_once() -> None:
    habits = Habits(text(CALL), refuse=lambda body: "response_format?" if "response_format" in body else None)
    found = ServerFacts(native="none", constrains=True)
    assert await opened(habits, found, 2) == (["ls", "ls"], "text")
    async with asking(habits, "auto", found) as model:
        remarks = [(await model.reply(Request([ASK], (LS,)))).remark for _ in range(2)]
    assert remarks[0].startswith("Calls are read from text from now on. The model server at ")
    assert remarks[0].endswith("rejected the request (HTTP 400): response_format?")
    assert remarks[1] == ""


async def native(said: Body, *, rescue: bool = True, model: str = "m") -> Message:
    async with Habits(lambda body: said).running() as server:
        transport: Any = "auto" if rescue else "native"
        settings = ModelSettings(model=f"openai/{model}", base_url=server.url, tool_transport=transport)
        async with open_model(settings) as opened_model:
            return (await opened_model.reply(Request([ASK], (LS,)))).message


async def test_native_replies_lose_only_their_thinking() -> None:
    assert await native({"content": "<think>Hm.</think>\nFine."}) == Message(
        "assistant", "Fine.", reasoning="Hm."
    )
    told = Message("assistant", "Fine.", (ToolCall("c", "ls", "{}"),), reasoning="Hm.")
    assert await native({"content": "<think>Hm.</think>Fine.", **calling("ls")}) == told
    assert await native({"content": CALL}, rescue=False) == Message("assistant", CALL)
    assert await native({"content": f"Write `{CALL}` to look."}) == Message(
        "assistant", f"Write `{CALL}` to look."
    )
    with pytest.raises(ReplyInvalid, match="is incomplete"):
        await native({"content": CALL[:-20]})
