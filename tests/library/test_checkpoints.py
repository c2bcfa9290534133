"""Checkpoints: a flow that is cut short goes on from one, and ends as it would have."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import (
    Checkpoint,
    Flow,
    FlowResult,
    RestoredFlow,
    Stage,
    restore_flow,
    run_flow_sync,
    start_flow,
    tool,
)
from headgate.errors import ConfigError, HeadgateError
from headgate.models import ScriptedModel
from headgate.models.scripted import ScriptEntry


class Count(BaseModel):
    n: int


def is_positive(count: Count) -> bool:
    return count.n > 0


@tool(category="read")
def look(place: str) -> str:
    """Look somewhere."""
    return f"{place} is empty"


FLOW = Flow(
    name="three",
    stages=[
        Stage(id="a", prompt="A.", tools=[look], output_schema=Count, accept=is_positive),
        Stage(id="b", needs=["a"], prompt="B."),
        Stage(id="c", needs=["b"], prompt="C.", variables={"x": 1}),
    ],
)
REPLIES: list[dict[str, Any]] = [
    {"calls": [{"look": {"place": "here"}}]},
    {"calls": [{"stage_done": {"stage": "a", "summary": "None.", "output": {"n": 0}}}]},
    {"calls": [{"stage_done": {"stage": "a", "summary": "One.", "output": {"n": 1}}}]},
    {"text": "I am thinking."},
    {"calls": [{"stage_done": {"stage": "b", "summary": "Bee."}}]},
    {"calls": [{"stage_done": {"stage": "c", "summary": "Sea."}}]},
]


class Cut(HeadgateError):
    """Ends a run where a test wants it to."""


def script(replies: list[dict[str, Any]]) -> ScriptedModel:
    return ScriptedModel([ScriptEntry.model_validate(reply) for reply in replies])


def rest_of_script(restored: RestoredFlow) -> ScriptedModel:
    """What the model has not said yet."""
    replies = [event for event in restored.saved.events if event.kind in ("reply_received", "reply_failed")]
    return script(REPLIES[len(replies) :])


def told(result: FlowResult) -> dict[str, Any]:
    return {name: (each.status, each.output, each.note) for name, each in result.stages.items()}


async def saves_of(flow: Flow) -> tuple[list[bytes], FlowResult]:
    """Every checkpoint of a run, and its result."""
    saved: list[bytes] = []
    wanted = Checkpoint(storage="custom", on_save=saved.append, interval="on_turn")
    result = await start_flow(flow, model=script(REPLIES), input="Count.", checkpoint=wanted).result()
    return saved, result


async def test_a_file_is_written_whole_and_its_backup_counts_if_it_is_damaged(tmp_path: Path) -> None:
    wanted = Checkpoint(path=str(tmp_path / "deep" / "session-{session_id}.jsonl"))
    await start_flow(FLOW, model=script(REPLIES), checkpoint=wanted, session_id="123").result()
    path = tmp_path / "deep" / "session-123.jsonl"
    assert restore_flow(path, FLOW).note == ""
    text = path.read_bytes()
    path.write_bytes(text.replace(b"Sea.", b"See."))
    restored = restore_flow(path, FLOW)
    assert "is damaged. The run continues from" in restored.note
    result = await restored.run(model=rest_of_script(restored))
    assert result["c"].note.summary == "Sea."
    path.unlink()
    assert "is gone. The run continues from" in restore_flow(path, FLOW).note


async def test_what_a_checkpoint_refuses(tmp_path: Path) -> None:
    saved, _ = await saves_of(FLOW)
    with pytest.raises(ConfigError, match="is cut off"):
        restore_flow(saved[-1][:-5], FLOW)
    with pytest.raises(ConfigError, match="There is no checkpoint"):
        restore_flow(tmp_path / "nothing.jsonl", FLOW)


async def test_a_flow_whose_functions_can_be_imported_needs_no_flow() -> None:
    saved: list[bytes] = []
    flow = Flow(name="one", stages=[Stage(id="a", output_schema=Count, accept=is_positive), Stage(id="b")])
    wanted = Checkpoint(storage="custom", on_save=saved.append)
    first = {"calls": [{"stage_done": {"stage": "a", "summary": "One.", "output": {"n": 1}}}]}
    last = {"calls": [{"stage_done": {"stage": "b", "summary": "Bee."}}]}
    await start_flow(flow, model=script([first, last]), checkpoint=wanted).result()
    result = await restore_flow(saved[0]).run(model=script([last]))
    assert result["a"].output == Count(n=1)
    assert result.status == "completed"


async def test_tools_that_can_be_imported_are_found_by_their_paths() -> None:
    saved, whole = await saves_of(FLOW)
    restored = restore_flow(saved[0])
    result = await restored.run(model=rest_of_script(restored))
    assert told(result) == told(whole)

    def hidden() -> str:
        return ""

    kept: list[bytes] = []
    flow = Flow(name="one", stages=[Stage(id="a")], tools=[hidden])
    done = {"calls": [{"stage_done": {"stage": "a", "summary": "Done."}}]}
    wanted = Checkpoint(storage="custom", on_save=kept.append)
    await start_flow(flow, model=script([done]), checkpoint=wanted).result()
    with pytest.raises(ConfigError, match=r"cannot be imported by name \(hidden\): give the flow as `flow`"):
        restore_flow(kept[-1])
    assert restore_flow(kept[-1], flow).compiled is flow.compiled


@pytest.mark.parametrize(("name", "least"), [("onTaskComplete", 1), ("onStep", 3), (0.001, 1)])
async def test_intervals_have_two_names(name: Any, least: int) -> None:
    saved: list[bytes] = []
    wanted = Checkpoint(storage="custom", on_save=saved.append, interval=name)
    await start_flow(FLOW, model=script(REPLIES), checkpoint=wanted).result()
    assert len(saved) >= least
    assert (await restore_flow(saved[-1], FLOW).run(model=script([]))).status == "completed"


async def test_a_checkpoint_in_memory_and_one_that_is_switched_off(tmp_path: Path) -> None:
    run = start_flow(FLOW, model=script(REPLIES), checkpoint=Checkpoint(storage="memory"))
    await run.result()
    assert (await restore_flow(run.checkpoint, FLOW).run(model=script([]))).status == "completed"
    off = Checkpoint(path=str(tmp_path / "off.jsonl"), enabled=False)
    run = start_flow(FLOW, model=script(REPLIES), checkpoint=off)
    await run.result()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="There is nothing to save to: give `checkpoint`"):
        await run.save()


def test_what_a_coroutine_function_has_kept_is_restored() -> None:
    kept: list[bytes] = []

    async def on_save(data: bytes) -> None:
        kept.append(data)

    async def on_load() -> bytes:
        return kept[-1]

    storage = Checkpoint(storage="custom", on_save=on_save, on_load=on_load)
    run_flow_sync(FLOW, model=script(REPLIES), checkpoint=storage)
    assert restore_flow(storage, FLOW).saved.events[-1].kind == "stage_ended"

    async def inside() -> None:
        with pytest.raises(ConfigError, match="await it, and restore what it returns"):
            restore_flow(storage, FLOW)

    asyncio.run(inside())


@given(st.data())
@settings(max_examples=20, deadline=None)
async def test_a_file_that_was_cut_or_damaged_goes_on_from_what_is_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("files") / "saved.jsonl"
    wanted = Checkpoint(path=str(path), interval="on_turn")
    options = {"session_id": "s", "now": lambda: 1.0}
    whole = await start_flow(FLOW, model=script(REPLIES), checkpoint=wanted, **options).result()  # type: ignore[arg-type]
    text = bytearray(path.read_bytes())
    place = int(data.draw(st.floats(0, 1, exclude_max=True)) * len(text))
    if data.draw(st.booleans()):
        text[place] ^= 1
    else:
        text = text[:place]
    path.write_bytes(text)
    try:
        restored = restore_flow(path, FLOW)
    except ConfigError:
        assert not path.with_name("saved.jsonl.backup").exists()
        return
    result = await restored.run(model=rest_of_script(restored))
    assert told(result) == told(whole)


async def test_a_session_id_does_not_lead_elsewhere() -> None:
    with pytest.raises(ConfigError, match="cannot be part of a file's name"):
        start_flow(FLOW, model=script(REPLIES), checkpoint=Checkpoint(), session_id="../other")


async def test_a_flow_with_files_goes_on_with_the_same_files(tmp_path: Path) -> None:
    folder, other = tmp_path / "files", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    flow = Flow(name="files", stages=[Stage(id="a"), Stage(id="b", needs=["a"])])
    write = {"calls": [{"write_file": {"path": "a.txt", "content": "A"}}]}
    done = [{"calls": [{"stage_done": {"stage": name, "summary": "Done."}}]} for name in "ab"]
    read = {"calls": [{"read_file": {"path": "a.txt"}}]}
    saved: list[bytes] = []
    wanted = Checkpoint(storage="custom", on_save=saved.append)
    model = script([write, done[0], read, done[1]])
    await start_flow(flow, model=model, workspace=folder, checkpoint=wanted).result()
    restored = restore_flow(saved[0])
    with pytest.raises(ConfigError, match=f"worked in the folder {folder}: leave `workspace` out"):
        restored.start(model=script([]), workspace=other)
    replies = sum(event.kind == "reply_received" for event in restored.saved.events)
    model = script([write, done[0], read, done[1]][replies:])
    assert (await restored.run(model=model)).status == "completed"
    (folder / "a.txt").unlink()
    folder.rmdir()
    with pytest.raises(
        ConfigError, match="and there is no such folder: put it back, or start the flow again"
    ):
        restored.start(model=script([]))


def sealed(line: Any) -> bytes:
    """A line as somebody writes it who knows how the checksum is made."""
    text = line if isinstance(line, bytes) else orjson.dumps(line)
    return text + b" " + sha256(text).hexdigest()[:16].encode() + b"\n"


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (0, b"no JSON"),
        (0, ["no object"]),
        (0, {"headgate_checkpoint": "one"}),
        (0, {"session_id": 5}),
        (0, {"workspace": 5}),
        (0, {"input": None}),
        (0, {"tools": {"": {"think": 5}}}),
        (2, ["no object"]),
        (2, {"body": []}),
        (5, {"content": "no JSON"}),
    ],
)
async def test_what_somebody_else_has_written_is_refused_in_a_sentence(number: int, changes: Any) -> None:
    saved, _ = await saves_of(FLOW)
    lines = [orjson.loads(line.rpartition(b" ")[0]) for line in saved[0].splitlines()]
    lines[number] = {**lines[number], **changes} if isinstance(changes, dict) else changes
    with pytest.raises(ConfigError):
        await restore_flow(b"".join(map(sealed, lines)), FLOW).run(model=script([]))
