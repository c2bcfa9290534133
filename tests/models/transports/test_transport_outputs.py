"""Outputs of stages and arguments of functions in the schema transport: what the server is to enforce."""

import json
from collections.abc import Callable, Iterator
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_model_server import Body, Habits, asking, fits
from pydantic import BaseModel, Field, TypeAdapter

from headgate import Flow, FlowResult, Stage, start_flow, tool
from headgate.core import Event, ReplyFailed, ReplyReceived, ToolSpec
from headgate.models.call_schemas import call_schema


def said(name: str, **arguments: Any) -> Body:
    return {"content": json.dumps({"thought": "", "name": name, "arguments": arguments})}


async def run(habits: Habits, *stages: Stage, **options: Any) -> tuple[FlowResult, list[Event]]:
    events: list[Event] = []
    async with asking(habits, "schema", **options) as model:
        flow_run = start_flow(Flow(name="f", stages=stages), model=model)
        async for event in flow_run.events():
            events.append(event)
        return await flow_run.result(), events


def arguments_in(body: Body, name: str) -> dict[str, Any]:
    """The schema for the arguments of a tool in a request."""
    options = body["response_format"]["json_schema"]["schema"]["anyOf"]
    (found,) = [option for option in options if option["properties"]["name"]["const"] == name]
    return dict(found["properties"]["arguments"])


# What is enforced.


class Sources(BaseModel):
    items: Annotated[list[str], Field(min_length=3)]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []
    twin: "Tree | None" = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(gt=0, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    colour: Colour = Colour.RED


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    age: int | None


BY_HAND = {
    "type": "object",
    "allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"$ref": "#/definitions/more"}],
    "definitions": {
        "more": {"properties": {"b": {"$ref": "#/definitions/n"}}},
        "n": {"type": ["null", "number"]},
    },
}


@pytest.mark.parametrize(
    ("given_type", "good", "bad"),
    [
        (Sources, [{"items": ["a", "b", "c"]}], [{"items": ["a", "b"]}, {"items": [1, 2, 3]}, {}, "a"]),
        (list[Colour], [[], ["red", "blue"]], [["green"], "red"]),
        (
            Tree,
            [{"name": "a"}, {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}],
            [
                {},
                {"name": "a", "children": [{}]},
                {"name": "a", "children": ["b"]},
                {"name": "a", "twin": "b"},
            ],
        ),
        (
            Owner,
            [{"pet": {"kind": "cat", "lives": 9}, "age": None}, {"pet": {"kind": "dog"}, "age": 3}],
            [
                {"pet": {"kind": "cat"}, "age": 1},
                {"pet": {"kind": "cat", "lives": 0}, "age": 1},
                {"pet": {"kind": "dog", "lives": 1}, "age": 1},
                {"pet": {"kind": "dog"}},
            ],
        ),
        (dict[str, list[int]], [{}, {"a": [1]}], [{"a": 1}, []]),
        (tuple[int, str], [[1, "a"]], [[1], ["a", 1], [1, "a", 2]]),
        (Annotated[int, Field(gt=1, lt=4)], [2, 3], [1, 4, "2"]),
        ({"type": "integer", "minimum": 1.5, "maximum": 3.5}, [2, 3], [1, 4]),
        (int | Literal["none"], [3, "none"], ["some", None]),
        (bool, [True], ["true", 1]),
        (Annotated[str, Field(min_length=2, max_length=3)], ["ab", "abc"], ["a", "abcd"]),
        (date, ["2024-02-03"], [3]),
        (BY_HAND, [{"a": 1}, {"a": 1, "b": None}, {"a": 1, "b": 0.5}], [{"b": 1}, {"a": 1, "b": "x"}]),
        ({"type": "array", "items": {"$ref": "#"}}, [[], [[]], [[[]]]], [["a"], {}]),
    ],
    ids=str,
)
async def test_an_output_is_held_to_its_schema(given_type: Any, good: list[Any], bad: list[Any]) -> None:
    habits = Habits(lambda body: said("stage_done", summary="Done.", output=good[0]))
    result, _ = await run(habits, Stage(id="one", output_schema=given_type))
    assert result.status == "completed"
    if isinstance(given_type, dict):
        assert result["one"].output == good[0]
    else:
        assert result["one"].output == TypeAdapter(given_type).validate_python(good[0])
    arguments = arguments_in(habits.asked[0], "stage_done")
    assert list(arguments["properties"])[:3] == ["stage", "summary", "output"]
    assert "output" in arguments["required"]
    schema = arguments["properties"]["output"]
    assert [value for value in good if not fits(schema, value)] == []
    assert [value for value in bad if fits(schema, value)] == []


async def test_a_function_s_arguments_are_held_to_their_types() -> None:
    @tool(category="read")
    def paint(colour: Colour, layers: Annotated[int, Field(ge=1, le=3)] = 1) -> str:
        return f"{layers} {colour.value}"

    replies = iter([said("paint", colour="red"), said("stage_done", summary="Done.")])
    habits = Habits(lambda body: next(replies))
    result, _ = await run(habits, Stage(id="one", tools=[paint]))
    assert result.status == "completed"
    schema = arguments_in(habits.asked[0], "paint")
    assert fits(schema, {"colour": "blue", "layers": 3})
    for wrong in (
        {"colour": "green"},
        {"layers": 1},
        {"colour": "red", "layers": 4},
        {"colour": "red", "x": 1},
    ):
        assert not fits(schema, wrong)


# Every text and list has an end, and none that contradicts its beginning: a server may die of that.


SIZES = st.integers(-1, 10**7)
LEAVES = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "null", "odd"])},
    optional={
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems"], SIZES),
        **dict.fromkeys(
            ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
            st.one_of(st.integers(-(10**30), 10**30), st.floats(allow_nan=False, allow_infinity=False)),
        ),
        "enum": st.lists(st.integers(), max_size=2),
        "pattern": st.just("[a"),
        "format": st.sampled_from(["date", "email"]),
    },
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    LEAVES | st.just({}) | st.booleans(),
    lambda inner: (
        st.builds(
            lambda items, low, high: {"type": "array", "items": items, "minItems": low, "maxItems": high},
            inner,
            SIZES,
            SIZES,
        )
        | st.builds(
            lambda a, b: {"type": "object", "properties": {"a": a, "b": b}, "required": ["b"]}, inner, inner
        )
        | st.builds(
            lambda word, options: {word: options}, st.sampled_from(["anyOf", "oneOf"]), st.lists(inner)
        )
        | st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner)
        | st.builds(lambda places: {"type": "array", "prefixItems": places}, st.lists(inner))
    ),
    max_leaves=8,
)


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for word in ("anyOf", "prefixItems"):
            for option in schema.get(word, ()):
                yield from parts_of(option)
        for inner in (
            schema.get("items"),
            schema.get("additionalProperties"),
            *schema.get("properties", {}).values(),
        ):
            yield from parts_of(inner)


@given(SCHEMAS, st.sampled_from(["read", "run", "control"]), st.integers(0, 3))
def test_whatever_a_schema_says_its_texts_and_lists_have_ends(
    schema: Any, category: Literal["read", "run", "control"], tightness: int
) -> None:
    parameters = {"type": "object", "properties": {"output": schema}, "required": ["output"]}
    tools = [ToolSpec(name, "", parameters, category) for name in ("stage_done", "other")]
    made = call_schema(tools, tightness=tightness)
    json.dumps(made, allow_nan=False)
    for part in parts_of(made):
        if "enum" in part or "const" in part or "format" in part:
            assert part.get("enum", [0])
        elif part.get("type") == "string":
            assert 0 <= part.get("minLength", 0) <= part["maxLength"] <= 8000
        elif part.get("type") == "array" and "prefixItems" not in part:
            assert 0 <= part.get("minItems", 0) <= part["maxItems"] <= 500
        elif part.get("type") in ("integer", "number"):
            assert part.get("minimum", -(2**63)) <= part.get("maximum", 2**63)
        assert not {"pattern", "oneOf", "allOf", "$ref"} & set(part)


# Room.


class Findings(BaseModel):
    report: str = ""
    items: list[str] = []
    codes: list[Annotated[str, Field(max_length=600)]] = []


async def test_replies_that_are_cut_off_are_followed_by_ones_with_less_room() -> None:
    cut: Body = {"content": '{"thought": "I th', "finish_reason": "length"}
    done = said("stage_done", summary="Done.", output={})
    replies = iter([cut, cut, cut, cut, done, done, done, done, done])
    habits = Habits(lambda body: next(replies))
    result, events = await run(
        habits,
        *(
            Stage(id=f"s{number}", output_schema=Findings, options={"budget": {"bad_replies": 9}})
            for number in range(5)
        ),
    )
    assert result.status == "completed"
    asked = [arguments_in(body, "stage_done")["properties"] for body in habits.asked]
    output = [schema["output"]["properties"] for schema in asked]
    assert [one["report"]["maxLength"] for one in output] == [
        8000,
        1900,
        400,
        100,
        100,
        400,
        1900,
        8000,
        8000,
    ][:9]
    assert [one["items"]["maxItems"] for one in output] == [50, 4, 2, 1, 1, 2, 4, 50, 50]
    assert [one["items"]["items"]["maxLength"] for one in output] == [500, 400, 80, 40, 40, 80, 400, 500, 500]
    assert [one["summary"]["maxLength"] for one in asked] == [500, 400, 80, 40, 40, 80, 400, 500, 500]
    assert [one["decisions"]["maxItems"] for one in asked] == [8, 4, 2, 1, 1, 2, 4, 8, 8]
    finishes = [event.body.finish for event in events if isinstance(event.body, ReplyReceived)]
    assert finishes == ["length"] * 4 + ["calls"] * 5


@pytest.mark.parametrize(
    ("output", "limit"),
    [
        ({"report": "x" * 8000}, "8,000"),
        ({"items": ["a", "x" * 500]}, "500"),
        ({"codes": ["x" * 600]}, ""),  # as long as the type itself allows
        ({"report": "x" * 7999, "items": ["x" * 499] * 50}, ""),
    ],
)
async def test_an_output_with_a_text_that_the_server_ended_is_refused(
    output: dict[str, Any], limit: str
) -> None:
    replies = iter(
        [said("stage_done", summary="s" * 500, output=output), said("stage_done", summary="Done.", output={})]
    )
    habits = Habits(lambda body: next(replies))
    result, events = await run(habits, Stage(id="one", output_schema=Findings))
    assert result.status == "completed"
    refused = [event.body.detail for event in events if isinstance(event.body, ReplyFailed)]
    told = (
        f"stage_done was not run: a text in `output` reached the limit of {limit} characters and was cut off"
    )
    assert [told in detail for detail in refused] == ([True] if limit else [])


# Servers that cannot take a schema.


@pytest.mark.parametrize(
    ("complaint", "status"),
    [
        ("Failed to initialize samplers: failed to parse grammar", 400),  # llama.cpp
        ("JSON schema conversion failed: Unrecognized schema", 500),  # llama.cpp, earlier
        ("invalid JSON schema in format", 500),  # Ollama
        ("The provided JSON schema contains features not supported by xgrammar.", 400),  # vLLM
        ("Invalid schema for response_format 'call'", 400),  # OpenAI
    ],
)
async def test_a_schema_that_the_server_cannot_take_does_not_end_the_flow(
    complaint: str, status: int
) -> None:
    def refuse(body: Body) -> str | None:
        return complaint if "prefixItems" in json.dumps(body["response_format"]) else None

    replies: Callable[[Body], Body] = lambda body: (  # noqa: E731
        said("stage_done", summary="Done.", output=[1, "a"])
        if "GATHER" in body["messages"][-1]["content"]
        else said("stage_done", summary="Done.")
    )
    habits = Habits(replies, refuse=refuse, refusal_status=status)
    stages = [Stage(id="gather", output_schema=tuple[int, str]), Stage(id="write", needs=["gather"])]
    result, events = await run(habits, *stages)
    assert (result.status, result["gather"].output) == ("completed", (1, "a"))
    assert [bool(refuse(body)) for body in habits.asked] == [True, True, False, False]
    remarks = [event.body.remark for event in events if isinstance(event.body, ReplyReceived)]
    assert remarks[0].startswith(
        "The model server cannot hold replies to the arguments of these tools, so they "
    )
    assert complaint.rstrip(".") in remarks[0]
    assert remarks[1:] == [""]
    # The other stage has a closing signal of its own, which the server can be held to.
    assert arguments_in(habits.asked[2], "stage_done") == {"type": "object"}
    assert arguments_in(habits.asked[3], "stage_done")["required"] == ["summary"]
