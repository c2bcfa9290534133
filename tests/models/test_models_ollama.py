"""What goes to Ollama's own API and what comes back, over a server that behaves as its documentation says."""

import json
from typing import Any

import pytest
from model_server import answer, serve
from ollama_server import calling, ollama

from headgate.core import Delta, Message, ModelSettings, Request, Timing, ToolCall, ToolSpec, Usage
from headgate.errors import ContextOverflow, ModelRefused
from headgate.models import find_window, open_configured_model
from headgate.models.network import open_model
from headgate.models.wire import open_wire
from headgate.models.wire.failures import ModelUnknown, RequestRejected, ServerTrouble, ToolsUnsupported
from headgate.models.wire.http import list_models

LS = ToolSpec("ls", "List a folder.", {"type": "object", "properties": {"path": {"type": "string"}}}, "read")
TALK = (
    Message("system", "Be brief."),
    Message("user", "Häuser?"),
    Message("assistant", "Looking.", (ToolCall("c1", "ls", '{"path": "."}'),), reasoning="hm"),
    Message("tool", "a.py", call_id="c1"),
)
HI = Request([Message("user", "hi")])


def settings(url: str, **fields: Any) -> ModelSettings:
    return ModelSettings.model_validate({"model": "ollama/qwen3:8b", "base_url": url, **fields})


async def test_the_whole_request() -> None:
    async with ollama(models={"qwen3:8b": {"capabilities": ["tools", "thinking"]}}) as (server, habits):
        given = settings(
            server.url,
            temperature=0.5,
            top_p=0.9,
            max_tokens=100,
            seed=7,
            num_ctx=8192,
            keep_alive=-1,
            think="low",
            extra_body={"options": {"top_k": 20}, "logprobs": False},
        )
        async with open_wire(given) as model:
            await model.reply(Request(TALK, (LS,), temperature=0.0, max_tokens=50, stop=("END",)))
    assert server.seen[0].line == "POST /api/chat HTTP/1.1"
    assert habits.chats == [
        {
            "model": "qwen3:8b",
            "stream": True,
            "keep_alive": -1,
            "truncate": False,
            "shift": False,
            "think": "low",
            "logprobs": False,
            "options": {
                "num_ctx": 8192,
                "temperature": 0.0,
                "top_p": 0.9,
                "num_predict": 50,
                "seed": 7,
                "stop": ["END"],
                "top_k": 20,
            },
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Häuser?"},
                {
                    "role": "assistant",
                    "content": "Looking.",
                    "thinking": "hm",
                    "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": {"path": "."}}}],
                },
                {"role": "tool", "content": "a.py", "tool_name": "ls", "tool_call_id": "c1"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "ls",
                        "description": "List a folder.",
                        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
                    },
                }
            ],
        }
    ]


async def test_what_is_left_open() -> None:
    async with ollama() as (server, habits), open_wire(settings(server.url)) as model:
        await model.reply(HI)
    (body,) = habits.chats
    assert body["options"] == {"num_ctx": 16384}
    assert body["keep_alive"] == "15m"
    assert "think" not in body
    assert "tools" not in body


@pytest.mark.parametrize("pieces", [0, 1, 7, 64])
async def test_a_reply_in_any_pieces(pieces: int) -> None:
    said = [
        {"thinking": "Let me"},
        {"thinking": " look…"},
        {"content": "I'll lo"},
        {"content": "ok. ä\n"},
        calling("ls", path="ä b"),
        calling("ls"),
    ]
    seen: list[Delta] = []
    async with (
        ollama(say=lambda body: said, pieces=pieces) as (server, _),
        open_wire(settings(server.url)) as model,
    ):
        reply = await model.reply(Request(TALK, (LS,)), seen.append)
    assert reply.message.content == "I'll look. ä\n"
    assert reply.message.reasoning == "Let me look…"
    assert reply.message.calls == (
        ToolCall("call_1", "ls", '{"path":"ä b"}'),
        ToolCall("call_2", "ls", "{}"),
    )
    assert reply.finish == "calls"
    assert reply.usage.prompt > 0 < reply.usage.completion
    assert reply.timing == Timing(3.0, 2.0, 4.0)
    assert [delta.text for delta in seen if delta.text] == ["I'll lo", "ok. ä\n"]
    assert [delta.reasoning for delta in seen if delta.reasoning] == ["Let me", " look…"]


async def test_a_reply_that_reaches_its_limit() -> None:
    async with ollama() as (server, _), open_wire(settings(server.url, max_tokens=2)) as model:
        assert (await model.reply(HI)).finish == "length"


async def test_a_last_line_without_its_end_and_one_whole_answer() -> None:
    lines = [{"message": {"content": "Hi"}, "done": False}, {"message": {}, "done": True, "eval_count": 3}]
    whole = "\n".join(json.dumps(line) for line in lines).encode()
    once = {"message": {"role": "assistant", "content": "Hi"}, "done": True, "eval_count": 3}
    for respond in (
        answer(whole, content_type="application/x-ndjson"),
        answer(whole, content_type="text/plain"),
        answer(once),
    ):
        async with serve(respond) as server, open_wire(settings(server.url)) as model:
            reply = await model.reply(HI)
        assert (reply.message.content, reply.usage) == ("Hi", Usage(0, 3))


async def test_a_model_that_is_not_there() -> None:
    async with ollama() as (server, _), open_wire(settings(server.url, model="ollama/llama9")) as model:
        with pytest.raises(ModelUnknown) as caught:
            await model.reply(HI)
    assert "does not have the model \"llama9\" (HTTP 404): model 'llama9' not found." in str(caught.value)
    assert str(caught.value).endswith(
        "Get it with `ollama pull llama9`, or choose one of those that `ollama list` shows."
    )


async def test_an_error_in_the_middle_of_a_reply() -> None:
    for error, kind in (
        ("llama runner process has terminated", ServerTrouble),
        ("the prompt is longer than the context length currently available to the model", ContextOverflow),
    ):
        async with ollama(error=error) as (server, _), open_wire(settings(server.url)) as model:
            with pytest.raises(kind, match=error):
                await model.reply(HI)


async def test_a_server_that_is_none_of_ollama_s() -> None:
    page = answer(b"404 page not found", 404, content_type="text/plain")
    async with serve(page) as server, open_wire(settings(server.url)) as model:
        with pytest.raises(ModelUnknown, match="Check the model's name and base_url"):
            await model.reply(HI)
    async with serve(answer({"hello": "world"})) as server, open_wire(settings(server.url)) as model:
        with pytest.raises(ModelRefused, match="does not answer like a model API"):
            await model.reply(HI)


async def test_a_prompt_that_does_not_fit_is_an_error_and_not_cut() -> None:
    long = Request([Message("user", "word " * 4000)])
    async with ollama() as (server, _), open_wire(settings(server.url, num_ctx=2048)) as model:
        with pytest.raises(ContextOverflow, match="input length exceeds the context length"):
            await model.reply(long)
    async with ollama() as (server, _), open_wire(settings(server.url, num_ctx=8192)) as model:
        assert (await model.reply(long)).usage.prompt > 4096


async def test_a_model_that_cannot_think_is_asked_without() -> None:
    async with ollama() as (server, habits), open_wire(settings(server.url, think=True)) as model:
        assert (await model.reply(HI)).message.content == "Hello"
        await model.reply(HI)
    assert [body.get("think") for body in habits.chats] == [True, None, None]


async def test_another_objection_is_not_taken_for_that() -> None:
    async with (
        serve(answer({"error": "invalid option provided"}, 400)) as server,
        open_wire(settings(server.url, think=False)) as model,
    ):
        with pytest.raises(RequestRejected):
            await model.reply(HI)
    assert len(server.seen) == 1


async def test_a_model_without_tools_gets_them_in_another_way() -> None:
    def say(body: Any) -> list[dict[str, Any]]:
        return [{"content": '<tool_call>\n{"name": "ls", "arguments": {"path": "src"}}\n</tool_call>'}]

    plain = {"qwen3:8b": {"capabilities": ["completion"]}}
    async with ollama(models=plain, say=say) as (server, habits):
        async with open_wire(settings(server.url)) as model:
            with pytest.raises(ToolsUnsupported, match="does not support tools"):
                await model.reply(Request(TALK[:2], (LS,)))
        async with open_model(settings(server.url)) as model:
            reply = await model.reply(Request(TALK[:2], (LS,)))
    assert [(call.name, call.arguments) for call in reply.message.calls] == [("ls", '{"path": "src"}')]
    assert "tools" not in habits.chats[-1]


async def test_a_schema_goes_where_ollama_expects_it() -> None:
    def say(body: Any) -> list[dict[str, Any]]:
        assert "ls" in json.dumps(body["format"])
        return [{"content": '{"thought": "look", "name": "ls", "arguments": {"path": "."}}'}]

    async with (
        ollama(say=say) as (server, habits),
        open_model(settings(server.url, tool_transport="schema")) as model,
    ):
        reply = await model.reply(Request(TALK[:2], (LS,)))
    assert [call.name for call in reply.message.calls] == ["ls"]
    assert "response_format" not in habits.chats[0]


async def test_a_form_goes_there_as_well() -> None:
    form = {"type": "object", "properties": {"a": {"type": "integer"}}}
    async with ollama() as (server, habits), open_wire(settings(server.url)) as model:
        await model.reply(Request([Message("user", "hi")], form=form))
    assert habits.chats[0]["format"] == form


@pytest.mark.parametrize(
    ("fields", "context_length", "num_ctx", "window"),
    [
        ({}, 40_960, 16_384, 16_384),
        ({}, 8_192, 8_192, 8_192),
        ({"num_ctx": 32_768}, 40_960, 32_768, 32_768),
        ({"num_ctx": 131_072}, 40_960, 40_960, 40_960),
        ({"context_window": 24_000}, 40_960, 24_000, 24_000),
        ({"context_window": 10_000, "num_ctx": 20_000}, 40_960, 20_000, 10_000),
    ],
)
async def test_the_window_is_what_was_asked_for(
    fields: dict[str, int], context_length: int, num_ctx: int, window: int
) -> None:
    models = {"qwen3:8b": {"context_length": context_length}}
    async with (
        ollama(models=models) as (server, habits),
        open_configured_model(settings(server.url, **fields)) as (model, fitted),
    ):
        await model.reply(HI)
        assert find_window(model, fitted) == window
    assert habits.chats[0]["options"]["num_ctx"] == num_ctx


async def test_a_server_that_does_not_tell_the_largest_window() -> None:
    async with (
        serve(answer({"error": "broken"}, 500)) as server,
        open_configured_model(settings(server.url)) as (model, fitted),
    ):
        assert find_window(model, fitted) == 16_384


async def test_models_are_listed() -> None:
    async with ollama(models={"qwen3:8b": {}, "llama3.2:latest": {}}) as (server, _):
        assert await list_models(settings(server.url)) == ["qwen3:8b", "llama3.2:latest"]
    assert [seen.path for seen in server.seen] == ["/api/tags"]


async def test_how_calls_are_made_is_found_out() -> None:
    def say(body: Any) -> list[dict[str, Any]]:
        if "format" in body:
            return [{"content": '{"state": "headgate-ready"}'}]
        return [{"content": "Good morning."}]

    async with (
        ollama(say=say) as (server, habits),
        open_configured_model(settings(server.url, tool_transport="auto")) as (model, _),
    ):
        assert getattr(model, "transport", None) == "schema"
    assert {body["options"]["num_ctx"] for body in habits.chats} == {16_384}
