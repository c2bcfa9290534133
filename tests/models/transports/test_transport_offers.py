"""Other tools than described: the beginning of the prompt stays, and a line near its end tells of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_model_server import ASK, DONE, LS, TOOLS, WRITE, Habits, asking, text

from headgate.core import Message, Model, OnDelta, Reply, Request, ToolCall, ToolSpec
from headgate.models.profile import UNKNOWN
from headgate.models.rendering import describe_tool
from headgate.models.schema_transport import SchemaModel
from headgate.models.text_transport import TextModel
from headgate.models.wire.openai import WIRE, encode_message

SYSTEM = Message("system", "Be brief.")
CALL = '{"thought": "", "name": "stage_done", "arguments": {"summary": "s"}}'
KINDS = [TextModel, SchemaModel]


class Calling:
    """A model that ends the stage, whatever it is asked, and encodes as the wire does."""

    name = "openai/calling"

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.encoded = 0

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.asked.append(request)
        for message in request.messages:
            if WIRE not in message.wire:
                message.wire[WIRE] = encode_message(message)
                self.encoded += 1
        return Reply(Message("assistant", CALL))


@pytest.fixture
def inner() -> Calling:
    return Calling()


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, inner: Calling) -> Model:
    made: Model = request.param(inner, UNKNOWN)
    return made


def turn(number: int) -> list[Message]:
    call = ToolCall(f"c{number}", "ls", "{}")
    return [Message("assistant", "", (call,)), Message("tool", f"file {number}", call_id=call.id)]


def told(request: Request) -> list[str]:
    return [message.content for message in request.messages]


async def ask(model: Model, messages: Sequence[Message], *offered: tuple[ToolSpec, ...]) -> None:
    """One request after another: before each but the first, a call and its result are added."""
    talk = list(messages)
    for number, tools in enumerate(offered):
        talk += turn(number) if number else []
        await model.reply(Request(list(talk), tools))


async def test_whole_requests() -> None:
    habits = Habits(text(CALL))
    talk = [SYSTEM, ASK]
    async with asking(habits, "schema") as model:
        await ask(model, talk, TOOLS, (DONE,), (DONE,))
    first, second, third = habits.asked
    calls = {"role": "assistant", "content": '{"thought":"","name":"ls","arguments":{}}'}
    result = '<tool_response name="ls">\nfile {}\n</tool_response>'
    narrower = {"role": "user", "content": result.format(1) + "\n\nOnly these tools now: stage_done."}
    assert second["messages"] == [*first["messages"], calls, narrower]
    assert third["messages"] == [
        *second["messages"],
        calls,
        {"role": "user", "content": result.format(2)},
    ]
    assert [constrained(body) for body in habits.asked] == [
        ["ls", "write_file", "stage_done"],
        ["stage_done"],
        ["stage_done"],
    ]
    rest = [{**body, "messages": (), "response_format": ()} for body in habits.asked]
    assert rest[0] == rest[1] == rest[2]


def constrained(body: dict[str, Any]) -> list[str]:
    options = body["response_format"]["json_schema"]["schema"]["anyOf"]
    return [option["properties"]["name"]["const"] for option in options]


async def test_more_tools_are_described_where_they_come(model: Model, inner: Calling) -> None:
    await ask(model, [SYSTEM, ASK], (LS, DONE), (DONE,), TOOLS, (DONE,), TOOLS, (LS, DONE))
    assert "write_file(" not in told(inner.asked[0])[0]
    ends = [content.partition("</tool_response>")[2].strip() for content in told(inner.asked[-1])[3::2]]
    assert ends == [
        "Only these tools now: stage_done.",
        f"Only these tools now: ls, write_file, stage_done. New:\n{describe_tool(WRITE)}",
        "Only these tools now: stage_done.",
        "Only these tools now: ls, write_file, stage_done.",
        "Only these tools now: ls, stage_done.",
    ]


async def test_a_tool_that_reads_otherwise_is_described_again(model: Model, inner: Calling) -> None:
    other = replace(DONE, description="Ends the other stage.")
    await ask(model, [SYSTEM, ASK], TOOLS, (other,), (DONE,))
    last = told(inner.asked[-1])
    assert last[3].endswith(f"Only these tools now: stage_done. New:\n{describe_tool(other)}")
    assert last[5].endswith(f"Only these tools now: stage_done. New:\n{describe_tool(DONE)}")


async def test_where_little_was_said_more_tools_are_described_anew(model: Model, inner: Calling) -> None:
    for tools in ((LS, DONE), TOOLS):
        await model.reply(Request([SYSTEM, ASK], tools))
    assert ["write_file(" in told(request)[0] for request in inner.asked] == [False, True]
    assert told(inner.asked[1])[1:] == [ASK.content]


async def test_a_description_that_was_cut_away_is_given_again(model: Model, inner: Calling) -> None:
    talk = [SYSTEM, ASK, *turn(1)]
    await model.reply(Request(talk[:2], (LS, DONE)))
    await model.reply(Request(talk, TOOLS))
    await model.reply(Request([SYSTEM, ASK, *turn(2)], TOOLS))
    assert [describe_tool(WRITE) in told(request)[-1] for request in inner.asked] == [False, True, True]


async def test_all_tools_again(model: Model, inner: Calling) -> None:
    await ask(model, [SYSTEM, ASK], TOOLS, (LS, DONE), TOOLS, TOOLS)
    ends = [content.rpartition("\n\n")[2] for content in told(inner.asked[3])]
    assert [end for end in ends if "tools now" in end] == [
        "Only these tools now: ls, stage_done.",
        "You have all tools now.",
    ]


async def test_a_tool_that_reads_the_same_is_the_same(model: Model, inner: Calling) -> None:
    await ask(model, [SYSTEM, ASK], TOOLS, (LS, replace(WRITE), replace(DONE)))
    assert inner.asked[0].messages[0] is inner.asked[1].messages[0]
    assert "tools now" not in told(inner.asked[1])[-1]


async def test_no_tools_in_a_conversation_that_had_some(model: Model, inner: Calling) -> None:
    await ask(model, [SYSTEM, ASK], TOOLS, ())
    first, second = inner.asked
    assert second.messages[0] is first.messages[0]
    assert told(second)[-1].endswith("\n\nNo tools now: answer in plain text.")
    # Another conversation never had any.
    await model.reply(Request([SYSTEM, Message("user", "Which phase is this?")]))
    assert told(inner.asked[-1]) == ["Be brief.", "Which phase is this?"]


async def test_each_conversation_has_a_description_of_its_own(model: Model, inner: Calling) -> None:
    other = [SYSTEM, Message("user", "Begin.")]
    one = [SYSTEM, ASK]
    for tools in (TOOLS, (DONE,)):
        await model.reply(Request(one, tools))
        await model.reply(Request(other, (LS, DONE)))
    assert [("write_file(" in content[0], content[1]) for content in map(told, inner.asked)] == [
        (True, "Begin."),
        (False, "Begin."),
        (True, "Begin.\n\nOnly these tools now: stage_done."),
        (False, "Begin."),
    ]


async def test_a_hint_that_is_never_stored_stands_behind_the_line() -> None:
    inner = Calling()
    model = TextModel(inner, UNKNOWN)
    talk = [SYSTEM, ASK, *turn(1)]
    for number in range(100):
        await model.reply(
            Request([*talk, Message("user", f"Hint {number}.")], TOOLS if number == 0 else (DONE,))
        )
    assert told(inner.asked[-1])[-1].endswith(
        "</tool_response>\n\nOnly these tools now: stage_done.\n\nHint 99."
    )
    assert "".join(told(inner.asked[-1])).count("Only these tools now") == 1


OFFER = st.lists(st.sampled_from([LS, WRITE]), unique=True).map(lambda tools: (*tools, DONE))


@settings(max_examples=60)
@given(OFFER, st.lists(OFFER, max_size=8), st.sampled_from(KINDS))
async def test_the_prompt_only_grows(
    first: tuple[ToolSpec, ...], offered: list[tuple[ToolSpec, ...]], kind: type[TextModel | SchemaModel]
) -> None:
    inner = Calling()
    await ask(kind(inner, UNKNOWN), [SYSTEM, ASK], first, *offered)
    for before, after in pairwise(inner.asked):
        assert all(old is new for old, new in zip(before.messages, after.messages, strict=False))
    assert inner.encoded == len(inner.asked[-1].messages)
    # What was told last is what is offered.
    lines = [
        line for content in told(inner.asked[-1])[1:] for line in content.split("\n") if "tools now" in line
    ]
    last = offered[-1] if offered else first
    if not lines or lines[-1] == "You have all tools now.":
        assert set(last) == set(first)
    else:
        named = lines[-1].removeprefix("Only these tools now: ").removesuffix(" New:").removesuffix(".")
        assert {*named.split(", ")} == {tool.name for tool in last}
    # What is offered was described, once.
    everything = "\n".join(told(inner.asked[-1]))
    assert all(everything.count(describe_tool(tool)) == 1 for tool in last)
