"""What the chat-completions adapter makes of the answers of many servers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import HELLO, answer, chunk, stream, talk_to

from cases import case_path
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


def call_chunk(*fragments: Mapping[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(fragments)})


def part(
    arguments: Any = None, *, name: str | None = None, id: str | None = None, index: int | None = None
) -> dict[str, Any]:
    fields = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    return {key: value for key, value in fields.items() if value is not None}


A, B = ToolCall("a", "ls", '{"x":1}'), ToolCall("b", "cat", '{"y":2}')


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param(
            [
                call_chunk(part("", name="ls", id="a", index=0)),
                call_chunk(part('{"x"', index=0)),
                call_chunk(part("", name="cat", id="b", index=1)),
                call_chunk(part(":1}", index=0), part('{"y":2}', index=1)),
            ],
            (A, B),
            id="fragments by index, interleaved",
        ),
        pytest.param(
            [
                call_chunk(
                    part('{"x":1}', name="ls", id="a", index=0), part('{"y":2}', name="cat", id="b", index=0)
                )
            ],
            (A, B),
            id="all with index 0 and ids of their own",
        ),
        pytest.param(
            [
                call_chunk(part("", name="ls", id="a", index=0)),
                call_chunk(part('{"x":1}', index=0)),
                call_chunk(part("", name="cat", id="b", index=0)),
                call_chunk(part('{"y":2}', index=0)),
            ],
            (A, B),
            id="index 0 always, ids first",
        ),
        pytest.param(
            [
                call_chunk(part('{"x":', name="ls", id="a")),
                call_chunk(part("1}", id="a")),
                call_chunk(part('{"y":2}', name="cat", id="b")),
            ],
            (A, B),
            id="ids without index",
        ),
        pytest.param(
            [
                call_chunk(
                    part({"x": 1}, name="ls", id="a", index=0), part({"y": 2}, name="cat", id="b", index=1)
                )
            ],
            (A, B),
            id="arguments as objects",
        ),
        pytest.param(
            [
                call_chunk(part('{"x"', name="ls", id="a", index=0)),
                call_chunk(part(":1}", name="ls", id="a", index=0)),
                call_chunk(part("", name="ls", id="a", index=0)),
            ],
            (A,),
            id="name and id with each fragment",
        ),
        pytest.param(
            [
                call_chunk(part('{"x":1}', name="ls", index=0)),
                call_chunk(part('{"y":2}', name="cat", index=0)),
            ],
            (ToolCall("call_1", "ls", '{"x":1}'), ToolCall("call_2", "cat", '{"y":2}')),
            id="whole calls with index 0 and no ids",
        ),
        pytest.param(
            [
                call_chunk(part('{"x":1}', name="ls")),
                call_chunk(part('{"y":', name="cat")),
                call_chunk(part("2}")),
            ],
            (ToolCall("call_1", "ls", '{"x":1}'), ToolCall("call_2", "cat", '{"y":2}')),
            id="neither ids nor index",
        ),
        pytest.param(
            [call_chunk(part(None, name="ls")), call_chunk(part(" ", name="cat"))],
            (ToolCall("call_1", "ls", "{}"), ToolCall("call_2", "cat", "{}")),
            id="no arguments at all",
        ),
        pytest.param(
            [
                call_chunk(
                    part('{"x":1}', name="ls", id="a", index=0), part('{"y":2}', name="cat", id="a", index=1)
                )
            ],
            (A, ToolCall("call_1", "cat", '{"y":2}')),
            id="one id twice",
        ),
        pytest.param(
            [call_chunk(part('{"x":1}', name="ls", id="c1", index=0))],
            (ToolCall("call_1", "ls", '{"x":1}'),),
            id="an id that the transcript has already",
        ),
        pytest.param(
            [call_chunk(part("", name="l", id="a", index=0)), call_chunk(part('{"x":1}', name="s", index=0))],
            (A,),
            id="a name in pieces",
        ),
        pytest.param(
            [call_chunk(part('{"x": ', name="ls", id="a", index=0))],
            (ToolCall("a", "ls", '{"x":'),),
            id="broken arguments stay as they are",
        ),
        pytest.param([chunk({"tool_calls": [3, {"function": "odd"}, {}]})], (), id="nonsense"),
    ],
)
async def test_calls_are_put_together(chunks: list[dict[str, Any]], calls: tuple[ToolCall, ...]) -> None:
    for finish in ("tool_calls", "stop"):
        reply = await ask(stream(*chunks, chunk(finish=finish)))
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


@pytest.mark.parametrize(
    ("extra", "usage"),
    [
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 4},
                }
            },
            Usage(9, 2, 4),
        ),
        (
            {"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 3}},
            Usage(9, 2, 3),
        ),
        (
            {"usage": {"prompt_tokens": 9, "completion_tokens": 2}, "timings": {"cache_n": 5}},
            Usage(9, 2, 5),
        ),
        ({"x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 2}}}, Usage(9, 2)),
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
        call_chunk(part('{"x":1}', name="ls", id="a", index=0)),
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
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "index",
        "id",
        "usage",
        "finish_reason",
        "reasoning",
        "prompt_tokens_details",
        "timings",
        "x_groq",
        "thinking",
        "text",
        "refusal",
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


def recorded_streams() -> list[str]:
    return sorted(path.name for path in case_path("llm-sse").glob("*.txt"))


def plain_fold(text: str) -> tuple[str, dict[int, list[str]], Any]:
    """What a stream says, by the simplest reading of it, for comparison."""
    content, calls, usage = "", {}, None
    for line in text.splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            content += choice["delta"].get("content") or ""
            for fragment in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(fragment["index"], ["", "", ""])
                call[0] += fragment.get("id") or ""
                call[1] += fragment["function"].get("name") or ""
                call[2] += fragment["function"].get("arguments") or ""
    return content, calls, usage


async def test_recorded_streams() -> None:
    names = recorded_streams()
    assert len(names) == 12
    with_calls = 0
    for name in names:
        data = case_path("llm-sse", name).read_bytes()
        content, calls, usage = plain_fold(data.decode())
        assert usage
        expected = Message("assistant", content, tuple(ToolCall(*calls[index]) for index in sorted(calls)))
        with_calls += bool(calls)
        for pieces in (0, 97, 4099):
            async with talk_to(answer(data, pieces=pieces)) as (_server, model):
                reply = await model.reply(Request(TALK))
            assert reply.message == expected, name
            assert all(isinstance(json.loads(call.arguments), dict) for call in reply.message.calls)
            cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
            assert reply.usage == Usage(usage["prompt_tokens"], usage["completion_tokens"], cached)
            assert reply.finish == ("calls" if calls else "stop")
    assert with_calls == 6
