"""What the chat-completions adapter sends, to a real server."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import HELLO, answer, serve, talk_to
from pydantic import SecretStr

from headgate.core import Message, ModelSettings, Reply, Request, ToolCall, ToolSpec
from headgate.errors import ModelRefused
from headgate.models.network import open_model
from headgate.models.wire.openai import encode_message

LS = ToolSpec("ls", "List a folder.", {"type": "object", "properties": {}}, "read")
TALK = (
    Message("system", "Be brief."),
    Message("user", "Häuser?"),
    Message("assistant", "Looking.", (ToolCall("c1", "ls", '{"path": "."}'),), reasoning="hm"),
    Message("tool", "a.py", call_id="c1"),
)


async def test_the_whole_request() -> None:
    async with serve(answer(HELLO)) as server:
        settings = ModelSettings(
            model="openai/qwen/qwen3:30b",
            base_url=server.url + "/",
            api_key=SecretStr("sk-1234567"),
            temperature=0.5,
            top_p=0.9,
            max_tokens=100,
            seed=7,
            extra_body={"chat_template_kwargs": {"enable_thinking": False}, "top_p": 1},
            headers={"X-Team": "blue"},
        )
        async with open_model(settings) as model:
            assert model.name == "openai/qwen/qwen3:30b"
            await model.reply(Request(TALK, (LS,), temperature=0.0, max_tokens=50))
    (seen,) = server.seen
    assert seen.line == "POST /v1/chat/completions HTTP/1.1"
    assert seen.headers["authorization"] == "Bearer sk-1234567"
    assert seen.headers["x-team"] == "blue"
    assert seen.headers["content-type"] == "application/json"
    assert b'"stream":true' in seen.body[:300]
    assert seen.json == {
        "stream": True,
        "model": "qwen/qwen3:30b",
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "top_p": 1,
        "max_tokens": 50,
        "seed": 7,
        "chat_template_kwargs": {"enable_thinking": False},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Häuser?"},
            {
                "role": "assistant",
                "content": "Looking.",
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "ls", "description": "List a folder.", "parameters": LS.parameters},
            }
        ],
    }


async def test_a_bare_request_sends_nothing_that_was_not_set() -> None:
    async with talk_to(answer(HELLO)) as (server, model):
        reply = await model.reply(Request([Message("user", "Hi")]))
    assert reply == Reply(Message("assistant", "Hello"))
    assert "authorization" not in server.seen[0].headers
    assert set(server.seen[0].json) == {"stream", "model", "stream_options", "messages"}


class CountedMapping(Mapping[str, Any]):
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def __getitem__(self, key: str) -> Any:
        return {"type": "object"}[key]

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return iter(["type"])


async def test_messages_and_tools_are_encoded_once() -> None:
    parameters = CountedMapping()
    tools = (ToolSpec("t", "T.", parameters, "read"),)
    messages = [Message("user", "one"), Message("user", "two")]
    # Bytes that no encoder would write: they must reach the server as they are.
    messages[0].wire["openai"] = b'{"role":"user",   "content":"sentinel"}'
    async with talk_to(answer(HELLO)) as (server, model):
        await model.reply(Request(messages, tools))
        encoded = [message.wire["openai"] for message in messages]
        messages.append((await model.reply(Request(messages, tools))).message)
        await model.reply(Request(messages, tools))
    assert all(b'{"role":"user",   "content":"sentinel"}' in seen.body for seen in server.seen)
    assert all(message.wire["openai"] is data for message, data in zip(messages, encoded, strict=False))
    assert parameters.reads == 1


async def test_each_turn_only_adds_bytes() -> None:
    async with talk_to(answer(HELLO)) as (server, model):
        messages = list(TALK)
        for turn in range(3):
            reply = await model.reply(Request(messages, (LS,)))
            messages += [reply.message, Message("user", f"more {turn}")]
    first, second, third = (seen.body for seen in server.seen)
    tail = b'],"tools":'
    assert second.startswith(first[: first.index(tail)])
    assert third.startswith(second[: second.index(tail)])
    assert first[first.index(tail) :] == second[second.index(tail) :] == third[third.index(tail) :]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": ', '{"_unparsed":"{\\"a\\": "}'),
        ("[1]", '{"_unparsed":"[1]"}'),
        ("", '{"_unparsed":""}'),
        ("\ud800", '{"_unparsed":"\ufffd"}'),
        ('{"a": NaN}', '{"_unparsed":"{\\"a\\": NaN}"}'),
    ],
)
def test_broken_arguments_are_handed_back_as_an_object(arguments: str, sent: str) -> None:
    message = Message("assistant", calls=(ToolCall("c1", "file.read", arguments),))
    assert json.loads(encode_message(message)) == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "file_read", "arguments": sent}}
        ],
    }


ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=20)


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_text_can_be_encoded(content: str, name: str, arguments: str) -> None:
    message = Message("assistant", content, (ToolCall(name, name, arguments),), reasoning=content)
    (call,) = json.loads(encode_message(message))["tool_calls"]
    assert isinstance(json.loads(call["function"]["arguments"]), dict)


async def test_a_server_without_stream_options_is_asked_again_once() -> None:
    refusal = answer({"error": {"message": "Unknown field: stream_options"}}, 400)
    async with talk_to(refusal, answer(HELLO)) as (server, model):
        for _ in range(2):
            assert (await model.reply(Request(TALK))).message.content == "Hello"
    assert ["stream_options" in seen.json for seen in server.seen] == [True, False, False]


async def test_the_other_name_of_the_limit_is_learned() -> None:
    words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    refusal = answer({"error": {"message": words, "param": "max_tokens"}}, 400)
    async with serve(refusal, answer(HELLO)) as server:
        settings = ModelSettings(model="openai/m", base_url=server.url, max_tokens=9)
        async with open_model(settings) as model:
            await model.reply(Request(TALK))
    assert server.seen[1].json["max_completion_tokens"] == 9
    assert "max_tokens" not in server.seen[1].json


@pytest.mark.parametrize(
    ("words", "dropped"),
    [
        (
            "Unsupported value: 'temperature' does not support 0 with this model. "
            "Only the default (1) value is supported.",
            "temperature",
        ),
        ("Unsupported parameter: 'stop' is not supported with this model.", "stop"),
        ("Argument not supported on this model: stop", "stop"),
        ("Unsupported parameter: 'top_p' is not supported with this model.", "top_p"),
        ("Invalid parameter: 'response_format' of type 'json_schema' is not supported.", "response_format"),
    ],
)
async def test_a_field_that_the_server_refuses_is_left_out_from_then_on(words: str, dropped: str) -> None:
    refusal = answer({"error": {"message": words}}, 400)
    wanted = Request(TALK, temperature=0.0, stop=("\n```\n",), form={"type": "object"})
    async with talk_to(refusal, answer(HELLO), top_p=0.9) as (server, model):
        for _ in range(2):
            assert (await model.reply(wanted)).message.content == "Hello"
    first, second, third = (set(seen.json) for seen in server.seen)
    assert {"temperature", "top_p", "stop", "response_format"} <= first
    assert second == third == first - {dropped}


@pytest.mark.parametrize("name", ["temperature", "stop", "response_format"])
async def test_a_complaint_about_what_was_not_sent_changes_nothing(name: str) -> None:
    refusal = answer({"error": {"message": f"Your chat template has no {name}."}}, 400)
    async with talk_to(refusal, answer(HELLO)) as (server, model):
        with pytest.raises(ModelRefused):
            await model.reply(Request(TALK))
        await model.reply(Request(TALK, temperature=0.0, stop=("x",), form={"type": "object"}))
    assert name in server.seen[1].json
    assert len(server.seen) == 2


async def test_a_field_that_the_user_insists_on_is_sent() -> None:
    refusal = answer({"error": {"message": "Unsupported parameter: 'temperature'"}}, 400)
    async with talk_to(refusal, extra_body={"temperature": 0.3}) as (server, model):
        with pytest.raises(ModelRefused):
            await model.reply(Request(TALK))
    assert [seen.json["temperature"] for seen in server.seen] == [0.3]


async def test_a_refusal_that_stays_is_not_asked_for_ever() -> None:
    refusal = answer({"error": {"message": "stream_options and max_completion_tokens are wrong"}}, 400)
    async with talk_to(refusal) as (server, model):
        with pytest.raises(ModelRefused):
            await model.reply(Request(TALK))
    assert len(server.seen) == 3


async def test_a_local_server_is_asked_how_far_it_has_read_and_may_refuse() -> None:
    refusal = answer({"error": {"message": "return_progress: extra fields not permitted"}}, 400)
    async with talk_to(refusal, answer(HELLO)) as (server, model):
        await model.reply(Request(TALK), lambda delta: None)
        await model.reply(Request(TALK), lambda delta: None)
    assert ["return_progress" in seen.json for seen in server.seen] == [True, False, False]
