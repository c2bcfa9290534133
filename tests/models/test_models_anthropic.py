"""The Messages adapter against a real server: what it sends and what it makes of the answers."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import answer, talk_to
from pydantic import SecretStr

from headgate.core import Delta, Message, Reply, Request, ToolCall, ToolSpec, Usage
from headgate.errors import ContextOverflow, ModelRefused, ModelUnavailable
from headgate.models.encoding import CallIds
from headgate.models.wire.anthropic import MessagesAssembly

LS = ToolSpec("ls", "List.", {"type": "object"}, "read")
CAT = ToolSpec("cat", "Show.", {"type": "object"}, "read")
MARK = {"cache_control": {"type": "ephemeral"}}
TALK = (
    Message("system", "Be brief."),
    Message("user", "Go"),
    Message(
        "assistant", "Looking.", (ToolCall("c1", "ls", '{"path": "."}'), ToolCall("c:2", "a.b", '{"x": '))
    ),
    Message("tool", "a.py", call_id="c1"),
    Message("tool", "no such tool", call_id="c:2", failed=True),
    Message("user", "Hint"),
)


def events(*payloads: dict[str, Any]) -> str:
    return "".join(f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n" for payload in payloads)


def start(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}}


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(reason: str = "end_turn", **usage: int) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


TEXT = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hello"})
HELLO = events(start(input_tokens=3), *TEXT, *end(output_tokens=2))
THINKING = [
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "let me "},
        {"type": "thinking_delta", "thinking": "see"},
        {"type": "signature_delta", "signature": "c2ln"},
    ),
    *block(1, {"type": "redacted_thinking", "data": "xyz"}),
    *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "I look."}),
    *block(
        3,
        {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": '{"path"'},
        {"type": "input_json_delta", "partial_json": ': "."}'},
    ),
]
THINKING_BLOCKS = [
    {"type": "thinking", "thinking": "let me see", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "."}},
]


async def ask(body: Any, **fields: Any) -> Reply:
    async with talk_to(answer(body), model="anthropic/claude", **fields) as (_, model):
        return await model.reply(Request(TALK))


async def test_the_whole_request() -> None:
    fields: dict[str, Any] = {
        "api_key": SecretStr("sk-1234567"),
        "temperature": 1,
        "top_p": 0.5,
        "extra_body": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    }
    async with talk_to(answer(HELLO), model="anthropic/claude", **fields) as (server, model):
        reply = await model.reply(Request(TALK, (LS, CAT), temperature=0.0))
    assert reply == Reply(Message("assistant", "Hello"), Usage(3, 2))
    (seen,) = server.seen
    assert seen.line == "POST /v1/messages HTTP/1.1"
    assert seen.headers["x-api-key"] == "sk-1234567"
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in seen.headers
    assert b'"stream":true' in seen.body[:300]
    assert seen.json == {
        "stream": True,
        "model": "claude",
        "max_tokens": 16384,
        "temperature": 0.0,
        "top_p": 0.5,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Go", **MARK}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}},
                    {"type": "tool_use", "id": "c_2", "name": "a_b", "input": {"_unparsed": '{"x": '}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "a.py"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c_2",
                        "content": "no such tool",
                        "is_error": True,
                    },
                    {"type": "text", "text": "Hint", **MARK},
                ],
            },
        ],
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "tools": [
            {"name": "ls", "description": "List.", "input_schema": {"type": "object"}},
            {"name": "cat", "description": "Show.", "input_schema": {"type": "object"}, **MARK},
        ],
    }


async def test_messages_are_encoded_once_though_the_breakpoint_moves() -> None:
    messages = [Message("user", "one")]
    messages[0].wire["anthropic"] = b'{"type":"text",   "text":"sentinel"}'
    async with talk_to(answer(HELLO), model="anthropic/claude") as (server, model):
        for turn in range(4):
            kept = [message.wire.get("anthropic") for message in messages]
            reply = await model.reply(Request(messages))
            assert all(
                message.wire["anthropic"] is data
                for message, data in zip(messages, kept, strict=True)
                if data is not None
            )
            messages += [reply.message, Message("user", f"more {turn}")]
    assert all(b'{"type":"text",   "text":"sentinel"' in seen.body for seen in server.seen)
    assert not any(b"cache_control" in message.wire.get("anthropic", b"") for message in messages)
    marked = [
        [index for index, message in enumerate(seen.json["messages"]) if "cache_control" in str(message)]
        for seen in server.seen
    ]
    assert marked == [[0], [0, 2], [2, 4], [4, 6]]
    # Without the breakpoints each request is the beginning of the next.
    plain = [seen.body.replace(b',"cache_control":{"type":"ephemeral"}', b"") for seen in server.seen]
    for earlier, later in pairwise(plain):
        assert later.startswith(earlier.removesuffix(b"]}"))


async def test_thinking_is_handed_back_unchanged() -> None:
    async with talk_to(
        answer(events(start(), *THINKING, *end("tool_use"))), answer(HELLO), model="anthropic/claude"
    ) as (server, model):
        first = await model.reply(Request(TALK))
        result = Message("tool", "a.py", call_id="toolu_1")
        await model.reply(Request((*TALK, first.message, result)))
        shortened = replace(first.message, content="I…", wire={})
        stripped = replace(first.message, opaque="", wire={})
        await model.reply(Request((*TALK, shortened, result)))
        await model.reply(Request((*TALK, stripped, result)))
    call = ToolCall("toolu_1", "ls", '{"path": "."}')
    opaque = json.dumps(THINKING_BLOCKS, separators=(",", ":"))
    expected = Message("assistant", "I look.", (call,), reasoning="let me see", opaque=opaque)
    assert first == Reply(expected, finish="calls")
    sent = [seen.json["messages"][3]["content"] for seen in server.seen[1:]]
    assert sent == [
        THINKING_BLOCKS,
        [*THINKING_BLOCKS[:2], {"type": "text", "text": "I…"}, THINKING_BLOCKS[3]],
        THINKING_BLOCKS[2:],
    ]


async def test_the_sides_alternate_and_no_block_is_blank() -> None:
    messages = (
        Message("assistant", "I begin."),
        Message("assistant", " "),
        Message("user", "a"),
        Message("system", "later rule"),
        Message("user", ""),
        Message("assistant", "", (ToolCall("", "ls", ""),)),
        Message("tool", "", call_id=""),
    )
    async with talk_to(answer(HELLO), model="anthropic/claude") as (server, model):
        await model.reply(Request(messages))
    sent = server.seen[0].json
    assert "system" not in sent
    assert [message["role"] for message in sent["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    texts = [[item.get("text") for item in message["content"]] for message in sent["messages"]]
    assert texts == [
        ["(The conversation continues.)"],
        ["I begin.", "(empty)"],
        ["a", "later rule", "(empty)"],
        [None],
        [None],
    ]
    assert sent["messages"][3]["content"][0]["id"] == sent["messages"][4]["content"][0]["tool_use_id"]


async def test_lone_surrogates_can_be_sent() -> None:
    messages = (
        Message("user", "a\udcffb"),
        Message("assistant", "\ud800", (ToolCall("1", "x", '"\ud800"'),)),
    )
    async with talk_to(answer(HELLO), model="anthropic/claude") as (server, model):
        await model.reply(Request(messages))
    assert server.seen[0].json["messages"][0]["content"][0]["text"] == "a\ufffdb"


async def test_what_people_watch() -> None:
    deltas: list[Delta] = []
    body = events(start(), {"type": "ping"}, *THINKING, *end("tool_use"))
    async with talk_to(answer(body, pieces=13), model="anthropic/claude") as (_, model):
        await model.reply(Request(TALK), deltas.append)
    assert deltas == [
        Delta(reasoning="let me "),
        Delta(reasoning="see"),
        Delta(text="I look."),
        Delta(tool="ls"),
        Delta(arguments='{"path"'),
        Delta(arguments=': "."}'),
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "filtered"),
    ],
)
async def test_how_a_reply_ends(reason: str, finish: str) -> None:
    assert (await ask(events(start(), *TEXT, *end(reason)))).finish == finish


async def test_a_call_cut_off_keeps_its_text() -> None:
    use = block(
        0,
        {"type": "tool_use", "id": "t", "name": "ls", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"path": "a'},
    )
    reply = await ask(events(start(), *use, *end("max_tokens")))
    message = Message("assistant", "", (ToolCall("t", "ls", '{"path": "a'),))
    assert reply == Reply(message, finish="length")


def failure(kind: str, message: str = "words") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (failure("overloaded_error"), ModelUnavailable),
        (failure("api_error"), ModelUnavailable),
        (failure("rate_limit_error"), ModelUnavailable),
        (failure("timeout_error"), ModelUnavailable),
        (failure("invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"), ContextOverflow),
        (failure("request_too_large"), ContextOverflow),
        (failure("invalid_request_error"), ModelRefused),
        (failure("authentication_error"), ModelRefused),
    ],
)
async def test_errors_in_the_stream(error: dict[str, Any], expected: type[Exception]) -> None:
    with pytest.raises(expected):
        await ask(events(start(), *TEXT, error))
    with pytest.raises(expected):
        await ask(error)


KEYS = st.sampled_from(
    ["index", "delta", "content_block", "text", "thinking", "input", "id", "name", "usage", "citation"]
)
KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "ping", "x"]
)
VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.text(max_size=3) | st.sampled_from(["tool_use", "text", "thinking"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS | st.just("type"), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.tuples(KINDS, st.dictionaries(KEYS, VALUES, max_size=4)), max_size=4))
def test_no_event_of_any_shape_breaks_the_assembly(payloads: list[tuple[str, dict[str, Any]]]) -> None:
    assembly = MessagesAssembly()
    for kind, fields in payloads:
        assembly.add({"type": kind, **fields})
    assert isinstance(assembly.reply(CallIds(())), Reply)
