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
from headgate.core import Delta, Finish, Message, Model, OnDelta, Reply, Request, Usage
from headgate.errors import CallUnknown, ReplyInvalid
from headgate.models.profile import UNKNOWN, Profile
from headgate.models.schema_transport import SchemaModel
from headgate.models.text_transport import MOST_CALLS, SAME_MOST, NativeModel, TextModel, find_end
from headgate.models.textcalls import parse_calls
from models.model_server import answer, chunk, pour, stream, talk_to
from models.toolcall_suites import SUITES, read_cases

ONE_CALL = Profile(name="small", one_call=True)
OPENED = Profile(name="thinking", opens_thinking=True)
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


def wonder(size: int) -> str:
    return " ".join(map(str, range(size)))[:size]


class Speaker:
    """A model that says its text in pieces until the runtime has had enough, or to its end."""

    name = "openai/speaker"

    def __init__(self, text: str, piece: int = 7, *, heeds: bool = True, finish: Finish = "stop") -> None:
        self.said = ""
        self._finish: Finish = finish
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
        return Reply(Message("assistant", self.said), finish=self._finish)


def called(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.message.calls]


async def read(text: str, profile: Profile = UNKNOWN) -> list[tuple[str, Any]]:
    return called(await TextModel(Speaker(text, heeds=False), profile).reply(REQUEST))


UNKNOWN_TOOL = call("think", text="x")
DESCRIPTION = json.dumps({"name": "ls", "description": "Lists.", "arguments": {"path": "p"}}) + "\n"
ENDLESS: dict[str, tuple[str, Callable[[], Iterator[str]], list[str]]] = {
    "a row that repeats": ("m", lambda: chain.from_iterable(repeat([ls("a"), ls("b"), ls("c")])), [*"abc"]),
    "a row that does not": ("m", lambda: map(ls, count()), [*map(str, range(MOST_CALLS))]),
    "made-up results": ("m", lambda: chain([ls("a"), ls("b")], map(with_result, count())), [*"ab"]),
    "a model that manages one call": ("gpt-oss:20b", lambda: map(ls, count()), ["0"]),
}


def with_result(path: int) -> str:
    return RESULT + ls(path)


@pytest.mark.parametrize(
    ("wire", "transport"), [("openai", None), ("openai", "schema"), ("anthropic", "text")]
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
    # The server did not come to counting, and the reply was not free; but nothing was measured.
    assert reply.usage == Usage()
    assert reply.aside.prompt > 0
    assert reply.aside.completion > 0


async def test_a_reply_that_was_cut_off_as_it_went_round_has_its_calls() -> None:
    speaker = Speaker(ls("a") * 9 + '{"name": "ls", "argum', heeds=False, finish="length")
    reply = await TextModel(speaker, UNKNOWN).reply(REQUEST)
    assert (called(reply), reply.finish) == ([("ls", {"path": "a"})], "calls")


async def test_a_call_of_the_servers_own_is_waited_for() -> None:
    fragment = {"index": 0, "id": "c", "function": {"name": "write_file", "arguments": '{"path": "a", '}}
    rest = {"index": 0, "function": {"arguments": '"content": "b"}'}}
    events = stream(
        chunk({"tool_calls": [fragment]}),
        chunk({"content": ls("a") * 9}),
        chunk({"tool_calls": [rest]}, "tool_calls"),
    )
    async with talk_to(answer(events), tool_transport=None) as (_, model):
        assert called(await model.reply(REQUEST)) == [("write_file", {"path": "a", "content": "b"})]


async def test_a_row_of_calls_to_a_tool_that_is_not_there_is_ended() -> None:
    closed = asyncio.Event()
    poured = pour(map(WIRES["openai"][1], repeat(UNKNOWN_TOOL)), closed)
    async with talk_to(poured, tool_transport="text") as (_, model):
        with pytest.raises(
            CallUnknown, match=r'There is no tool "think"\. The tools are ls, write_file'
        ) as caught:
            await model.reply(REQUEST)
        await asyncio.wait_for(closed.wait(), 30)
    assert caught.value.name == "think"
    prompt, completion, _ = caught.value.tokens
    assert prompt > 0
    assert 0 < completion < 200


@pytest.mark.parametrize(("transport", "profile"), [("text", UNKNOWN), ("native", ONE_CALL)])
@pytest.mark.parametrize("first", [UNKNOWN_TOOL, DESCRIPTION, UNKNOWN_TOOL * 3])
async def test_what_is_no_call_to_a_tool_stands_in_no_calls_way(
    first: str, profile: Profile, transport: str
) -> None:
    text = first + call("write_file", path="a", content="b")
    calls, _ = await outcome(Speaker(text), profile, transport)
    assert calls == [("write_file", {"path": "a", "content": "b"})]


@pytest.mark.parametrize(("piece", "thought"), [(9, 0), (9, 60_000), (50_000, 42_809), (1_000_000, 60_000)])
async def test_a_row_that_goes_round_is_not_given_up_as_endless(piece: int, thought: int) -> None:
    text = f"<think>{wonder(thought)}</think>\n" + ls("a") * 400
    pieces = [text[start : start + piece] for start in range(0, len(text), piece)]
    said = stream(*(chunk({"content": piece}) for piece in pieces), chunk(finish="stop"))
    async with talk_to(answer(said), tool_transport="text") as (_, model):
        assert called(await model.reply(REQUEST)) == [("ls", {"path": "a"})]


async def test_a_call_again_after_a_change_is_no_repetition() -> None:
    change = call("write_file", path="a", content="b")
    row = ls(".") + ls("x") + change + ls(".") + ls("x")
    assert [path for _, path in await read(row + ls(".") + ls("x"))] == [
        {"path": "."},
        {"path": "x"},
        {"path": "a", "content": "b"},
        {"path": "."},
        {"path": "x"},
    ]
    assert await read((change + ls(".")) * 2) == await read(change + ls("."))


async def test_changes_by_turns_are_not_taken_for_ever() -> None:
    row = call("write_file", path="a", content="b") + call("write_file", path="a", content="c")
    assert len(await read(row * SAME_MOST)) == 2 * SAME_MOST
    assert len(await read(row * 50)) == 2 * SAME_MOST


async def test_a_made_up_result_and_what_was_built_on_it_do_not_count() -> None:
    speaker = Speaker(ls("a") + RESULT + "It is there. " * 20 + "\n" + ls("b"))
    reply = await TextModel(speaker, UNKNOWN).reply(REQUEST)
    assert called(reply) == [("ls", {"path": "a"})]
    assert reply.message.content == ""
    assert speaker.said.count("It is there.") < 10


TAGGED = f"<tool_call>\n{ls('a')}</tool_call>\n"
QUOTING = f"Closed by </tool_call>, then {RESULT} follows.\n{TAGGED * 3}{ls('b') * 3}"
NOT_RUNNING_ON = {
    "in an argument": "<tool_call>\n" + call("write_file", path="a", content=QUOTING) + "</tool_call>",
    "in an argument, bare": call("write_file", path="a", content=QUOTING) + ls("b"),
    "in an argument before the name": json.dumps(
        {"arguments": {"path": "a", "content": QUOTING}, "name": "write_file"}
    ),
    "in an argument, behind a thought": json.dumps(
        {"thought": "I write.", "name": "write_file", "arguments": {"path": "a", "content": QUOTING}}
    ),
    "in a fence": f"The log reads:\n```\n{ls('a') * 3}{RESULT}```\nThat was a mistake.",
    "amid words": f"The file holds\n{ls('a') * 4}and nothing else. {'I see. ' * 20}",
    "in thinking": f"<think>\n{ls('a') * 3}{TAGGED * 3}{RESULT}</think>\n{ls('b')}",
    "in thinking that nobody knew of": f"I could say\n{TAGGED * 3}{RESULT} Hm.\n</think>\n{ls('b')}",
    "in words alone": RESULT,
}


@pytest.mark.parametrize(
    ("transport", "profile", "piece"),
    [("native", UNKNOWN, 7), ("text", ONE_CALL, 150), ("schema", OPENED, 1)],
)
@pytest.mark.parametrize("case", NOT_RUNNING_ON)
async def test_what_is_quoted_or_thought_ends_nothing(
    case: str, transport: str, profile: Profile, piece: int
) -> None:
    text = NOT_RUNNING_ON[case]
    speaker = Speaker(text, piece)
    calls, _ = await outcome(speaker, profile, transport)
    assert speaker.said == text
    expected = parse_calls(text, TOOLS).calls[: 1 if profile.one_call else None]
    if transport != "schema":
        assert calls == [(found.name, json.loads(found.arguments)) for found in expected]


PIECES = [
    *map(ls, "abc"),
    json.dumps({"name": "ls", "parameters": {"path": "a"}}) + "\n",
    call("write_file", path="a", content=QUOTING),
    call("stage_done", summary="s"),
    TAGGED,
    RESULT,
    UNKNOWN_TOOL,
    DESCRIPTION,
    "<tool_response",
    "s_seen>\n",
    '{"name": "ls"',
    "<tool_call>",
    "<think>",
    "</think>",
    "```\n",
    "I look.\n",
    "x = {1: [2]}\n",
]
ROWS = st.lists(st.sampled_from(PIECES), max_size=30) | st.lists(st.sampled_from(PIECES[:8]), max_size=60)
PROFILES = st.sampled_from([UNKNOWN, ONE_CALL, OPENED, Profile(name="hermes", calls="hermes")])


@given(said=ROWS, piece=st.integers(1, 300), profile=PROFILES, transport=st.sampled_from([*TRANSPORTS]))
async def test_what_counts_is_the_same_whether_or_not_the_reply_could_be_ended(
    said: list[str], piece: int, profile: Profile, transport: str
) -> None:
    text = "".join(said)
    heeding, deaf = Speaker(text, piece), Speaker(text, piece, heeds=False)
    assert await outcome(heeding, profile, transport) == await outcome(deaf, profile, transport)


@given(said=ROWS, profile=PROFILES, data=st.data())
def test_an_end_that_is_found_stays_whatever_follows(said: list[str], profile: Profile, data: Any) -> None:
    text = "".join(said)
    beginning = text[: data.draw(st.integers(0, len(text)))]
    assert find_end(beginning, TOOLS, profile) in (None, find_end(text, TOOLS, profile))


async def outcome(speaker: Speaker, profile: Profile, transport: str) -> tuple[list[tuple[str, Any]], str]:
    """The calls, or the correction."""
    try:
        reply = await TRANSPORTS[transport](speaker, profile).reply(REQUEST)
    except ReplyInvalid as error:
        return [], str(error)
    return called(reply), ""


def test_no_real_reply_runs_on() -> None:
    for suite in SUITES:
        case_path(*suite.split("/"))
    cases = read_cases(CASES)
    assert len(cases) > 400
    for case in cases:
        profile = Profile(name="case", calls=case.family, opens_thinking=case.thinking)
        assert find_end(case.text, case.tools, profile) is None, case.id
