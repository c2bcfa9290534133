"""Replies that run on after their calls: they end there, and what came before counts."""

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_model_server import ASK, TOOLS

from cases import CASES, case_path
from headgate.core.messages import Delta, Message, Model, OnDelta, Reply, Request
from headgate.errors import ReplyInvalid
from headgate.models.profile import UNKNOWN, Profile
from headgate.models.transports.native import NativeModel
from headgate.models.transports.running_on import MOST_CALLS, SAME_MOST
from headgate.models.transports.schema import SchemaModel
from headgate.models.transports.text import TextModel
from models.model_server import chunk, pour, talk_to
from models.toolcall_suites import SUITES, read_cases

ONE_CALL = Profile(name="small", one_call=True)
REQUEST = Request([ASK], TOOLS)
TRANSPORTS: dict[str, Callable[[Model, Profile], Model]] = {
    "native": lambda model, profile: NativeModel(model, profile, rescue=True),
    "text": TextModel,
    "schema": SchemaModel,
}
WIRES: dict[str, tuple[list[Any], Callable[[str], Any]]] = {
    "openai": ([], lambda piece: chunk({"content": piece})),
    "anthropic": (
        [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}],
        lambda piece: {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": piece},
        },
    ),
}
RESULT = "\n<tool_response>\na.py\n</tool_response>\n"


def call(name: str, **arguments: str) -> str:
    return json.dumps({"name": name, "arguments": arguments}) + "\n"


def ls(path: object) -> str:
    return call("ls", path=str(path))


class Speaker:
    """A model that says its text in pieces until the runtime has had enough, or to its end."""

    name = "openai/speaker"

    def __init__(self, text: str, piece: int = 7, *, heeds: bool = True) -> None:
        self.said = ""
        self._text = text
        self._piece = piece
        self._heeds = heeds

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        for start in range(0, len(self._text), self._piece):
            piece = self._text[start : start + self._piece]
            self.said += piece
            if on_delta:
                on_delta(Delta(piece))
            if self._heeds and request.enough and request.enough(piece):
                break
        return Reply(Message("assistant", self.said))


def called(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.message.calls]


async def read(text: str, profile: Profile = UNKNOWN) -> list[tuple[str, Any]]:
    return called(await TextModel(Speaker(text, heeds=False), profile).reply(REQUEST))


ENDLESS: dict[str, tuple[str, Callable[[], Iterator[str]], list[str]]] = {
    "a row that repeats": ("m", lambda: chain.from_iterable(repeat([ls("a"), ls("b"), ls("c")])), [*"abc"]),
    "a row that does not": ("m", lambda: map(ls, count()), [*map(str, range(MOST_CALLS))]),
    "made-up results": ("m", lambda: chain([ls("a"), ls("b")], map(with_result, count())), [*"ab"]),
    "a model that manages one call": ("gpt-oss:20b", lambda: map(ls, count()), ["0"]),
}


def with_result(path: int) -> str:
    return RESULT + ls(path)


@pytest.mark.parametrize(
    ("wire", "transport"),
    [("openai", None), ("openai", "text"), ("openai", "schema"), ("anthropic", "text")],
)
@pytest.mark.parametrize("kind", ENDLESS)
async def test_a_reply_without_end_is_ended(kind: str, wire: str, transport: str | None) -> None:
    name, say, taken = ENDLESS[kind]
    closed = asyncio.Event()
    opening, event = WIRES[wire]
    poured = pour(chain(opening, map(event, say())), closed)
    async with talk_to(poured, model=f"{wire}/{name}", tool_transport=transport) as (_, model):
        reply = await model.reply(REQUEST)
        await asyncio.wait_for(closed.wait(), 30)
    assert called(reply) == [("ls", {"path": path}) for path in taken]
    assert reply.finish == "calls"
    # The server did not come to counting, and the reply was not free.
    assert reply.usage.prompt > 0
    assert reply.usage.completion > 0


async def test_a_call_again_after_a_change_is_no_repetition() -> None:
    change = call("write_file", path="a", content="b")
    row = [ls("."), change, ls("."), ls("x"), ls(".")]
    assert [path for _, path in await read("".join(row))] == [
        {"path": "."},
        {"path": "a", "content": "b"},
        {"path": "."},
        {"path": "x"},
    ]
    assert await read(change + ls(".") + change) == await read(change + ls("."))


async def test_changes_by_turns_are_not_taken_for_ever() -> None:
    row = call("write_file", path="a", content="b") + call("write_file", path="a", content="c")
    assert len(await read(row * (SAME_MOST - 1))) == 2 * (SAME_MOST - 1)
    assert len(await read(row * 50)) == 2 * SAME_MOST


async def test_a_made_up_result_and_what_was_built_on_it_do_not_count() -> None:
    speaker = Speaker("I look.\n" + ls("a") + RESULT + "It is there. " * 20 + "\n" + ls("b"))
    reply = await TextModel(speaker, UNKNOWN).reply(REQUEST)
    assert called(reply) == [("ls", {"path": "a"})]
    assert reply.message.content == "I look."
    assert speaker.said.count("It is there.") < 10


async def test_the_mark_of_a_result_in_what_is_written_is_text() -> None:
    page = f"One {RESULT} two"
    assert await read(call("write_file", path="a", content=page) + ls("b")) == [
        ("write_file", {"path": "a", "content": page}),
        ("ls", {"path": "b"}),
    ]
    assert (
        await TextModel(Speaker(RESULT), UNKNOWN).reply(REQUEST)
    ).message.content.strip() == RESULT.strip()


async def test_calls_that_are_thought_about_end_nothing() -> None:
    thought = ls("a") * 3
    for opening, profile in (("<think>\n", UNKNOWN), ("", Profile(name="thinks", opens_thinking=True))):
        text = f"{opening}{thought}{RESULT}</think>\n" + ls("b")
        reply = await TextModel(Speaker(text), profile).reply(REQUEST)
        assert called(reply) == [("ls", {"path": "b"})]
        assert thought.strip() in reply.message.reasoning


@given(
    words=st.sampled_from(["", "I look.\n", "x = {1: [2]}\n"]),
    said=st.lists(
        st.sampled_from(
            [
                *map(ls, "abc"),
                call("write_file", path="a", content=f"x{RESULT}{ls('a')}"),
                "<tool_call>\n" + ls("a") + "</tool_call>\n",
                call("stage_done", summary="s"),
                RESULT,
            ]
        ),
        max_size=40,
    ),
    piece=st.integers(1, 300),
    profile=st.sampled_from([UNKNOWN, ONE_CALL, Profile(name="hermes", calls="hermes")]),
    transport=st.sampled_from([*TRANSPORTS]),
)
async def test_what_counts_is_the_same_whether_or_not_the_reply_could_be_ended(
    words: str, said: list[str], piece: int, profile: Profile, transport: str
) -> None:
    text = words + "".join(said)
    heeding, deaf = Speaker(text, piece), Speaker(text, piece, heeds=False)
    assert await outcome(heeding, profile, transport) == await outcome(deaf, profile, transport)


async def outcome(speaker: Speaker, profile: Profile, transport: str) -> tuple[list[tuple[str, Any]], str]:
    """The calls, or the correction."""
    try:
        reply = await TRANSPORTS[transport](speaker, profile).reply(REQUEST)
    except ReplyInvalid as error:
        return [], str(error)
    return called(reply), ""


async def test_no_real_reply_is_ended_before_its_calls_have_come() -> None:
    for suite in SUITES:
        case_path(*suite.split("/"))
    tried = 0
    for case in read_cases(CASES):
        profile = Profile(name="case", calls=case.family, opens_thinking=case.thinking)
        for piece in (1, 40, 10_000):
            request = Request([ASK], case.tools)
            heeding = Speaker(case.text, piece)
            whole = Speaker(case.text, heeds=False)
            try:
                wanted = called(await TRANSPORTS["native"](whole, profile).reply(request))
            except ReplyInvalid:
                continue
            assert called(await TRANSPORTS["native"](heeding, profile).reply(request)) == wanted, case.id
            tried += len(wanted) > 0
    assert tried > 500
