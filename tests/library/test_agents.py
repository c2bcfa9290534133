"""Stages that another agent carries out: what it is told, what it inherits, what comes back."""

from typing import Any

import pytest
from pydantic import BaseModel

from headgate.errors import ConfigError
from headgate.library import Flow, Stage, run_flow_sync, tool
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry
from library.replies import done, script

SHARED = {"view": {"transcript": "parent"}}


class Count(BaseModel):
    number: int


@tool(category="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 7"


@tool(category="read")
def ask(what: str) -> str:
    """Ask somebody."""
    return "yes"


def run(agent: dict[str, Any], *, shared: bool = True) -> tuple[ScriptedModel, ScriptedModel]:
    """A stage, one of another agent and a third one; the two models."""
    options = SHARED if shared else {}
    flow = Flow(
        name="f",
        tools=[look, ask],
        variables={"PROJECT": "Hive", "STYLE": "terse"},
        stages=[
            Stage(id="first", prompt="Look.", options=options),
            Stage(
                id="second",
                needs=["first"],
                prompt="Count.",
                agent={"model": "cheap", **agent},
                variables={"unit": "bees"},
                output_schema=Count,
            ),
            Stage(id="third", needs=["second"], prompt="Write.", options=options),
        ],
    )
    cheap = script({"look": {"what": "hives"}}, done("second", output={"number": 7}))
    model = script({"look": {"what": "bees"}}, done("first", decisions=["Only bees."]), done("third"))
    result = run_flow_sync(flow, model=model, models={"cheap": cheap}, input="About bees.")
    assert result.status == "completed"
    model.check_finished()
    return model, cheap


def texts(model: ScriptedModel, request: int = 0) -> str:
    return "\n".join(message.content for message in model.requests[request].messages)


def test_the_result_enters_the_conversation_as_one_message_and_nothing_else_does() -> None:
    model, cheap = run({})
    told = [message.content for message in model.requests[-1].messages]
    results = [text for text in told if text.startswith("Result of an earlier stage:")]
    assert results == ['Result of an earlier stage:\n- second: second is done.\n  output: {"number": 7}']
    assert not any("hives" in text for text in told)
    assert "bees: 7" not in texts(cheap, 1)
    assert "hives: 7" in texts(cheap, 1)


@pytest.mark.parametrize(
    ("mode", "seen", "hidden"),
    [
        ("minimal", ["About bees.", "Count."], ["first is done.", "Only bees.", "bees: 7"]),
        ("summary", ["About bees.", "first is done.", "Only bees."], ["bees: 7"]),
        ("full", ["About bees.", "first is done.", "result: bees: 7", "called look"], []),
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_what_an_agent_is_told(mode: str, seen: list[str], hidden: list[str], shared: bool) -> None:
    _, cheap = run({"context_transfer": mode}, shared=shared)
    first = texts(cheap)
    assert [text for text in seen if text not in first] == []
    assert [text for text in hidden if text in first] == []
    assert "<unit>bees</unit>" in first
    assert [message.role for message in cheap.requests[0].messages].count("system") == 1


def test_a_long_conversation_is_cut_to_what_the_agent_can_read() -> None:
    @tool(category="read")
    def dump(start: int) -> str:
        """Return a lot."""
        return "".join(f"{start + number:06d} " for number in range(2_000))

    flow = Flow(
        name="f",
        stages=[
            Stage(id="a", tools=[dump], options=SHARED),
            Stage(id="b", agent={"model": "small", "context_transfer": "full"}, needs=["a"]),
        ],
    )
    small = ScriptedModel([ScriptEntry.model_validate({"calls": [done("b")]})])
    run_flow_sync(
        flow,
        model=script({"dump": {"start": 1}}, {"dump": {"start": 9000}}, {"dump": {"start": 5}}, done("a")),
        models={"small": small},
    )
    given = next(one.content for one in small.requests[0].messages if "said in earlier" in one.content)
    assert len(given) < 30_000
    assert "characters of the conversation cut here" in given


@pytest.mark.parametrize(
    ("inherited", "tools"),
    [
        (True, ["think", "look", "ask", "stage_done"]),
        (False, ["stage_done"]),
        (["ask"], ["ask", "stage_done"]),
        (["read"], ["look", "ask", "stage_done"]),
    ],
)
def test_which_tools_an_agent_inherits(inherited: Any, tools: list[str]) -> None:
    flow = Flow(name="f", tools=[look, ask], stages=[Stage(id="a", agent={"inherit_tools": inherited})])
    model = script(done("a"))
    run_flow_sync(flow, model=model)
    assert [spec.name for spec in model.requests[0].tools] == tools


@pytest.mark.parametrize(
    ("inherited", "seen"), [(True, ["Hive", "terse"]), (False, []), (["STYLE"], ["terse"])]
)
def test_which_variables_an_agent_inherits(inherited: Any, seen: list[str]) -> None:
    _, cheap = run({"inherit_variables": inherited})
    system = cheap.requests[0].messages[0].content
    assert [value for value in ("Hive", "terse") if value in system] == seen
    assert ("<variables>" in system) == bool(seen)


def test_options_are_those_of_the_requests() -> None:
    _, cheap = run({"options": {"temperature": 0.2, "top_p": 0.9, "max_tokens": 99, "seed": 3}})
    sent = cheap.requests[0]
    assert (sent.temperature, sent.top_p, sent.max_tokens, sent.seed) == (0.2, 0.9, 99, 3)


def test_a_tool_of_a_stage_is_known_by_its_full_name_as_well() -> None:
    flow = Flow(name="f", stages=[Stage(id="a.b", tools=[look]), Stage(id="c", needs=["a.b"])])
    model = script(
        {"task__a_b__look": {"what": "x"}}, done("a.b"), {"task__a_b__look": {"what": "y"}}, done("c")
    )
    assert run_flow_sync(flow, model=model).status == "completed"
    assert model.requests[1].messages[-1].content == "x: 7"
    assert "There is no tool" in model.requests[3].messages[-1].content


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ({"agent": {"modle": "x"}}, 'agent: unknown key "modle": did you mean "model"?'),
        ({"agent": {"model": "x"}, "model": "y"}, "`model` and `agent: {model}` are the same"),
        ({"agent": {"inherit_tools": ["ask"]}, "tools_allow": ["look"]}, "are the same: keep one"),
        ({"agent": {"inherit_tools": ["aks"]}}, 'unknown tool or category "aks": did you mean "ask"?'),
        ({"agent": {"inherit_variables": ["x"]}}, 'unknown variable "x": known are none'),
        ({"agent": {}, "options": SHARED}, "an agent has its own conversation"),
        ({"agent": {}, "stages": [Stage(id="b")]}, "agent has no effect in a group"),
    ],
)
def test_mistakes_are_told_when_the_flow_is_built(stage: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        Flow(name="f", tools=[look, ask], stages=[Stage(id="a", **stage)])
    assert said in str(error.value)
