"""A crash around the saving of a memory: it is saved once, and the model is told where it is."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from test_groups import TASK, Counter, make_job

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.core import (
    Message,
    OnDelta,
    Reply,
    Request,
    State,
    ToolCall,
    ToolFinished,
    Usage,
    fold,
)
from headgate.features.memory import Memories, Memory, TaskMemory, memory_tools
from headgate.log import Bus, Store, TaskLog, build_report
from headgate.run import Job, restore, run_flow

STAGES: list[dict[str, Any]] = [{"id": "keep", "tools": {"allow": ["memory_save", "memory_search"]}}]
STEPS: Sequence[tuple[str, str]] = [
    ("memory_save", '{"text": "The parser is generated.", "tags": ["parser"]}'),
    ("memory_search", '{"query": "parser"}'),
    ("stage_done", '{"summary": "Saved."}'),
]


@dataclass
class Saver:
    """A model that saves one text, and goes by what it reads."""

    name: str = "saver"

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        number = sum(message.role == "assistant" for message in request.messages)
        call = ToolCall(f"c{number}", *STEPS[number])
        return Reply(Message("assistant", calls=(call,)), Usage(10, 10), "calls")


def make(store: Store, log: TaskLog) -> Job:
    job = make_job(store, STAGES, Counter(), log)
    job.models.clients = {None: Saver()}
    memory = TaskMemory(Memories(store), TASK.id, lambda: 7.0)
    job.parts.tools = {tool.name: tool for tool in memory_tools(memory)}
    return job


async def save(store: Store, crash_at: int, before: bool) -> tuple[State, list[Message], int]:
    crashing: Any = CrashingStore(store, crash_at, before=before)
    log = TaskLog(crashing, Bus(), TASK, lambda: 0.0)
    job = make(store, log)
    try:
        await run_flow(job)
    except Crash:
        log = TaskLog(store, Bus(), TASK, lambda: 0.0)
        log.state = fold(store.events("t1"))
        job = make(store, log)
        restore(job, store.events("t1"), store.contents("t1"))
        await run_flow(job)
    return log.state, list(job.memory.transcripts["keep"].messages), crashing.seen


@pytest.mark.parametrize("before", [True, False])
def test_a_memory_is_saved_once_wherever_the_crash_is(tmp_path: Path, before: bool) -> None:
    expected = [Memory("m1", "The parser is generated.", ("parser",), "t1", 7.0)]
    with fresh_store(tmp_path / "whole", TASK) as store:
        state, _, commits = asyncio.run(save(store, -1, before))
        assert Memories(store).all() == expected
    assert state.tree.endings == {"": {"keep": "completed"}}
    repeated = 0
    for number in range(1, commits + 1):
        with fresh_store(tmp_path / str(number), TASK) as store:
            state, heard, _ = asyncio.run(save(store, number, before))
            assert Memories(store).all() == expected, number
            ended = [event.body for event in store.events("t1") if isinstance(event.body, ToolFinished)]
        assert [body.name for body in ended] == ["memory_save", "memory_search", "stage_done"], number
        assert all(body.ok for body in ended), number
        assert state.tree.endings == {"": {"keep": "completed"}}, number
        assert build_report(state).memories_saved == 1, number
        (answer,) = [message.content for message in heard if message.call_id == "c0"]
        assert answer == "Saved as m1." or answer.startswith("Not saved again: m1 of task t1"), number
        repeated += answer != "Saved as m1."
    assert repeated == before  # one crash comes between the text and its event
