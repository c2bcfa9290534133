"""Replies that never end, and long ones that do."""

import asyncio
import base64
import random
from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import answer, chunk, pour, stream, talk_to

from headgate.core.messages import Message, Reply, Request
from headgate.errors import ReplyInvalid
from headgate.models.wire.exchange import MAX_PERIOD, WINDOW, repeats_itself

ASK = Request([Message("user", "Hi")])
REPEATED = "The reply repeated itself endlessly and was cut off."
TOO_LONG = "The reply was longer than 400,000 characters and was cut off."


def chat_text(piece: str) -> Any:
    return chunk({"content": piece})


def chat_reasoning(piece: str) -> Any:
    return chunk({"reasoning_content": piece})


def chat_arguments(piece: str) -> Any:
    return chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ls", "arguments": piece}}]})


def messages_delta(kind: str, name: str) -> Callable[[str], Any]:
    return lambda piece: {"type": "content_block_delta", "index": 0, "delta": {"type": kind, name: piece}}


KINDS: list[tuple[str, Callable[[str], Any]]] = [
    ("openai/m", chat_text),
    ("openai/m", chat_reasoning),
    ("openai/m", chat_arguments),
    ("anthropic/m", messages_delta("text_delta", "text")),
    ("anthropic/m", messages_delta("thinking_delta", "thinking")),
    ("anthropic/m", messages_delta("input_json_delta", "partial_json")),
]


async def cut_off(model: str, events: Iterator[Any]) -> str:
    """What the error says; the server has seen the connection go before the model was closed."""
    closed = asyncio.Event()
    async with talk_to(pour(events, closed), model=model) as (_, opened):
        with pytest.raises(ReplyInvalid) as caught:
            await opened.reply(ASK)
        await asyncio.wait_for(closed.wait(), 30)
    prompt, completion, _ = caught.value.tokens
    assert prompt > 0, "a reply that was cut off is not free"
    assert completion > WINDOW // 5
    return str(caught.value)


@pytest.mark.parametrize(("model", "event"), KINDS)
async def test_a_reply_that_repeats_itself(model: str, event: Callable[[str], Any]) -> None:
    assert await cut_off(model, map(event, repeat("I will now look at the file. "))) == REPEATED


@pytest.mark.parametrize("piece", [" ", "\n\n", "x" * 399 + "y", "0,"])
async def test_what_may_be_repeated(piece: str) -> None:
    assert await cut_off("openai/m", map(chat_text, repeat(piece))) == REPEATED


@pytest.mark.parametrize(("model", "event"), KINDS)
async def test_a_reply_that_goes_on_and_on(model: str, event: Callable[[str], Any]) -> None:
    assert await cut_off(model, (event(f"And then {number}. ") for number in count())) == TOO_LONG


async def test_calls_without_end() -> None:
    call = {"id": "", "function": {"name": "ls", "arguments": "{}"}}
    calls = (chunk({"tool_calls": [call | {"index": number, "id": f"c{number}"}]}) for number in count())
    assert await cut_off("openai/m", calls) == REPEATED


async def ask(text: str) -> Reply:
    pieces = [chat_text(text[start : start + 700]) for start in range(0, len(text), 700)]
    async with talk_to(answer(stream(*pieces, chunk(finish="stop")))) as (_, model):
        return await model.reply(ASK)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"    assert table[{number}] == {number * number}\n" for number in range(8000)),
        base64.b64encode(random.Random(1).randbytes(200_000)).decode(),
        "const unsigned char zeros[] = {" + "0, " * 1000 + "};\n" + "int after = 1;\n",
        "before\n" + "=" * 3000 + "\nafter\n" + "-" * 3000 + "\n",
        "\n".join(f"| {number} | 0 | 0 | 0 |" for number in range(3000, 0, -1) for _ in range(3)) + "\n",
    ],
    ids=["similar lines", "base64", "zeros", "rules", "table"],
)
async def test_long_replies_that_are_meant(text: str) -> None:
    assert len(text) > 3000
    assert (await ask(text)).message.content == text


async def test_a_whole_body_is_watched_too() -> None:
    bodies = {
        "openai/m": {"choices": [{"message": {"content": "ha " * 4000}, "finish_reason": "stop"}]},
        "anthropic/m": {"type": "message", "content": [{"type": "text", "text": "ha " * 4000}]},
    }
    for name, body in bodies.items():
        async with talk_to(answer(body), model=name) as (_, model):
            with pytest.raises(ReplyInvalid, match="repeated itself"):
                await model.reply(ASK)


@given(
    st.text(min_size=1, max_size=MAX_PERIOD),
    st.integers(0, MAX_PERIOD),
    st.integers(0, WINDOW - 1),
)
def test_one_piece_over_and_over(piece: str, start: int, spot: int) -> None:
    text = (piece * (WINDOW + 2 * MAX_PERIOD))[start : start + WINDOW]
    assert repeats_itself(text)
    other = "a" if text[spot] != "a" else "b"
    assert not repeats_itself(text[:spot] + other + text[spot + 1 :])
