"""One JSON object per turn: its schema, what is read of it, and which field carries it."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_model_server import ASK, DONE, LS, TOOLS, WRITE, Habits, asking, fits, text

from headgate.core import Finish, Message, ModelSettings, OnDelta, Reply, Request, ToolCall, ToolSpec
from headgate.engine.tool_list import TOOLS as REAL_TOOLS
from headgate.errors import ConfigError, ReplyInvalid
from headgate.models.network import open_model
from headgate.models.profile import UNKNOWN
from headgate.models.schema_transport import SchemaModel, call_schema
from headgate.models.server_facts import ServerFacts, ServerInquiry
from headgate.models.wire.failures import RequestRejected

SCHEMA = call_schema(TOOLS, 1000)


def strings_in(schema: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(schema, dict):
        if schema.get("type") == "string" and not {"enum", "const"} & set(schema):
            found.append(schema)
        for value in schema.values():
            found += strings_in(value)
    if isinstance(schema, list):
        for value in schema:
            found += strings_in(value)
    return found


def test_every_string_of_every_real_tool_has_an_end() -> None:
    strings = strings_in(call_schema(tuple(tool.spec for tool in REAL_TOOLS), 2000))
    assert len(strings) > 20
    assert all(0 < schema["maxLength"] <= 2000 for schema in strings)


SHORT = st.text(max_size=20)
GOOD: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "ls": st.fixed_dictionaries({}, optional={"path": SHORT}),
    "write_file": st.fixed_dictionaries({"path": SHORT, "content": SHORT}, optional={"mode": st.integers()}),
    "stage_done": st.fixed_dictionaries({"summary": SHORT}, optional={"stage": st.just("a")}),
}
CALL = st.sampled_from(sorted(GOOD)).flatmap(
    lambda name: st.fixed_dictionaries({"thought": SHORT, "name": st.just(name), "arguments": GOOD[name]})
)


@given(CALL)
def test_the_schema_takes_valid_calls(call: dict[str, Any]) -> None:
    assert fits(SCHEMA, call)


@given(CALL, st.sampled_from(["name", "extra", "missing", "type", "long", "thought"]))
def test_the_schema_takes_no_others(call: dict[str, Any], fault: str) -> None:
    arguments = call["arguments"]
    match fault:
        case "name":
            call["name"] = "rm"
        case "extra":
            arguments["nonsense"] = 1
        case "missing":
            del call["arguments"]
        case "type":
            arguments["path" if "path" in arguments else "summary" if "summary" in arguments else "path"] = 3
        case "long":
            call["thought"] = "x" * 161
        case "thought":
            del call["thought"]
    assert not fits(SCHEMA, call)


class Saying:
    """A model that says one thing."""

    name = "openai/saying"

    def __init__(self, content: str, finish: Finish = "stop") -> None:
        self.asked: list[Request] = []
        self._reply = Reply(Message("assistant", content), finish=finish)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.asked.append(request)
        return self._reply


async def ask(content: str, finish: Finish = "stop", tools: tuple[ToolSpec, ...] = TOOLS) -> Reply:
    return await SchemaModel(Saying(content, finish), UNKNOWN, "llamacpp").reply(Request([ASK], tools))


@given(CALL)
async def test_what_the_schema_takes_is_called(call: dict[str, Any]) -> None:
    reply = await ask(json.dumps(call))
    (made,) = reply.message.calls
    assert (made.name, json.loads(made.arguments)) == (call["name"], call["arguments"])
    assert (reply.message.content, reply.finish) == (call["thought"], "calls")


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ('{"name": "write_file", "arguments": {"path": "a", "content": "b", "mode": "7"}}', '"mode":7'),
        ('{"thought": "x", "name": "ls", "arguments": {"path": "a",}}', '"path":"a"'),
        ('<think>Hm.</think>{"name": "ls", "arguments": {"path": "a"}}', '"path":"a"'),
        ('Sure:\n<tool_call>{"name": "ls", "arguments": {"path": "a"}}</tool_call>', '"path": "a"'),
    ],
)
async def test_what_is_nearly_right_is_mended(said: str, arguments: str) -> None:
    (call,) = (await ask(said)).message.calls
    assert arguments in call.arguments


async def test_a_cut_off_string_is_not_written() -> None:
    said = {"thought": "", "name": "write_file", "arguments": {"path": "a", "content": "x" * 8000}}
    with pytest.raises(
        ReplyInvalid, match=re.escape("write_file was not run: an argument reached the limit of 8,000")
    ):
        await ask(json.dumps(said))


@pytest.mark.parametrize("end", range(30, 87))
async def test_half_a_call_is_never_run(end: int) -> None:
    whole = '{"thought": "x", "name": "write_file", "arguments": {"path": "a", "content": "{b}\\n{c}"}}'
    with pytest.raises(ReplyInvalid):
        await ask(whole[:end])


DEEP = "[" * 5000
NESTED = '{"name": "ls", "arguments": {"path": ' + '{"a":' * 400 + "1" + "}" * 400 + "}}"


@pytest.mark.parametrize(
    "said", [DEEP, '{"name": "ls", "arguments": ' + DEEP, NESTED, "{}", "[]", "null", "1e999"]
)
async def test_odd_replies_give_calls_or_a_correction(said: str) -> None:
    await expect_sound(said)


async def expect_sound(said: str) -> None:
    try:
        reply = await ask(said)
    except ReplyInvalid:
        return
    for call in reply.message.calls:
        assert call.name in {tool.name for tool in TOOLS}
        assert isinstance(json.loads(call.arguments), dict)


async def test_without_tools_nothing_is_constrained() -> None:
    model = Saying("Good morning.")
    reply = await SchemaModel(model, UNKNOWN).reply(Request([ASK]))
    assert reply == Reply(Message("assistant", "Good morning."))
    assert model.asked[0].extra_body == {}


@pytest.mark.parametrize(
    ("withheld", "possible"),
    [
        ((), ["ls", "write_file"]),
        (("ls", "elsewhere"), ["write_file"]),
        (("ls", "write_file"), ["ls", "write_file"]),  # a form that nothing fits is none
    ],
)
async def test_what_would_be_refused_has_no_place_in_the_form(
    withheld: tuple[str, ...], possible: list[str]
) -> None:
    habits = Habits(text('{"thought": "t", "name": "write_file", "arguments": {"path": "a", "content": ""}}'))
    async with asking(habits, "schema") as model:
        await model.reply(Request([ASK], (LS, WRITE)))
        await model.reply(Request([ASK], (LS, WRITE), withheld=frozenset(withheld)))
    first, second = habits.asked
    schema = second["response_format"]["json_schema"]["schema"]
    assert [option["properties"]["name"]["const"] for option in schema["anyOf"]] == possible
    assert second["messages"] == first["messages"]  # what the server has read stays as it was


async def test_what_is_sent() -> None:
    habits = Habits(text('{"thought": "t", "name": "ls", "arguments": {}}'))
    talk = [
        ASK,
        Message("assistant", "t", (ToolCall("c1", "ls", '{"path": "."}'),)),
        Message("tool", "a.py", call_id="c1"),
    ]
    async with asking(habits, "schema") as model:
        await model.reply(Request(talk, (LS, WRITE)))
    (asked,) = habits.asked
    schema = asked["response_format"]["json_schema"]["schema"]
    assert asked["response_format"]["type"] == "json_schema"
    assert [option["properties"]["name"]["const"] for option in schema["anyOf"]] == ["ls", "write_file"]
    assert [message["content"] for message in asked["messages"][1:]] == [
        "Begin.",
        '{"thought":"t","name":"ls","arguments":{"path":"."}}',
        '<tool_response name="ls">\na.py\n</tool_response>',
    ]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("llamacpp", ["response_format", "json_schema"]),
        ("vllm", ["response_format", "structured_outputs", "guided_json"]),
        ("ollama", ["response_format", "format"]),
        ("unknown", ["response_format"]),
    ],
)
async def test_a_field_that_is_refused_is_replaced_by_the_next(kind: str, fields: list[str]) -> None:
    known = fields[-1] if len(fields) > 1 else ""
    habits = Habits(
        text('{"thought": "", "name": "ls", "arguments": {}}'),
        refuse=lambda body: None if known in body else "unknown field",
    )
    async with habits.running() as server:
        wanted = ModelSettings(model="openai/m", base_url=server.url, tool_transport="schema")
        found = ServerFacts.model_validate({"server": kind})
        async with open_model(wanted, ServerInquiry(wanted, findings=found)) as model:
            if not known:
                with pytest.raises(RequestRejected):
                    await model.reply(Request([ASK], (DONE, LS)))
            else:
                for _ in range(2):
                    await model.reply(Request([ASK], (DONE, LS)))
    tried = [next(field for field in fields if field in body) for body in habits.asked]
    assert tried == (fields if not known else [*fields, known])


async def test_a_server_that_cannot_make_a_grammar_of_long_strings() -> None:
    habits = Habits(
        text('{"thought": "", "name": "ls", "arguments": {}}'),
        refuse=lambda body: "failed to parse grammar" if "8000" in json.dumps(body) else None,
    )
    async with asking(habits, "schema") as model:
        for _ in range(2):
            await model.reply(Request([ASK], (WRITE, LS)))
    longest = [
        max(schema["maxLength"] for schema in strings_in(body["response_format"])) for body in habits.asked
    ]
    assert longest == [8000, 1900, 1900]


async def test_the_messages_api_takes_no_schema() -> None:
    wanted = ModelSettings(model="anthropic/claude", tool_transport="schema")
    with pytest.raises(ConfigError, match="does not support schemas"):
        async with open_model(wanted):
            pass
