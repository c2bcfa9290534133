"""When a flow is started, cancelled or asked for something at an odd time."""

import asyncio
import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headgate import ModelSettings, RunOptions, run_flow_sync
from headgate.core import StageEnded
from headgate.errors import ConfigError
from headgate.library import Callbacks, Checkpoint, Flow, Stage, restore_flow, run_flow, start_flow
from headgate.library.request import RunRequest
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry

FLOW = Flow(name="two", stages=[Stage(id="a"), Stage(id="b", needs=["a"])])


def script(*stages: str) -> ScriptedModel:
    replies = [{"calls": [{"stage_done": {"stage": stage, "summary": "Done."}}]} for stage in stages]
    return ScriptedModel([ScriptEntry.model_validate(reply) for reply in replies])


def other_tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def test_every_way_to_run_a_flow_takes_the_same_options() -> None:
    assert set(RunOptions.__annotations__) == {field.name for field in dataclasses.fields(RunRequest)}


def test_outside_of_an_event_loop_nothing_is_started(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="or use run_flow_sync"):
        start_flow(FLOW, model=script("a", "b"), log=tmp_path / "log.jsonl")
    assert not list(tmp_path.iterdir())


async def test_a_flow_that_is_cancelled_is_saved_although_a_callback_hangs(tmp_path: Path) -> None:
    before, ended, file = other_tasks(), asyncio.Event(), tmp_path / "flow.jsonl"

    async def hang(stage: str) -> None:
        ended.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(
        run_flow(
            FLOW,
            model=script("a", "b"),
            callbacks=Callbacks(on_start=hang),
            checkpoint=Checkpoint(path=str(file)),
        )
    )
    await ended.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert other_tasks() == before
    restored = restore_flow(file, FLOW)
    done = [event.body.stage for event in restored.saved.events if isinstance(event.body, StageEnded)]
    left = [stage for stage in ("a", "b") if stage not in done]
    assert (await restored.run(model=script(*left))).status == "completed"


async def test_a_flow_that_cannot_run_leaves_nothing_running() -> None:
    before = other_tasks()
    unknown = {"model": "nothing/at-all"}
    with pytest.raises(ConfigError):
        await run_flow(FLOW, **unknown)
    assert other_tasks() == before


async def test_before_a_flow_has_started_there_is_nothing_to_compact() -> None:
    run = start_flow(FLOW, model=script("a", "b"))
    with pytest.raises(ConfigError, match="the flow has not started"):
        run.compact()
    assert (await run.result()).status == "completed"


async def test_a_restored_flow_takes_none_as_nothing() -> None:
    run = start_flow(FLOW, model=script("a", "b"), checkpoint=Checkpoint(storage="memory"))
    await run.result()
    restored = restore_flow(run.checkpoint, FLOW)
    result = await restored.run(model=script(), models=None, limits=None, callbacks=None)
    assert result.status == "completed"


async def test_a_save_that_is_cancelled_is_not_made_twice(tmp_path: Path) -> None:
    file = tmp_path / "flow.jsonl"
    wanted = Checkpoint(path=str(file), auto_save=False)
    run = start_flow(FLOW, model=script("a", "b"), checkpoint=wanted)
    saving: list[asyncio.Task[None]] = []
    async for _ in run.events():
        saving.append(asyncio.create_task(run.save()))
        await asyncio.sleep(0)
        saving[-1].cancel()
    await asyncio.gather(*saving, return_exceptions=True)
    await run.result()
    await run.save()
    numbers = [event.seq for event in restore_flow(file, FLOW).saved.events]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_model_may_be_given_with_its_settings_in_a_repository_as_well(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "script.yaml").write_text("- calls: [{stage_done: {stage: a, summary: Done.}}]\n")
    flow = Flow(name="f", stages=[Stage(id="a")])
    settings = ModelSettings(model="script:script.yaml")
    assert run_flow_sync(flow, model=settings, repo=tmp_path).status == "completed"


def test_retries_that_are_asked_for_are_made_also_if_no_call_succeeds() -> None:
    def look() -> str:
        """Look."""
        return "nothing"

    replies = [ScriptEntry(text="I do not know.")] * 40
    flow = Flow(name="f", tools=[look], stages=[Stage(id="a", max_retries=3, required=False)])
    model = ScriptedModel(replies)
    result = run_flow_sync(flow, model=model)
    assert result["a"].attempts == 4


def test_a_planner_needs_a_repository() -> None:
    flow = Flow(name="f", stages=[Stage(id="plan", kind="planner")])
    with pytest.raises(ConfigError, match='"plan" is a planner, whose recipes need `repo`'):
        run_flow_sync(flow, model=ScriptedModel([]))
