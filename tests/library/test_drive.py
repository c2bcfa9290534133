"""Lists of tasks that the model works through in its own order: the kind `drive`."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from headgate.library import Callbacks, Flow, FlowResult, Stage, run_flow_sync, tool
from headgate.models import ScriptedModel
from library.replies import script


class Count(BaseModel):
    number: int


@tool(category="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 7"


def start(task: str) -> dict[str, Any]:
    return {"start_task": {"id": task}}


def complete(**arguments: Any) -> dict[str, Any]:
    return {"complete_task": arguments}


def fail(**arguments: Any) -> dict[str, Any]:
    return {"fail_task": arguments}


def run(stages: Sequence[Stage], model: ScriptedModel, *, join: str = "all", **options: Any) -> FlowResult:
    flow_options = {key: options.pop(key) for key in ("tools", "compaction") if key in options}
    driver = Stage(id="list", kind="drive", prompt="Work through the list.", stages=stages, join=join)  # type: ignore[arg-type]
    result = run_flow_sync(Flow(name="f", stages=[driver], **flow_options), model=model, **options)
    model.check_finished()
    return result


def answers(model: ScriptedModel) -> list[str]:
    """What the calls were answered with, as the last request shows it."""
    return [message.content for message in model.requests[-1].messages if message.role == "tool"]


def test_the_model_starts_and_completes_tasks_in_its_own_order() -> None:
    model = script(
        start("b"),
        ({"look": {"what": "bees"}}, complete(id="b", result={"number": 7})),
        (start("a"), complete(summary="a is done.")),
        start("c"),
        complete(result="all good"),
    )
    a, b = Stage(id="a", prompt="Do a."), Stage(id="b", prompt="Do b.", output_schema=Count)
    result = run([a, b, Stage(id="c", prompt="Do c.", needs=["a", "b"])], model, tools=[look])
    assert result.status == "completed"
    assert (result["b"].output, result["c"].output) == (Count(number=7), "all good")
    assert result["list"].note.summary == "3 of 3 tasks completed: b, a, c."
    first = model.requests[0].messages[-1].content
    assert "[ ] a: Do a." in first
    assert "[ ] c: Do c. (needs a, b)" in first
    assert answers(model) == [
        'Task "b" is started.\n\nStage: B\nDo b.',
        "bees: 7",
        'Task "b" is completed. Available tasks: a.',
        'Task "a" is started.\n\nStage: A\nDo a.',
        'Task "a" is completed. Available tasks: c.',
        'Task "c" is started.\n\nStage: C\nDo c.',
    ]


def test_what_cannot_be_done_is_refused_with_what_can() -> None:
    model = script(
        start("b"),
        complete(summary="x"),
        fail(reason="x"),
        start("nothing"),
        (start("a"), start("a"), start("b"), complete(id="b"), complete(id="a"), complete(id="a")),
        {"stage_done": {"stage": "list", "summary": "done"}},
        (start("b"), complete()),
    )
    stages = [Stage(id="a", prompt="Do a."), Stage(id="b", needs=["a"])]
    assert run(stages, model).status == "completed"
    assert answers(model) == [
        'Task "b" cannot be started yet: it needs a first. Available tasks: a.',
        "No task is in progress: call start_task first. Available tasks: a.",
        "No task is in progress: call start_task first. Available tasks: a.",
        'Unknown task "nothing": known are a, b. Available tasks: a.',
        'Task "a" is started.\n\nStage: A\nDo a.',
        'Task "a" is in progress.\n\nStage: A\nDo a.',
        'Task "a" is in progress: end it with complete_task or fail_task first.',
        'Task "b" was not started: the task in progress is "a".',
        'Task "a" is completed. Available tasks: b.',
        'Task "a" has ended already. Available tasks: b.',
        'Stage "list" is not done: these tasks have not ended: b; call start_task.',
    ]


def test_a_task_has_its_own_tools_and_variables_and_loses_them_at_its_end() -> None:
    model = script(
        start("a"), {"look": {"what": "x"}}, complete(), {"look": {"what": "y"}}, start("b"), complete()
    )
    run([Stage(id="a", tools=[look], variables={"who": "Ada"}), Stage(id="b")], model)
    tools = [[spec.name for spec in request.tools] for request in model.requests]
    assert ["look" in names for names in tools] == [False, True, True, False, False, False]
    assert [
        any("<who>Ada</who>" in message.content for message in request.messages) for request in model.requests
    ] == [False, True, True, False, False, False]
    assert "look was not run" in answers(model)[3] or "There is no tool" in answers(model)[3]


def test_a_task_that_is_given_up_is_attempted_again_as_its_budget_says() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    model = script(
        (start("a"), fail(reason="no network")),
        (start("a"), complete(result=1)),
        (start("b"), fail(id="b", reason="no idea")),
        (start("c"), complete()),
    )
    stages = [
        Stage(id="a", max_retries=1, retry_backoff="exponential"),
        Stage(id="b", on_error="skip"),
        Stage(id="c", needs=["b"], on_skip="run"),
    ]
    heard: list[tuple[str, ...]] = []
    result = run(
        stages,
        model,
        sleep=sleep,
        callbacks=Callbacks(
            on_skip=lambda *told: heard.append(told), on_start=lambda *told: heard.append(told)
        ),
    )
    assert result.status == "completed"
    assert {name: result[name].status for name in result} == {
        "list": "completed",
        "a": "completed",
        "b": "skipped",
        "c": "completed",
    }
    assert slept == [1.0]
    assert heard == [("list",), ("a",), ("a",), ("b",), ("b", "given_up"), ("c",)]
    assert answers(model)[1] == 'Task "a" has failed. It can be started again. Available tasks: a, b.'
    assert "no network" in answers(model)[2]


def test_a_required_task_that_fails_ends_the_list() -> None:
    model = script((start("a"), fail(reason="it is impossible")), {"think": {"text": "Why?"}})
    result = run([Stage(id="a", on_error="fail"), Stage(id="b")], model)
    assert (result.status, result["a"].status, result["b"].status) == ("failed", "failed", "skipped")
    assert result["a"].note.summary == "it is impossible"
    assert 'task "a" failed: it is impossible' in result.reason


def test_a_task_that_runs_out_of_turns_is_asked_to_conclude_and_may_fail() -> None:
    a = Stage(id="a", required=False, tools=[look], max_retries=0, options={"budget": {"turns": 1}})
    b = Stage(id="b")
    model = script(
        start("a"),
        {"look": {"what": "1"}},
        {"look": {"what": "2"}},
        {"look": {"what": "3"}},
        (start("b"), complete()),
    )
    result = run([a, b], model)
    assert (result["a"].status, result["b"].status, result.status) == ("failed", "completed", "completed")
    final = model.requests[2]
    assert [spec.name for spec in final.tools] == ["fail_task", "complete_task"]
    told = [message.content for message in model.requests[-1].messages if message.role == "user"]
    assert 'Task "a" has ended: failed. Available tasks: b.' in told


def test_a_task_with_its_own_model_answers_start_task_with_its_result() -> None:
    cheap = script(
        {"look": {"what": "bees"}},
        {"stage_done": {"stage": "b", "summary": "Seven.", "output": {"number": 7}}},
    )
    model = script(start("b"), (start("a"), complete()))
    b = Stage(id="b", prompt="Count bees.", tools=[look], agent={"model": "cheap"}, output_schema=Count)
    result = run([Stage(id="a"), b], model, models={"cheap": cheap})
    cheap.check_finished()
    assert result["b"].output == Count(number=7)
    assert answers(model) == [
        'Task "b" has ended: completed.\n- b: Seven.\n  output: {"number": 7}\n\nAvailable tasks: a.'
    ]
    assert not any("bees: 7" in message.content for message in model.requests[-1].messages)
    assert [message.role for message in cheap.requests[0].messages] == ["system", "user", "user"]


def test_a_group_is_run_whole_and_one_of_two_is_enough() -> None:
    model = script(
        start("group"),
        {"stage_done": {"stage": "x", "summary": "x."}},
        {"stage_done": {"stage": "y", "summary": "y."}},
    )
    group = Stage(id="group", stages=[Stage(id="x"), Stage(id="y")])
    result = run([Stage(id="a"), group], model, join="any")
    assert {name: result[name].status for name in result} == {
        "list": "completed",
        "a": "skipped",
        "group": "completed",
        "x": "completed",
        "y": "completed",
    }
    assert result["a"].error == "join_any"


@pytest.mark.parametrize(("number", "status"), [(7, "skipped"), (2, "completed")])
def test_conditions_hold_for_tasks(number: int, status: str) -> None:
    replies: list[Any] = [(start("a"), complete(result={"number": number}))]
    replies += [(start("b"), complete())] if status == "completed" else []
    model = script(*replies)
    b = Stage(id="b", needs=["a"], when=lambda known: known.results["a"]["number"] < 5)
    result = run([Stage(id="a", output_schema=Count), b], model)
    assert (result.status, result["b"].status) == ("completed", status)


def test_an_output_that_does_not_fit_is_refused() -> None:
    model = script(
        start("a"), complete(result={"number": "many"}), complete(summary="x"), complete(result={"number": 1})
    )
    assert run([Stage(id="a", output_schema=Count)], model)["a"].output == Count(number=1)
    assert "`result` does not fit its schema" in answers(model)[1]
    assert "complete_task needs `result`" in answers(model)[2]


def test_the_turns_of_tasks_count_for_the_list() -> None:
    replies = [start("a"), *({"look": {"what": str(number)}} for number in range(3))]
    model = script(*replies, complete(), {"stage_done": {"stage": "list", "summary": "Not all."}})
    stages = [Stage(id="a", tools=[look], max_retries=0), Stage(id="b")]
    driver = Stage(id="list", kind="drive", stages=stages, options={"budget": {"turns": 4, "retries": 0}})
    result = run_flow_sync(Flow(name="f", stages=[driver]), model=model)
    assert (result.status, result["a"].status, result["b"].status) == ("failed", "completed", "skipped")
    assert "This is the last turn" in model.requests[5].messages[-1].content


def test_ended_tasks_are_compacted_and_every_call_keeps_its_answer() -> None:
    model = script(
        start("a"),
        {"look": {"what": "x" * 500}},
        (complete(result="one"), start("b")),
        complete(result="two"),
        (start("c"), complete()),
    )
    compaction = {"trigger": "on_complete", "strategy": "aggressive"}
    run([Stage(id="a", tools=[look]), Stage(id="b"), Stage(id="c")], model, compaction=compaction)
    for request in model.requests:
        calls = [call.id for message in request.messages for call in message.calls]
        assert calls == [message.call_id for message in request.messages if message.role == "tool"]
    last = [message.content for message in model.requests[-1].messages]
    assert any("Task A completed: success" in text for text in last)
    assert not any("x" * 500 in text for text in last)
