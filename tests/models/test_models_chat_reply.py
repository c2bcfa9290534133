"""What the chat-completions adapter makes of the answers of many servers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import HELLO, answer, chunk, stream, talk_to

from headgate.core import Delta, Message, Reply, Request, ToolCall, Usage
from headgate.errors import ModelUnavailable, ReplyInvalid
from headgate.models.encoding import CallIds
from headgate.models.wire.openai import ChatAssembly, encode_message

TALK = (
    Message("system", "Be brief."),
    Message("user", "Häuser?"),
    Message("assistant", "Looking.", (ToolCall("c1", "ls", '{"path": "."}'),), reasoning="hm"),
    Message("tool", "a.py", call_id="c1"),
)


async def ask(body: Any) -> Reply:
    async with talk_to(answer(body)) as (_, model):
        return await model.reply(Request(TALK))


def part(index: int | None, id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    """A fragment of a call, as far as its server tells it."""
    fields = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    return {key: value for key, value in fields.items() if value is not None}


A, B = ToolCall("a", "ls", '{"x":1}'), ToolCall("b", "cat", '{"y":2}')


CALLS: dict[str, tuple[list[list[Any]], tuple[ToolCall, ...]]] = {
    "fragments by index, interleaved": (
        [
            [part(0, "a", "ls", "")],
            [part(0, None, None, '{"x"')],
            [part(1, "b", "cat", "")],
            [part(0, None, None, ":1}"), part(1, None, None, '{"y":2}')],
        ],
        (A, B),
    ),
    "all with index 0 and ids of their own": (
        [[part(0, "a", "ls", '{"x":1}'), part(0, "b", "cat", '{"y":2}')]],
        (A, B),
    ),
    "index 0 always, ids first": (
        [
            [part(0, "a", "ls", "")],
            [part(0, None, None, '{"x":1}')],
            [part(0, "b", "cat", "")],
            [part(0, None, None, '{"y":2}')],
        ],
        (A, B),
    ),
    "ids without index": (
        [
            [part(None, "a", "ls", '{"x":')],
            [part(None, "a", None, "1}")],
            [part(None, "b", "cat", '{"y":2}')],
        ],
        (A, B),
    ),
    "arguments as objects": ([[part(0, "a", "ls", {"x": 1}), part(1, "b", "cat", {"y": 2})]], (A, B)),
    "name and id with each fragment": (
        [[part(0, "a", "ls", '{"x"')], [part(0, "a", "ls", ":1}")], [part(0, "a", "ls", "")]],
        (A,),
    ),
    "whole calls with index 0 and no ids": (
        [[part(0, None, "ls", '{"x":1}')], [part(0, None, "cat", '{"y":2}')]],
        (ToolCall("call_1", "ls", '{"x":1}'), ToolCall("call_2", "cat", '{"y":2}')),
    ),
    "neither ids nor index": (
        [
            [part(None, None, "ls", '{"x":1}')],
            [part(None, None, "cat", '{"y":')],
            [part(None, None, None, "2}")],
        ],
        (ToolCall("call_1", "ls", '{"x":1}'), ToolCall("call_2", "cat", '{"y":2}')),
    ),
    "no arguments at all": (
        [[part(None, None, "ls", None)], [part(None, None, "cat", " ")]],
        (ToolCall("call_1", "ls", "{}"), ToolCall("call_2", "cat", "{}")),
    ),
    "one id twice": (
        [[part(0, "a", "ls", '{"x":1}'), part(1, "a", "cat", '{"y":2}')]],
        (A, ToolCall("call_1", "cat", '{"y":2}')),
    ),
    "an id that the transcript has already": (
        [[part(0, "c1", "ls", '{"x":1}')]],
        (ToolCall("call_1", "ls", '{"x":1}'),),
    ),
    "a name in pieces": ([[part(0, "a", "l", "")], [part(0, None, "s", '{"x":1}')]], (A,)),
    "broken arguments stay as they are": ([[part(0, "a", "ls", '{"x": ')]], (ToolCall("a", "ls", '{"x":'),)),
    "nonsense": ([[3, {"function": "odd"}, {}]], ()),
}


@pytest.mark.parametrize(("chunks", "calls"), CALLS.values(), ids=CALLS)
async def test_calls_are_put_together(chunks: list[list[Any]], calls: tuple[ToolCall, ...]) -> None:
    told = [chunk({"tool_calls": fragments}) for fragments in chunks]
    for finish in ("tool_calls", "stop"):
        reply = await ask(stream(*told, chunk(finish=finish)))
        expected = Message("assistant", "", calls)
        assert reply == Reply(expected, finish="calls" if calls else "stop")


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "filtered"),
        ("tool_calls", "stop"),
    ],
)
async def test_how_a_reply_ends(finish: str, expected: str) -> None:
    assert (await ask(stream(chunk({"content": "x"}), chunk(finish=finish)))).finish == expected


async def test_a_reply_that_the_server_calls_broken() -> None:
    with pytest.raises(ModelUnavailable):
        await ask(stream(chunk({"content": "x"}), chunk(finish="error")))
    with pytest.raises(ReplyInvalid):
        await ask(stream(chunk({"content": "x"}), chunk(finish="MALFORMED_FUNCTION_CALL")))


async def test_done_without_a_finish_reason_ends_a_reply() -> None:
    assert await ask(stream(chunk({"content": "x"}))) == Reply(Message("assistant", "x"))


async def test_an_error_after_the_end_leaves_the_reply() -> None:
    late = {"error": {"code": 400, "message": "Token limit reached"}, "usage": {"prompt_tokens": 3}}
    reply = await ask(stream(chunk({"content": "x"}), chunk(finish="length"), late))
    assert reply == Reply(Message("assistant", "x"), Usage(3), "length")


COUNTS = {"prompt_tokens": 9, "completion_tokens": 2}


@pytest.mark.parametrize(
    ("extra", "usage"),
    [
        ({"usage": {**COUNTS, "prompt_tokens_details": {"cached_tokens": 4}}}, Usage(9, 2, 4)),
        ({"usage": {**COUNTS, "prompt_cache_hit_tokens": 3}}, Usage(9, 2, 3)),
        ({"usage": COUNTS, "timings": {"cache_n": 5}}, Usage(9, 2, 5)),
        ({"x_groq": {"usage": COUNTS}}, Usage(9, 2)),
        (
            {"usage": {"prompt_tokens": "many", "completion_tokens": None, "prompt_tokens_details": 1}},
            Usage(),
        ),
        ({"usage": None}, Usage()),
    ],
)
async def test_usage(extra: dict[str, Any], usage: Usage) -> None:
    chunks = [chunk({"content": "x"}, usage=None), chunk(finish="stop"), {"choices": [], **extra}]
    assert (await ask(stream(*chunks))).usage == usage


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_in_the_field_it_came_in(field: str) -> None:
    reply = await ask(
        stream(chunk({field: "let me "}), chunk({field: "see"}), chunk({"content": "x"}, "stop"))
    )
    assert (reply.message.content, reply.message.reasoning) == ("x", "let me see")
    sent = json.loads(encode_message(reply.message))
    assert sent == {"role": "assistant", "content": "x", field: "let me see"}


async def test_content_in_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "x"},
    ]
    body = {"choices": [{"message": {"role": "assistant", "content": parts}, "finish_reason": "stop"}]}
    assert await ask(body) == Reply(Message("assistant", "x", reasoning="hm"))


async def test_a_plain_body_though_a_stream_was_asked_for() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"x":1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 9, "completion_tokens": 2}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": usage}
    assert await ask(body) == Reply(Message("assistant", "", (A,)), Usage(9, 2), "calls")


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/json", "text/event-stream;charset=x"]
)
async def test_a_stream_under_a_wrong_name(content_type: str) -> None:
    async with talk_to(answer(HELLO, content_type=content_type)) as (_server, model):
        assert (await model.reply(Request(TALK))).message.content == "Hello"


async def test_what_people_watch() -> None:
    deltas: list[Delta] = []
    body = stream(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": None}, prompt_progress={"processed": 512, "total": 4096, "cache": 0}),
        chunk({"reasoning": "hm"}),
        ": keep-alive\n\n",
        chunk({"content": "x"}),
        chunk({"tool_calls": [part(0, "a", "ls", '{"x":1}')]}),
        chunk(finish="tool_calls"),
    )
    async with talk_to(answer(body)) as (_server, model):
        await model.reply(Request(TALK), deltas.append)
    assert deltas == [
        Delta(read=(512, 4096)),
        Delta(reasoning="hm"),
        Delta(text="x"),
        Delta(tool="ls"),
        Delta(arguments='{"x":1}'),
    ]


@pytest.mark.parametrize("pieces", [0, 1, 7])
async def test_odd_bytes_in_a_stream(pieces: int) -> None:
    body = (
        b'\xef\xbb\xbf: ping\r\n\r\ndata: {"choices":[{"delta":{"content":"\xff\xe2\x82"}}]}\r\n\r\n'
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\r\n\r\n'
        b'data: {"choices":[{"delta":{"content":"\\ude00"}}]}\r\n\r\n'
        b'data: {"choices":[{"delta":{"content":"\\ud800\xf0\x9f\x98\x80"},"finish_reason":"stop"}]}\r\n\r\n'
        b"data: [DONE]\r\n\r\n"
    )
    async with talk_to(answer(body, pieces=pieces)) as (_server, model):
        reply = await model.reply(Request(TALK))
    assert reply == Reply(Message("assistant", "\ufffd\ufffd\U0001f600\ufffd\U0001f600"))


KEYS = st.sampled_from(
    [
        *("choices", "delta", "message", "content", "tool_calls", "function", "arguments", "name", "index"),
        *("id", "usage", "finish_reason", "reasoning", "prompt_tokens_details", "timings", "x_groq"),
        *("thinking", "text", "refusal"),
    ]
)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=25,
    ).filter(lambda value: isinstance(value, dict))
)
def test_no_chunk_of_any_shape_breaks_the_assembly(payload: dict[str, Any]) -> None:
    assembly = ChatAssembly()
    try:
        assembly.add(payload)
    except (ModelUnavailable, ReplyInvalid):
        return
    assert isinstance(assembly.reply(CallIds(())), Reply)
