"""Checkpoints: a flow that is cut short goes on from one, and ends as it would have."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import Checkpoint, Flow, FlowResult, RestoredFlow, Stage, restore_flow, start_flow, tool
from headgate.errors import ConfigError, HeadgateError
from headgate.models.scripted import ScriptedModel, ScriptEntry


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


@given(st.data())
@settings(max_examples=20, deadline=None)
async def test_a_run_that_was_cut_anywhere_ends_as_an_uncut_one(data: st.DataObject) -> None:
    saved, whole = await saves_of(FLOW)
    cut = data.draw(st.sampled_from(saved))
    restored = restore_flow(cut, FLOW)
    result = await restored.run(model=rest_of_script(restored))
    assert (result.status, told(result)) == (whole.status, told(whole))


async def test_a_file_is_written_whole_and_its_backup_counts_if_it_is_damaged(tmp_path: Path) -> None:
    wanted = Checkpoint(path=str(tmp_path / "deep" / "session-{session_id}.jsonl"))
    await start_flow(FLOW, model=script(REPLIES), checkpoint=wanted, session_id="123").result()
    path = tmp_path / "deep" / "session-123.jsonl"
    assert restore_flow(path, FLOW).note == ""
    text = path.read_bytes()
    path.write_bytes(text.replace(b"Sea.", b"See."))
    restored = restore_flow(path, FLOW)
    assert "is damaged. The run goes on from" in restored.note
    result = await restored.run(model=rest_of_script(restored))
    assert result["c"].note.summary == "Sea."
    path.unlink()
    assert "is gone. The run goes on from" in restore_flow(path, FLOW).note


async def test_what_a_checkpoint_refuses(tmp_path: Path) -> None:
    saved, _ = await saves_of(FLOW)
    other = Flow(name="three", stages=[Stage(id="a")])
    with pytest.raises(ConfigError, match="is not the one that the checkpoint was made with"):
        restore_flow(saved[-1], other)
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
