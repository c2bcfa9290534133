"""Without `tool_transport`: the server's own calls, nothing besides, until something speaks against them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from local_model_server import ASK, TOOLS, Body, Habits, calling, obedient, text

from headgate.core import Message, Model, ModelSettings, Request, Usage
from headgate.errors import CallUnknown, ContextOverflow, ReplyInvalid
from headgate.models import find_window, open_configured_model
from headgate.models.network import AutoModel, find_server_facts
from headgate.models.server_facts import TOOL, ServerFacts
from models.model_server import Server

CALL = '<tool_call>{"name": "ls", "arguments": {"path": "."}}</tool_call>'
PROPS = {
    "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp"}]},
    "/props": {"default_generation_settings": {"n_ctx": 4096}},
}


def is_probe(body: Body) -> bool:
    first: str = body["messages"][0]["content"]
    return TOOL.name in first or first == "Say good morning."


HELLO = text("Hello.")


def taking_turns(*said: Body, probed: Callable[[Body], Body] = HELLO) -> Callable[[Body], Body]:
    """Says one thing after the other, the last for ever; `probed` answers a probe."""
    left = list(said)

    def say(body: Body) -> Body:
        if is_probe(body):
            return probed(body)
        return left.pop(0) if len(left) > 1 else left[0]

    return say


async def converse(model: Model, count: int) -> list[str]:
    """What comes of as many requests: the called tools, or the words."""
    done = []
    for number in range(count):
        reply = await model.reply(Request([ASK, Message("user", str(number))], TOOLS))
        done.append(",".join(call.name for call in reply.message.calls) or reply.message.content)
    return done


async def run(
    habits: Habits, cache: Path, count: int, **fields: Any
) -> tuple[list[str], str, Server, list[str]]:
    """The answers, the transport at the end, the server, and what each request to the model was."""
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url, **fields)
        async with open_configured_model(settings, cache=cache) as (model, _):
            done = await converse(model, count)
            transport = model.transport if isinstance(model, AutoModel) else ""
    return done, transport, server, kinds(habits.asked)


def kinds(asked: Iterable[Body]) -> list[str]:
    return [
        "probe"
        if is_probe(b)
        else "native"
        if "tools" in b
        else "schema"
        if "response_format" in b
        else "text"
        for b in asked
    ]


async def test_a_healthy_server_is_sent_not_a_byte_more(tmp_path: Path) -> None:
    talk = (calling("ls"), {"content": "Well."}, {"content": "Hm."}, {"content": "So."}, calling("ls"))
    sent = []
    for fields in ({}, {"tool_transport": "native"}):
        habits = Habits(taking_turns(*talk), PROPS)
        done, _, server, _ = await run(habits, tmp_path, 7, **fields)
        assert done == ["ls", "Well.", "Hm.", "So.", "ls", "ls", "ls"]
        sent.append([(seen.line, seen.body) for seen in server.seen])
    assert sent[0] == sent[1]
    assert list(tmp_path.iterdir()) == []


async def test_calls_in_the_text_are_run_and_then_expected_there(tmp_path: Path) -> None:
    done, transport, _, asked = await run(Habits(text(CALL)), tmp_path, 5)
    assert (done, transport) == (["ls"] * 5, "text")
    assert asked == ["native"] * 3 + ["text"] * 2


async def test_a_marked_call_that_cannot_be_run_is_answered(tmp_path: Path) -> None:
    with pytest.raises(CallUnknown, match='There is no tool "rm"'):
        await run(Habits(text(CALL.replace('"ls"', '"rm"'))), tmp_path, 1)
    with pytest.raises(ReplyInvalid, match='The call to "ls" cannot be read'):
        await run(Habits(text('<|tool_call_start|>[ls(path="a "b" c")]<|tool_call_end|>')), tmp_path, 1)


@pytest.mark.parametrize("said", [f"Write `{CALL}` to look.", f"For example:\n{CALL}"])
async def test_what_is_no_call_is_not_run(tmp_path: Path, said: str) -> None:
    done, _, _, asked = await run(Habits(text(said)), tmp_path, 1)
    assert (done, asked) == ([said], ["native"])


async def test_a_named_native_transport_takes_no_calls_from_the_text(tmp_path: Path) -> None:
    done, _, server, asked = await run(Habits(text(CALL)), tmp_path, 4, tool_transport="native")
    assert (done, asked, len(server.seen)) == ([CALL] * 4, ["native"] * 4, 4)


async def test_a_server_that_refuses_tools_is_asked_again_at_once(tmp_path: Path) -> None:
    habits = Habits(text(CALL), refuse=lambda body: "m does not support tools" if "tools" in body else None)
    done, transport, server, asked = await run(habits, tmp_path, 3)
    assert (done, transport) == (["ls"] * 3, "text")
    assert asked == ["native", "text", "text", "text"]
    assert len(server.seen) == 4


async def test_after_two_silent_replies_it_is_found_out_what_works(tmp_path: Path) -> None:
    habits = Habits(obedient, count_tools=False)
    done, transport, _, asked = await run(habits, tmp_path, 4)
    assert (done[1:], transport) == (["ls"] * 3, "schema")
    assert asked == ["native"] * 2 + ["probe"] * 3 + ["schema"] * 3
    # The second request is made again, in the other way.
    ends = [habits.asked[index]["messages"][-1]["content"] for index in (1, 5)]
    assert ends == ["1", "Begin.\n\n1"]


async def test_what_was_found_out_is_used_without_asking(tmp_path: Path) -> None:
    habits = Habits(obedient, PROPS)
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url)
        async with open_configured_model(settings, cache=tmp_path) as (model, fitted):
            await converse(model, 3)
            assert (fitted.context_window, find_window(model, fitted)) == (None, 4096)
        before = len(server.seen)
        async with open_configured_model(settings, cache=tmp_path) as (model, fitted):
            assert len(server.seen) == before
            assert (fitted.context_window, find_window(model, fitted)) == (4096, 4096)
            assert await converse(model, 2) == ["ls", "ls"]
    assert kinds(habits.asked)[-2:] == ["schema"] * 2


@pytest.mark.parametrize("transport", [None, "auto"])
async def test_a_server_that_was_started_differently_since_is_asked_once_more(
    tmp_path: Path, transport: Any
) -> None:
    habits = Habits(lambda body: calling(TOOL.name if is_probe(body) else "ls"))
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url, tool_transport=transport)
        assert (await find_server_facts(settings, tmp_path) or ServerFacts()).native == "calls"
        habits.say = obedient
        habits.asked.clear()
        async with open_configured_model(settings, cache=tmp_path) as (model, _):
            assert (await converse(model, 4))[1:] == ["ls"] * 3
        assert kinds(habits.asked) == ["native"] * 2 + ["probe"] * 3 + ["schema"] * 3
        # What was found replaces what was remembered.
        habits.asked.clear()
        async with open_configured_model(settings, cache=tmp_path) as (model, _):
            assert await converse(model, 2) == ["ls"] * 2
        assert kinds(habits.asked) == ["schema"] * 2


async def test_a_model_that_stays_silent_is_asked_once_a_task(tmp_path: Path) -> None:
    habits = Habits(taking_turns({"content": "Hm."}, probed=lambda body: calling(TOOL.name, ok=True)))
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url, tool_transport="auto")
        for asked in (
            ["probe"] + ["native"] * 5,  # at the start, and not again
            ["native"] * 2 + ["probe"] + ["native"] * 3,  # remembered, and doubted
        ):
            habits.asked.clear()
            async with open_configured_model(settings, cache=tmp_path) as (model, _):
                assert await converse(model, 5) == ["Hm."] * 5
            assert kinds(habits.asked) == asked


async def test_broken_calls_are_no_silence(tmp_path: Path) -> None:
    habits = Habits(taking_turns({"content": "Hm."}, {"content": CALL[:-20]}, {"content": "Hm."}))
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url)
        async with open_configured_model(settings, cache=tmp_path) as (model, _):
            await converse(model, 1)
            with pytest.raises(ReplyInvalid):
                await converse(model, 1)
            await converse(model, 1)
    assert kinds(habits.asked) == ["native"] * 3


async def test_a_request_without_tools_says_nothing_about_them(tmp_path: Path) -> None:
    habits = Habits(text("Hm."))
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url)
        async with open_configured_model(settings, cache=tmp_path) as (model, _):
            for _ in range(4):
                await model.reply(Request([ASK]))
    assert len(server.seen) == 4


async def test_a_probe_that_fails_is_not_repeated(tmp_path: Path) -> None:
    def refuse(body: Body) -> str | None:
        return "no such thing" if is_probe(body) else None

    habits = Habits(text("Hm."), refuse=refuse)
    done, transport, _, asked = await run(habits, tmp_path, 5)
    assert (done, transport) == (["Hm."] * 5, "native")
    assert asked == ["native"] * 2 + ["probe"] + ["native"] * 3
    assert list(tmp_path.iterdir()) == []


async def test_what_the_questions_cost_is_told_with_the_next_reply(tmp_path: Path) -> None:
    habits = Habits(obedient)
    async with habits.running() as server:
        for transport, replies in ((None, 2), ("auto", 1)):
            settings = ModelSettings(model="openai/m", base_url=server.url, tool_transport=transport)
            habits.asked.clear()
            async with open_configured_model(settings, cache=tmp_path / str(transport)) as (model, _):
                told = [await model.reply(Request([ASK], TOOLS)) for _ in range(replies + 1)]
            # The questions, and the request that was made in vain before them.
            extra = habits.asked[1:5] if transport is None else habits.asked[:3]
            assert kinds(extra) == ["native"] * (transport is None) + ["probe"] * 3
            spent = sum(len(json.dumps([body["messages"], body.get("tools", [])])) // 4 for body in extra)
            asides = [reply.aside for reply in told]
            assert asides[replies - 1 :] == [Usage(spent, 5 * len(extra)), Usage()]
            assert set(asides[: replies - 1]) <= {Usage()}
            # The count of the prompt itself, by which views are cut, is not touched.
            assert told[replies - 1].usage == told[replies].usage


@pytest.mark.parametrize(
    ("given", "window"),
    [({}, 4096), ({"tool_transport": "native"}, 4096), ({"context_window": 9000}, 9000)],
)
async def test_a_request_that_does_not_fit_is_reason_to_ask_for_the_window(
    tmp_path: Path, given: dict[str, Any], window: int
) -> None:
    habits = Habits(
        lambda body: calling("ls"), PROPS, refuse=lambda body: "exceeds the available context size"
    )
    async with habits.running() as server:
        settings = ModelSettings(model="openai/m", base_url=server.url, **given)
        async with open_configured_model(settings, cache=tmp_path) as (model, fitted):
            assert server.seen == []
            for _ in range(2):
                with pytest.raises(ContextOverflow):
                    await model.reply(Request([ASK], TOOLS))
            assert find_window(model, fitted) == window
    paths = [seen.path for seen in server.seen if not seen.path.endswith("/completions")]
    assert paths == ([] if "context_window" in given else ["/v1/models", "/props"])


async def test_where_tools_are_refused_and_words_come_a_schema_is_tried(tmp_path: Path) -> None:
    habits = Habits(obedient, refuse=lambda body: "m does not support tools" if "tools" in body else None)
    done, transport, _, asked = await run(habits, tmp_path, 3)
    assert (done[1:], transport) == (["ls", "ls"], "schema")
    # That tools are refused is known: only the schema is asked about.
    assert asked == ["native", "text", "text", "probe", "schema", "schema"]


async def test_a_family_that_knows_no_calls_begins_with_what_it_can(tmp_path: Path) -> None:
    habits = Habits(obedient)
    async with habits.running() as server:
        settings = ModelSettings(model="openai/qwen2.5-coder:1.5b", base_url=server.url)
        async with open_configured_model(settings, cache=tmp_path) as (model, _):
            assert await converse(model, 3) == ["ls"] * 3
    assert kinds(habits.asked) == ["schema"] * 3
    assert len(server.seen) == 3
