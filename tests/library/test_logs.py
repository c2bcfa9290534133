"""Logs of flows in files: each is a checkpoint of the latest commit, whatever the process comes to."""

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate import Callbacks, Checkpoint, Flow, FlowRun, Stage, restore_flow, start_flow, tool
from headgate.core import Message, Reply, Request, ToolCall, Usage
from headgate.errors import ConfigError, StoreError
from headgate.library.log import FileLines
from library.test_checkpoints import FLOW, REPLIES, rest_of_script, script, told


async def run_logged(log: Path, **options: Any) -> FlowRun:
    options = {"session_id": "s", "now": lambda: 1.0, **options}
    run = start_flow(FLOW, model=script(REPLIES), input="Count.", log=log, **options)
    await run.result()
    return run


async def test_a_log_is_a_checkpoint_of_the_end(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "{session_id}.jsonl"
    run = await run_logged(log, session_id="one")
    restored = restore_flow(tmp_path / "logs" / "one.jsonl", FLOW)
    assert (restored.note, restored.saved.head.session_id) == ("", "one")
    assert [event.seq async for event in run.events()] == [event.seq for event in restored.saved.events]
    result = await restored.run(model=script([]))
    assert (result.status, told(result)) == ("completed", told(await run.result()))


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_log_that_was_cut_at_any_byte_goes_on_or_says_why_not(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    log = folder / "log.jsonl"
    whole = await (await run_logged(log)).result()
    written = log.read_bytes()
    size = data.draw(st.integers(0, len(written)))
    log.write_bytes(written[:size])
    head = written.index(b"\n") + 1
    if size < head:
        with pytest.raises(ConfigError, match="is not a checkpoint"):
            restore_flow(log, FLOW)
        return
    restored = restore_flow(log, FLOW)
    lost = size - restored.source.length
    assert (f"The last {lost} bytes of {log} were not written whole" in restored.note) == bool(lost)
    result = await restored.run(model=rest_of_script(restored))
    assert (result.status, told(result)) == ("completed", told(whole))
    # The same log has gone on, and is whole again.
    again = restore_flow(log, FLOW)
    assert again.note == ""
    assert log.read_bytes().startswith(written[: restored.source.length])
    assert [event.seq for event in again.saved.events] == list(range(1, len(again.saved.events) + 1))


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_a_byte_that_has_changed_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = tmp_path_factory.mktemp("damaged") / "log.jsonl"
    await run_logged(log)
    written = bytearray(log.read_bytes())
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= data.draw(st.integers(1, 255))
    log.write_bytes(written)
    try:
        restored = restore_flow(log, FLOW)
    except ConfigError:
        return
    # The last commit alone: it is taken for one that was not written whole.
    assert restored.note
    assert place >= restored.source.length


async def test_a_log_that_exists_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    await run_logged(log)
    with pytest.raises(ConfigError, match=r"log.jsonl exists: choose another name, or continue it with Flow"):
        start_flow(FLOW, model=script(REPLIES), log=log)


async def test_a_log_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    reached = asyncio.Event()

    async def wait() -> None:
        reached.set()
        await asyncio.Event().wait()

    flow = Flow(name="f", stages=[Stage(id="a", tools=[wait])])
    run = start_flow(flow, model=script([{"calls": [{"wait": {}}]}]), log=log)
    await reached.wait()
    with pytest.raises(ConfigError, match="belongs to a run that has not ended"):
        restore_flow(log, flow).start(model=script([]))
    run.cancel()
    await run.result()
    done = {"calls": [{"stage_done": {"stage": "a", "summary": "Done."}}]}
    model = script([done])
    restored = restore_flow(log, flow)
    assert (await restored.run(model=model)).status == "completed"
    assert "interrupted" in model.requests[0].messages[-1].content
    with pytest.raises(ConfigError, match="has changed since it was read: restore it again"):
        restored.start(model=script([]))


@pytest.mark.parametrize("category", ["read", "write", "run", "reasoning", "control"])
async def test_after_a_crash_only_reading_is_repeated(tmp_path: Path, category: Any) -> None:
    log = tmp_path / "log.jsonl"
    called: list[bool] = []

    @tool(category=category)
    def act() -> str:
        called.append(True)
        return "acted"

    flow = Flow(name="f", stages=[Stage(id="a", tools=[act])])
    replies = [{"calls": [{"act": {}}]}, {"calls": [{"stage_done": {"stage": "a", "summary": "Done."}}]}]
    await start_flow(flow, model=script(replies), log=log).result()
    lines = log.read_bytes().splitlines(keepends=True)
    answered = next(at for at, line in enumerate(lines) if b'"kind":"tool_finished"' in line)
    log.write_bytes(b"".join(lines[:answered]))  # as if the process had died before the call was answered
    restored = restore_flow(log, flow)
    known = sum(event.kind == "reply_received" for event in restored.saved.events)
    assert (await restored.run(model=script(replies[known:]))).status == "completed"
    assert len(called) == (2 if category == "read" else 1)


async def test_a_run_can_go_on_in_a_new_log(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    await run_logged(first)
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(lines[: len(lines) // 2]))
    before = restore_flow(first, FLOW)
    kept = first.read_bytes()
    await before.run(model=rest_of_script(before), log=second)
    assert first.read_bytes() == kept
    after = restore_flow(second, FLOW)
    assert after.saved.events[: len(before.saved.events)] == before.saved.events
    assert (await after.run(model=script([]))).status == "completed"


async def test_what_cannot_be_written_ends_the_flow_with_one_sentence(tmp_path: Path) -> None:
    log, most = tmp_path / "full.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, most[1]))  # as if the disk were full
    try:
        with pytest.raises(StoreError, match=r"full.jsonl cannot be written: File too large\."):
            await run_logged(log)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    restored = restore_flow(log, FLOW)
    assert "were not written whole and are left out" in restored.note
    assert (await restored.run(model=rest_of_script(restored))).status == "completed"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"log.jsonl cannot be opened: Not a directory\."):
        start_flow(FLOW, model=script(REPLIES), log=tmp_path / "file" / "log.jsonl")


def test_nothing_is_written_behind_what_was_not_written_whole(tmp_path: Path) -> None:
    """A stage that runs beside the one whose commit failed may commit before it is cancelled."""
    lines, most = FileLines(tmp_path / "log.jsonl"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, most[1]))
    try:
        with pytest.raises(StoreError, match="File too large"):
            lines.append(b"first\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    with pytest.raises(StoreError, match="File too large"):
        lines.append(b"2\n")
    lines.close()
    assert lines.path.read_bytes() == b"firs"


async def test_a_slow_follower_hears_everything_and_holds_up_nothing(tmp_path: Path) -> None:
    run, model = start_chain(60, tmp_path / "log.jsonl")
    seen: list[int] = []

    async def follow() -> None:
        async for event in run.events():
            seen.append(event.seq)
            if len(seen) == 1:
                await run.result()  # the flow ends while this follower has heard of one event

    await follow()
    assert model.calls == 120
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) > 500
    assert [event.seq async for event in run.events()] == seen


async def test_callbacks_of_a_run_that_goes_on_count_what_had_ended(tmp_path: Path) -> None:
    saved: list[bytes] = []
    wanted = Checkpoint(storage="custom", on_save=saved.append)
    await start_flow(FLOW, model=script(REPLIES), checkpoint=wanted).result()
    restored = restore_flow(saved[0], FLOW)
    heard: list[tuple[int, int, str]] = []
    calls = Callbacks(on_progress=lambda *told: heard.append(told))
    await restored.run(model=rest_of_script(restored), callbacks=calls)
    assert heard[-1][:2] == (3, 3)


class Worker:
    """A model that looks once in each stage, and then says that it is done."""

    name = "worker"

    def __init__(self) -> None:
        self.calls = 0

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.calls += 1
        if self.calls % 2:
            call = ToolCall(f"c{self.calls}", "look", f'{{"place": "{self.calls:04}"}}')
        else:
            done = next(spec for spec in request.tools if spec.name == "stage_done")
            stage = done.parameters["properties"]["stage"]["enum"][0]
            call = ToolCall(f"c{self.calls}", "stage_done", f'{{"stage": "{stage}", "summary": "Done."}}')
        return Reply(Message("assistant", "", (call,)), Usage(prompt=10, completion=5))


def start_chain(
    stages: int, log: Path, model: Worker | None = None, **options: Any
) -> tuple[FlowRun, Worker]:
    """Stages that share a conversation in which each is replaced by a summary when it has ended."""
    chain = [
        Stage(
            id=f"s{number:03}",
            needs=[f"s{number - 1:03}"] if number else [],
            options={"view": {"transcript": "parent"}},
        )
        for number in range(stages)
    ]
    flow = Flow(
        name="chain",
        stages=chain,
        tools=[look],
        compaction={"trigger": "on_complete", "strategy": "aggressive"},
    )
    model = model or Worker()
    return start_flow(flow, model=model, log=log, now=lambda: 1.0, **options), model


def look(place: str) -> str:
    """Look somewhere."""
    return place * 100
