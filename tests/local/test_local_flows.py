"""Flows of a Python program with a real, tiny model: what is asserted is the form, which the schema enforces.

Whatever the model says, it can only say it within the schema of a call; a reply that is cut off is followed
by one with less room; and the budget of a stage ends in a turn in which only the result can be given.
"""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headgate import Flow, FlowResult, Stage, start_flow, tool
from headgate.cli.local_server import LocalServer
from headgate.core import Event, Message, ReplyReceived, Request, ToolFinished, ToolSpec
from headgate.models.network import open_model

PATIENCE = 600.0
"""Seconds after which a flow counts as one that does not end."""
LONGEST = 320
"""Tokens of a reply: more than the tightest schema has room for."""


class Sources(BaseModel):
    items: Annotated[list[Annotated[str, Field(max_length=60)]], Field(min_length=3)]


@tool(category="read")
async def search_papers(query: str) -> str:
    """Search for papers."""
    return f"1. {query}: a survey\n2. {query} in practice\n3. Against {query}"


async def run(server: LocalServer, flow: Flow) -> tuple[FlowResult, list[Event]]:
    settings = server.settings(temperature=0, seed=1, max_tokens=LONGEST, tool_transport="schema")
    events: list[Event] = []
    async with asyncio.timeout(PATIENCE), open_model(settings) as model:
        flow_run = start_flow(flow, model=model, input="Bees.")
        async for event in flow_run.events():
            events.append(event)
        return await flow_run.result(), events


async def test_a_small_model_gives_an_output_of_the_type(roomy_server: LocalServer) -> None:
    flow = Flow(
        name="report",
        stages=[
            Stage(
                id="gather",
                prompt="Gather the data.",
                tools=[search_papers],
                output_schema=Sources,
                accept=lambda out: len(out.items) > 2,
                options={"budget": {"turns": 4}},
            ),
            Stage(id="write", needs=["gather"], prompt="Write the report.", options={"budget": {"turns": 2}}),
        ],
    )
    result, events = await run(roomy_server, flow)
    gathered = result["gather"].output
    assert isinstance(gathered, Sources)
    assert len(gathered.items) > 2
    assert (result.status, result["gather"].status) == ("completed", "completed")
    for event in events:
        if isinstance(event.body, ReplyReceived):
            assert event.body.finish in ("calls", "length")
            assert set(event.body.calls) <= {"think", "search_papers", "stage_done"}


async def test_a_small_model_calls_a_function_with_arguments_of_its_types(roomy_server: LocalServer) -> None:
    made: list[tuple[Any, ...]] = []

    @tool(category="read")
    def count_insects(
        kind: Literal["bees", "wasps"], legs: Annotated[int, Field(ge=4, le=6)], where: tuple[int, bool]
    ) -> int:
        """Count insects."""
        made.append((kind, legs, where))
        return 3

    stage = Stage(
        id="count",
        prompt="Count the bees.",
        tools=[count_insects],
        tool_mode="exclusive",
        options={"checks": [{"tool_calls": 1}], "advance": "rules", "budget": {"turns": 4}},
    )
    result, events = await run(roomy_server, Flow(name="count", stages=[stage]))
    calls = [event.body for event in events if isinstance(event.body, ToolFinished)]
    assert [call.error for call in calls if call.name == "count_insects"] == [""] * len(made)
    assert result.status == "completed"
    assert made
    for kind, legs, (place, inside) in made:
        assert kind in ("bees", "wasps")
        assert 4 <= legs <= 6
        assert (type(place), type(inside)) == (int, bool)


AWKWARD: tuple[dict[str, Any], ...] = (
    {"type": "string", "minLength": 10, "maxLength": 5},  # a server may die of these two
    {"type": "array", "items": {"type": "integer"}, "minItems": 100, "maxItems": 3},
    {"type": "string", "minLength": 5000},
    {"type": "array", "items": {"type": "string"}, "maxItems": 100_000},
    {"type": "string", "pattern": "^(?=a)[", "format": "email"},
    {"type": "string", "format": "date-time"},
    {"enum": []},
    {"enum": ["a", 1, None]},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]},
    {"type": "object", "additionalProperties": {"type": "number", "minimum": 0.5}},
    {"type": "integer", "minimum": 10**30, "exclusiveMaximum": 0.5},
    {"not": {"type": "string"}, "if": {}},
)


async def test_the_server_takes_whatever_is_made_of_awkward_schemas(roomy_server: LocalServer) -> None:
    """A server that died would not answer, and one that refuses the schema would leave a remark."""
    tools = tuple(
        ToolSpec(f"t{number}", "", {"properties": {"a": schema}, "required": ["a"]}, "read")
        for number, schema in enumerate(AWKWARD)
    )
    settings = roomy_server.settings(temperature=0, seed=1, max_tokens=1, tool_transport="schema")
    async with open_model(settings) as model:
        for _ in range(2):  # the second time with less room, because the first reply was cut off
            reply = await model.reply(Request([Message("user", "Go.")], tools))
            assert (reply.finish, reply.remark) == ("length", "")
