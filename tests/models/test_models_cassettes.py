"""Recorded exchanges with real providers, replayed through the adapters over a real connection."""

import gzip
import json
from collections import Counter
from typing import Any

import pytest
from model_server import answer, serve

from cases import case_path
from headgate.core import Message, ModelSettings, Reply, Request, Usage
from headgate.errors import ModelError, ModelRefused, ReplyInvalid
from headgate.models.wire import open_wire
from headgate.models.wire.failures import ModelUnknown, RequestRejected, ServerTrouble

ASK = Request([Message("user", "Hi")])


def exchanges() -> list[dict[str, Any]]:
    with gzip.open(case_path("llm-cassettes", "interactions.jsonl.gz"), "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def protocol(exchange: dict[str, Any]) -> str | None:
    """By what API an exchange went: its provider, or the shape of its request; None for any other API."""
    if exchange["provider"] == "api.anthropic.com":
        return "anthropic"
    request, response = exchange["request"], exchange["response"]
    if isinstance(request, dict):
        return "openai" if "messages" in request else None
    return "openai" if isinstance(response, dict) and "choices" in response else None


async def replay(exchange: dict[str, Any]) -> Reply | ModelError:
    response = exchange["response"]
    body = response if isinstance(response, str) else json.dumps(response)
    respond = answer(body, exchange["status"], content_type=exchange["content_type"], pieces=1000)
    # The wire as it is: what a transport makes of a reply is tested elsewhere.
    async with (
        serve(respond) as server,
        open_wire(ModelSettings(model=f"{protocol(exchange)}/m", base_url=server.url)) as model,
    ):
        try:
            return await model.reply(ASK)
        except ModelError as error:
            return error


Plain = tuple[str, list[tuple[str, str, Any]], Usage]


def plain_reply(reply: Reply) -> Plain:
    calls = [(call.id, call.name, json.loads(call.arguments)) for call in reply.message.calls]
    return reply.message.content, calls, reply.usage


def read_chat(body: dict[str, Any]) -> Plain:
    message = body["choices"][0]["message"]
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    # One server sends no ids: then they are numbered.
    calls = [
        (
            call["id"] or f"call_{number}",
            call["function"]["name"],
            json.loads(call["function"].get("arguments") or "{}"),
        )
        for number, call in enumerate(message.get("tool_calls") or (), 1)
    ]
    return content, calls, read_chat_usage(body["usage"])


def read_chat_usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens", usage.get("cached_tokens"))
    return Usage(usage["prompt_tokens"], usage["completion_tokens"], cached or 0)


def read_message(body: dict[str, Any]) -> Plain:
    text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    uses = [block for block in body["content"] if block["type"] == "tool_use"]
    return text, [(use["id"], use["name"], use["input"]) for use in uses], read_message_usage(body["usage"])


def read_message_usage(usage: dict[str, Any]) -> Usage:
    cached = usage["cache_read_input_tokens"]
    prompt = usage["input_tokens"] + cached + usage["cache_creation_input_tokens"]
    return Usage(prompt, usage["output_tokens"], cached)


def payloads(body: str) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data: {")]


def read_chat_stream(body: str) -> Plain:
    text, calls, usage = "", {}, {}
    for event in payloads(body):
        usage = event.get("usage") or (event.get("x_groq") or {}).get("usage") or usage
        for choice in event.get("choices", ()):
            text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(part["index"], ["", "", ""])
                call[0] += part.get("id") or ""
                call[1] += part["function"].get("name") or ""
                call[2] += part["function"].get("arguments") or ""
    found = [(call[0], call[1], json.loads(call[2])) for call in calls.values()]
    return text, found, read_chat_usage(usage) if usage else Usage()


def read_message_stream(body: str) -> Plain:
    text, usage = "", {}
    for event in payloads(body):
        usage |= event.get("message", event).get("usage") or {}
        if event["type"] == "content_block_start":
            assert event["content_block"]["type"] != "tool_use"
            text += event["content_block"].get("text") or ""
        elif event["type"] == "content_block_delta":
            text += event["delta"].get("text") or ""
    return text, [], read_message_usage(usage)


READERS = {
    ("openai", False): read_chat,
    ("openai", True): read_chat_stream,
    ("anthropic", False): read_message,
    ("anthropic", True): read_message_stream,
}

FAILURES = {
    "test_anthropic/test_anthropic_explicit_effort_xhigh_unsupported_model_errors#0": RequestRejected,
    "test_groq/test_tool_regular_error#0": ModelUnknown,
    "test_groq/test_tool_use_failed_error#0": ReplyInvalid,
    "test_groq/test_tool_use_failed_error_with_text#0": ReplyInvalid,
    "test_openai/test_invalid_response#0": ModelRefused,
    "test_openai/test_openai_o1_mini_system_role[developer]#0": RequestRejected,
    "test_openai/test_openai_o1_mini_system_role[system]#0": RequestRejected,
    "test_openai/test_openai_web_search_tool_model_not_supported#0": RequestRejected,
    "test_openai/test_text_response#0": ModelRefused,
    "test_openrouter/test_openrouter_errors_raised#0": ServerTrouble,
    "test_openrouter/test_openrouter_errors_raised#1": ServerTrouble,
    "test_openrouter/test_openrouter_errors_raised#2": ServerTrouble,
}


async def test_every_recorded_exchange() -> None:
    counts: Counter[str] = Counter()
    failures: dict[str, type[ModelError]] = {}
    for exchange in exchanges():
        kind = protocol(exchange)
        if kind is None:
            counts["another API"] += 1
            continue
        outcome = await replay(exchange)
        if isinstance(outcome, ModelError):
            failures[exchange["id"]] = type(outcome)
            continue
        counts[f"{kind} {'stream' if exchange['stream'] else 'body'}"] += 1
        expected = READERS[kind, exchange["stream"]](exchange["response"])
        assert plain_reply(outcome) == expected, exchange["id"]
    streamed = {id: kind for id, kind in failures.items() if id not in FAILURES}
    assert {id: kind for id, kind in failures.items() if id in FAILURES} == FAILURES
    assert set(streamed.values()) == {ReplyInvalid}
    assert len(streamed) == 2, streamed
    assert counts == {"openai body": 143, "openai stream": 15, "anthropic body": 105, "anthropic stream": 13}
    assert counts.total() + len(failures) == 290


@pytest.mark.parametrize("name", ["test_openrouter/test_openrouter_stream_error#0"])
async def test_an_error_after_the_last_token_leaves_a_cut_reply(name: str) -> None:
    (exchange,) = [exchange for exchange in exchanges() if exchange["id"] == name]
    outcome = await replay(exchange)
    assert isinstance(outcome, Reply)
    assert (outcome.finish, outcome.usage) == ("length", Usage(43, 10))


async def test_recorded_streams() -> None:
    """Streams of tool calls whose arguments come in pieces, themselves cut into pieces of many sizes."""
    files = sorted(case_path("llm-sse").glob("*.txt"))
    assert len(files) == 12
    with_calls = 0
    for file in files:
        expected = read_chat_stream(file.read_text())
        with_calls += bool(expected[1])
        for pieces in (0, 97, 4099):
            respond = answer(file.read_bytes(), pieces=pieces)
            async with (
                serve(respond) as server,
                open_wire(ModelSettings(model="openai/m", base_url=server.url)) as model,
            ):
                reply = await model.reply(ASK)
            assert plain_reply(reply) == expected, file.name
            assert reply.finish == ("calls" if expected[1] else "stop")
    assert with_calls == 6
