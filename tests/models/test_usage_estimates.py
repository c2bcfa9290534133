"""Counts of tokens that a server does not tell, or that cannot be true, are estimated by characters."""

import json
from dataclasses import replace

import pytest
from model_server import answer, talk_to

from headgate.core import Limits, Message, Reply, Request, ToolSpec, Usage, estimate_missing
from headgate.errors import ReplyInvalid
from headgate.models.wire.exchange import read_count


@pytest.mark.parametrize("told", [None, "12", -5, 10**30, 1.5, float("nan"), [1], 0])
def test_a_count_that_is_none_is_zero(told: object) -> None:
    assert read_count(told) == 0


REQUEST = Request([Message("user", "x" * 40_000)])


@pytest.mark.parametrize("told", [Usage(), Usage(-7, -7), Usage(0, 0, 500), Usage(-1, 0, -1)])
def test_a_limit_on_tokens_is_met_whatever_the_server_tells(told: Usage) -> None:
    spent, limits = Usage(), Limits(tokens=50_000)
    for requests in range(1, 100):
        reply = estimate_missing(Reply(Message("assistant", "x" * 4000), told), REQUEST)
        spent += reply.usage + reply.aside
        if limits.reached(requests, spent, 0, 0):
            break
    assert (requests, spent.cached) == (5, 0)


def test_counts_stay() -> None:
    reply = Reply(Message("assistant", "x" * 400), Usage(9000, 90, 8000))
    assert estimate_missing(reply, REQUEST) == reply
    assert estimate_missing(Reply(reply.message, Usage(9000, 90, 9900)), REQUEST).usage == Usage(
        9000, 90, 9000
    )


def test_what_is_estimated_already_is_not_added_twice() -> None:
    reply = Reply(Message("assistant", "x" * 400), aside=Usage(9000, 90))
    assert estimate_missing(reply, REQUEST) == reply


TOOL = ToolSpec("a_tool_with_a_name", "What it does.", {"type": "object", "x": "y" * 3_000}, "read")


def test_names_and_schemas_of_tools_count() -> None:
    request = replace(REQUEST, tools=(TOOL,) * 10)
    reply = estimate_missing(Reply(Message("assistant", "x" * 400)), request)
    described = 10 * sum(map(len, (TOOL.name, TOOL.description, json.dumps(TOOL.parameters))))
    assert reply.aside.prompt > (40_000 + described) // 4


@pytest.mark.parametrize("transport", ["native", "text", "schema"])
@pytest.mark.parametrize("provider", ["openai", "ollama", "anthropic"])
async def test_all_that_was_sent_counts(provider: str, transport: str) -> None:
    if (provider, transport) == ("anthropic", "schema"):
        pytest.skip("the Messages API has no schemas")
    said = '{"thought": "", "name": "a_tool_with_a_name", "arguments": {}}'
    bodies = {
        "openai": {"choices": [{"message": {"content": said}, "finish_reason": "stop"}]},
        "ollama": {"message": {"content": said}, "done": True},
        "anthropic": {"type": "message", "content": [{"type": "text", "text": said}]},
    }
    request = replace(REQUEST, tools=(TOOL,))
    async with talk_to(answer(bodies[provider]), model=f"{provider}/m", tool_transport=transport) as (
        server,
        model,
    ):
        reply = estimate_missing(await model.reply(request), request)
    sent = server.seen[-1]
    assert reply.aside.prompt == len(sent.body) // 4


@pytest.mark.parametrize("transport", [None, "text", "schema"])
async def test_a_useless_reply_counts_as_well(transport: str | None) -> None:
    said = '<tool_call>{"name": "a_tool_with_a_name", "arguments": {"path": "'
    body = {"choices": [{"message": {"content": said}, "finish_reason": "stop"}]}
    request = replace(REQUEST, tools=(TOOL,))
    async with talk_to(answer(body), model="openai/m", tool_transport=transport) as (server, model):
        with pytest.raises(ReplyInvalid) as caught:
            await model.reply(request)
    prompt, completion, _ = caught.value.tokens
    assert prompt == len(server.seen[-1].body) // 4
    assert completion >= len(said) // 4
    assert caught.value.estimated
