"""Replies that never end, and long ones that do."""

import asyncio
import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, count, cycle, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import answer, chunk, pour, stream, talk_to

from headgate.core import Message, Reply, Request
from headgate.errors import ReplyInvalid
from headgate.models.wire.exchange import (
    BLANK_LINES,
    BLANKS,
    MAX_PERIOD,
    MOST_CHARACTERS,
    WINDOW,
    repeats_itself,
)

ASK = Request([Message("user", "Hi")])
REPEATED = "The reply repeated itself endlessly and was cut off."
TOO_LONG = f"The reply was longer than {MOST_CHARACTERS:,} characters and was cut off."


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
    assert completion >= BLANK_LINES // 4
    return str(caught.value)


@pytest.mark.parametrize(("model", "event"), KINDS)
async def test_a_reply_that_repeats_itself(model: str, event: Callable[[str], Any]) -> None:
    assert await cut_off(model, map(event, repeat("I will now look at the file. "))) == REPEATED


@pytest.mark.parametrize("piece", [" ", "\n\n", "x" * 399 + "y", "0,"])
async def test_what_may_be_repeated(piece: str) -> None:
    assert await cut_off("openai/m", map(chat_text, repeat(piece))) == REPEATED


ESCAPED = {
    "a line break": [r"\n"],
    "one as a number": [r"\u000a"],
    "with spaces": [r"\n", "    "],
    "in a string in a string": [r"\\n"],
    "in two pieces": ["\\", "n"],
    "a number in pieces": ["\\u00", "0", "A"],
    "spaces as numbers": [r"\u0020"],
}


@pytest.mark.parametrize("pieces", ESCAPED.values(), ids=ESCAPED)
async def test_the_repeat_stop_reads_through_escapes(pieces: list[str]) -> None:
    told = chain(['{"content": "x'], cycle(pieces))
    seen: list[str] = []
    async with talk_to(pour(map(chat_arguments, told), asyncio.Event())) as (_, model):
        with pytest.raises(ReplyInvalid) as caught:
            await model.reply(ASK, lambda delta: seen.append(delta.arguments))
    assert str(caught.value) == REPEATED
    assert caught.value.said.startswith('ls {"content": "x')
    # 1,650 escaped line breaks are 3,300 characters: it is over long before that.
    assert len("".join(seen)) < BLANKS * len(r"\u0020") + 1_000


async def test_blank_lines_that_are_meant() -> None:
    lines = (r"\n" * (BLANK_LINES - 1) + str(number) for number in range(40))
    arguments = '{"content": "' + "".join(lines) + '"}'
    pieces = [arguments[start : start + 7] for start in range(0, len(arguments), 7)]
    async with talk_to(answer(stream(*map(chat_arguments, pieces), chunk(finish="stop")))) as (_, model):
        (call,) = (await model.reply(ASK)).message.calls
    assert call.arguments == arguments


@pytest.mark.parametrize(
    ("limit", "settings", "most"),
    [
        (100, {}, 4_600),
        (None, {"max_tokens": 100}, 4_600),
        (200, {"max_tokens": 100}, 4_600),
        (100, {"max_tokens": 200}, 4_600),
        (None, {"context_window": 4096}, 28_576),
        (None, {"context_window": 1_000_000}, MOST_CHARACTERS),
        (50_000, {}, 304_000),
    ],
)
async def test_every_reply_has_a_cap(limit: int | None, settings: dict[str, int], most: int) -> None:
    events = map(chat_text, (f"And then {number}. " for number in count()))
    async with talk_to(pour(events, asyncio.Event()), **settings) as (_, model):
        with pytest.raises(ReplyInvalid, match=f"longer than {most:,} characters"):
            await model.reply(replace(ASK, max_tokens=limit))


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
        "".join(f"    assert table[{number}] == {number * number}\n" for number in range(5000)),
        base64.b64encode(random.Random(1).randbytes(140_000)).decode(),
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
