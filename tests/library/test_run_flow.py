"""Flows that a Python program builds and runs, without a repository."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate.library import Callbacks, Flow, FlowResult, Stage, run_flow, run_flow_sync, start_flow, tool
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry
from library.replies import done, script


class Sources(BaseModel):
    items: list[str]


@tool(category="read")
async def search_papers(query: str, limit: int = 3) -> str:
    """Search papers.

    Args:
        query: What to look for.
    """
    return f"{limit} papers about {query}"


def run(flow: Flow, model: ScriptedModel, **options: Any) -> FlowResult:
    result = run_flow_sync(flow, model=model, **options)
    model.check_finished()
    return result


GATHER = Stage(
    id="gather",
    prompt="Gather the data.",
    tools=[search_papers],
    output_schema=Sources,
    accept=lambda out: len(out.items) > 2,
)


def test_stages_run_in_the_order_of_their_needs_and_return_typed_outputs() -> None:
    model = script(
        {"search_papers": {"query": "bees"}},
        done("gather", output={"items": ["a", "b", "c"]}),
        done("write"),
    )
    flow = Flow(name="report", stages=[Stage(id="write", needs=["gather"], prompt="Write."), GATHER])
    result = run(flow, model, input="A report about bees.")
    assert result.status == "completed"
    assert result["gather"].output == Sources(items=["a", "b", "c"])
    assert result["write"].note.summary == "write is done."
    asked = model.requests
    assert [spec.name for spec in asked[0].tools] == ["think", "search_papers", "stage_done"]
    assert [spec.name for spec in asked[2].tools] == ["think", "stage_done"]
    assert asked[0].tools[1].parameters["properties"]["query"] == {
        "type": "string",
        "description": "What to look for.",
    }
    assert asked[1].messages[-1].content == "3 papers about bees"
    assert "repository" not in asked[0].messages[0].content


def test_an_output_that_is_refused_goes_back_with_the_reason() -> None:
    model = script(
        done("gather", output={"items": "none"}),
        done("gather", output={"items": ["a"]}),
        done("gather", output={"items": ["a", "b", "c"]}),
    )
    result = run(Flow(name="report", stages=[GATHER]), model)
    assert result["gather"].output.items == ["a", "b", "c"]
    said = "`output` does not fit its schema: `items`: input should be a valid array."
    assert model.requests[1].messages[-1].content == f'Stage "gather" is not done: {said}'
    assert "`output` was not accepted." in model.requests[2].messages[-1].content


class Least:
    """Judges outputs, each object in its own way."""

    def __init__(self, least: int) -> None:
        self.least = least

    def accept(self, sources: Sources) -> bool:
        return len(sources.items) >= self.least


def test_methods_of_two_objects_judge_each_for_itself() -> None:
    model = script(
        done("a", output={"items": ["1"]}),
        done("b", output={"items": ["1"]}),
        done("b", output={"items": ["1", "2"]}),
    )
    first = Stage(id="a", output_schema=Sources, accept=Least(1).accept)
    second = Stage(id="b", needs=["a"], output_schema=Sources, accept=Least(2).accept)
    result = run(Flow(name="two", stages=[first, second]), model)
    assert (len(result["a"].output.items), len(result["b"].output.items)) == (1, 2)


def test_variables_instructions_and_tool_modes() -> None:
    def lookup(word: str) -> str:
        """The flow's lookup."""
        return "flow"

    own = tool(name="lookup")(lambda: "stage")
    model = script({"lookup": {}}, done("1"), {"lookup": {"word": "x"}}, done("research.web"))
    flow = Flow(
        name="f",
        tools=[lookup],
        variables={"PROJECT": "bees", "TONE": "dry"},
        system="Be brief.",
        stages=[
            Stage(
                id="1",
                tools=[own],
                tool_mode="exclusive",
                variables={"TONE": "warm", "n": 3},
                system=[{"name": "role", "value": "You are a poet."}, "Rhyme."],
                metadata={"owner": "me"},
            ),
            Stage(id="research.web", needs=["1"]),
        ],
    )
    result = run(flow, model)
    first, second = model.requests[0], model.requests[2]
    assert [spec.name for spec in first.tools] == ["lookup", "stage_done"]
    assert "<role>\nYou are a poet.\n</role>\n\nRhyme." in first.messages[0].content
    assert "<variables>\n<PROJECT>bees</PROJECT>\n</variables>" in first.messages[0].content
    assert "<current_task_context>\n<TONE>warm</TONE>\n<n>3</n>\n</current_task_context>" in (
        first.messages[-1].content
    )
    assert model.requests[1].messages[-1].content == "stage"
    assert model.requests[3].messages[-1].content == "flow"
    assert "<TONE>dry</TONE>" in second.messages[0].content
    assert "poet" not in second.messages[0].content
    assert "Be brief." in second.messages[0].content
    assert result["1"].metadata == {"owner": "me"}


async def test_a_flow_is_cancelled_with_the_call_or_by_hand() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    flow = Flow(name="f", stages=[Stage(id="a", tools=[wait])])
    by_hand = start_flow(flow, model=script({"wait": {}}))
    await started.wait()
    by_hand.cancel()
    assert (await by_hand.result()).status == "cancelled"
    started.clear()
    call = asyncio.create_task(run_flow(flow, model=script({"wait": {}})))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_callbacks_hear_of_a_stage_that_is_attempted_again_once() -> None:
    heard: list[Any] = []

    async def slow(*told: Any) -> None:
        await asyncio.sleep(0.01)  # the flow is further on when it is told of the next event
        heard.append(told)

    refused = done("a", output="none")
    model = script(refused, refused, refused, refused, done("b"))
    flow = Flow(
        name="f",
        stages=[
            Stage(id="a", output_schema=int, max_retries=1, required=False, options={"budget": {"turns": 1}}),
            Stage(id="b"),
        ],
    )
    calls = Callbacks(on_start=slow, on_error=lambda stage, why: slow(stage, "error"), on_progress=slow)
    result = await run_flow(flow, model=model, callbacks=calls)
    assert (result["a"].status, result["a"].attempts, result["b"].status) == ("failed", 2, "completed")
    assert heard == [("a",), ("a",), ("a", "error"), (1, 2, "a"), ("b",), (2, 2, "b")]


async def test_callbacks_are_told_in_order_and_may_fail() -> None:
    heard: list[Any] = []

    async def on_start(stage: str) -> None:
        heard.append(("start", stage))
        raise RuntimeError("in a callback")

    calls = Callbacks(
        on_start=on_start,
        on_complete=lambda stage, result: heard.append(("complete", stage, result.status)),
        on_progress=lambda ended, total, stage: heard.append((ended, total, stage)),
    )
    flow = Flow(name="f", stages=[Stage(id="a"), Stage(id="b", needs=["a"])])
    await run_flow(flow, model=script(done("a"), done("b")), callbacks=calls)
    assert heard == [
        ("start", "a"),
        ("complete", "a", "completed"),
        (1, 2, "a"),
        ("start", "b"),
        ("complete", "b", "completed"),
        (2, 2, "b"),
    ]


async def test_stages_at_once_may_have_calls_of_one_name() -> None:
    """Each server counts its own calls, and the calls of two models are open at the same time."""
    begun: list[str] = []
    both = asyncio.Event()

    @tool(category="reasoning")
    async def ponder(question: str) -> str:
        begun.append(question)
        if len(begun) == 2:
            both.set()
        await both.wait()
        return f"Pondered {question}."

    flow = Flow(
        name="two",
        max_parallel=2,
        tools=[ponder],
        stages=[Stage(id="a", model="first"), Stage(id="b", model="second")],
    )
    models = {
        name: script({"ponder": {"question": stage}}, done(stage))
        for name, stage in (("first", "a"), ("second", "b"))
    }
    result = await run_flow(flow, model=script(), models=models)
    answers = [model.requests[1].messages[-1].content for model in models.values()]
    assert (result.status, answers) == ("completed", ["Pondered a.", "Pondered b."])


async def test_who_is_not_needed_any_more_is_told_so() -> None:
    heard: list[tuple[Any, ...]] = []
    waits = asyncio.Event()

    @tool(category="read")
    async def wait() -> str:
        """Wait for ever."""
        waits.set()
        await asyncio.Event().wait()
        return ""

    @tool(category="read")
    async def after() -> str:
        """Wait until the other one does."""
        await waits.wait()
        return ""

    slow, quick = Stage(id="slow", model="slow", tools=[wait]), Stage(id="quick", tools=[after])
    flow = Flow(name="f", stages=[Stage(id="g", join="any", max_parallel=2, stages=[slow, quick])])
    calls = Callbacks(on_skip=lambda *said: heard.append(said), on_progress=lambda *said: heard.append(said))
    models = {"slow": script({"wait": {}})}
    result = await run_flow(flow, model=script({"after": {}}, done("quick")), models=models, callbacks=calls)
    assert (result["slow"].status, result["slow"].error) == ("skipped", "join_any")
    assert heard == [(1, 2, "quick"), ("slow", "join_any"), (2, 2, "slow")]


def test_how_groups_have_ended() -> None:
    hopeless = {"budget": {"turns": 1, "retries": 0, "exhausted": "fail"}}
    ended: list[int] = []
    flow = Flow(
        name="f",
        stages=[
            Stage(id="a"),
            Stage(id="g", needs=["a"], when="a.skipped", join="any", stages=[Stage(id="x"), Stage(id="y")]),
            Stage(
                id="h", needs=["a"], stages=[Stage(id="u", required=False, options=hopeless), Stage(id="v")]
            ),
        ],
    )
    model = script(done("a"), {"stage_done": {"stage": "u"}}, done("v"))
    calls = Callbacks(on_progress=lambda count, total, stage: ended.append(count))
    result = run(flow, model, callbacks=calls)
    assert {name: result[name].status for name in "guh"} == {"g": "skipped", "u": "failed", "h": "completed"}
    assert ended == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["verify", "suspects"])
def test_there_is_nothing_to_verify_without_a_repository(kind: str) -> None:
    result = run(Flow(name="f", stages=[Stage(id="a", kind=kind)]), script())
    assert (result.status, result["a"].status, result["a"].error) == (
        "completed",
        "skipped",
        "nothing_to_verify",
    )


def test_a_review_without_a_repository_finds_nothing() -> None:
    stage = Stage(id="a", kind="review", options={"settings": {"checks": ["diff_scope", "tests_weakened"]}})
    result = run(Flow(name="f", stages=[stage]), script())
    assert (result.status, result["a"].status) == ("completed", "completed")


def test_a_scout_leaves_nothing_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "cart.py").write_text("def total():\n    return 1\n")
    file = tmp_path / "mapped.yaml"
    file.write_text(
        "name: mapped\nstages:\n  - {id: look, kind: scout, scout: {scout: code}}\n"
        "  - {id: work, prompt: Work., needs: [look]}\n"
    )
    model = ScriptedModel(
        [ScriptEntry.model_validate({"calls": [done("work")], "expect": {"seen": ["1-2 def total()"]}})]
    )
    result = run(Flow.load(file), model, input="Round the total.", workspace=folder)
    assert result.status == "completed"
    assert [path.name for path in folder.iterdir()] == ["cart.py"]
