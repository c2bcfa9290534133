"""A planner with recipes, cut by a crash at every commit: no step that has completed runs again."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_groups import TASK, Counter, make_job

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.core import (
    Event,
    Message,
    OnDelta,
    Recipe,
    Reply,
    Request,
    StageEnded,
    StageStarted,
    State,
    ToolCall,
    Usage,
    fold,
)
from headgate.features.recipes import Executions
from headgate.features.recipes.feature import escalate, execute_tool
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, restore, run_flow
from headgate.tools import think

RECIPES = {
    name: Recipe.model_validate({"name": name, "description": name, **fields})
    for name, fields in {
        "two": {
            "stages": [
                {"id": "one", "tools": {"allow": ["think"]}},
                {"id": "two", "needs": ["one"], "tools": {"allow": ["think"]}},
            ]
        },
        "hard": {"stages": [{"id": "try", "tools": {"allow": ["think"]}}]},
    }.items()
}
PLAN: list[tuple[str, list[str]]] = [
    ("two", ["First goal"]),
    ("hard", ["Second goal"]),
    ("two", ["Another goal"]),
    ("two", ["first goal."]),
]


class PlanReader:
    """A model that goes by what it reads alone, so that a crash makes no difference to it."""

    name = "reader"

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        calls = [
            ToolCall(f"c{len(request.messages)}-{index}", name, json.dumps(arguments))
            for index, (name, arguments) in enumerate(self._choose(request))
        ]
        return Reply(Message("assistant", calls=tuple(calls)), Usage(10, 10), "calls")

    def _choose(self, request: Request) -> Sequence[tuple[str, dict[str, Any]]]:
        texts = [message.content for message in request.messages]
        if "execute" not in {spec.name for spec in request.tools}:
            if not any(call.name == "think" for message in request.messages for call in message.calls):
                return [("think", {"text": "Hm."})]
            if any("task_type: hard" in text for text in texts):
                return [("escalate", {"reason": "Too hard."})]
            return [("stage_done", {"summary": "It is done."})]
        done = sum(message.role == "tool" for message in request.messages)
        if done < len(PLAN):
            task_type, goals = PLAN[done]
            return [("execute", {"task_type": task_type, "goals": goals})]
        return [("stage_done", {"summary": "The plan is carried out."})]


def make(store: Store, log: TaskLog) -> Job:
    stage = {"id": "planner", "kind": "planner", "tools": {"allow": ["execute"]}}
    job = make_job(store, [stage], Counter(), log)
    job.flow = job.flow.model_copy(update={"recipes": RECIPES})
    job.state.flow = job.flow  # as the start of a task records it
    job.models.clients = {None: PlanReader()}
    job.parts.tools = {tool.name: tool for tool in (think, execute_tool(RECIPES), escalate)}
    return job


async def run_plan(
    store: Store, crash_at: int = 0, *, before: bool = False
) -> tuple[State, list[Event], list[str], int]:
    crashing: Any = CrashingStore(store, crash_at, before=before)
    log = TaskLog(crashing, Bus(), TASK, lambda: 0.0)
    job = make(store, log)
    async with asyncio.timeout(60):
        try:
            await run_flow(job)
        except Crash:
            log = TaskLog(store, Bus(), TASK, lambda: 0.0)
            log.state = fold(store.events("t1"))
            job = make(store, log)
            restore(job, store.events("t1"), store.contents("t1"))
            await run_flow(job)
    said = [message.content for message in job.memory.transcripts["planner"].messages]
    return log.state, store.events("t1"), said, crashing.seen


@pytest.mark.parametrize("before", [False, True])
def test_a_plan_cut_at_any_commit_ends_as_one_that_was_not(tmp_path: Path, before: bool) -> None:
    with fresh_store(tmp_path / "whole", TASK) as store:
        state, events, said, commits = asyncio.run(run_plan(store))
    started = [event.body.stage for event in events if isinstance(event.body, StageStarted)]
    assert started == ["planner", "two-1.one", "two-1.two", "hard-2.try", "two-3.one", "two-3.two"]
    assert said[4] == "two: completed.\n- one completed: It is done.\n- two completed: It is done."
    assert said[6] == "hard: handed back.\n- try failed\nIt was handed back: try failed: Too hard."
    assert said[10].startswith("execute was refused: two with these goals is completed.")
    assert commits > 20
    for number in range(1, commits + 1):
        with fresh_store(tmp_path / str(number), TASK) as store:
            cut, events, heard, _ = asyncio.run(run_plan(store, number, before=before))
        again = [event.body.stage for event in events if isinstance(event.body, StageStarted)]
        assert (again, heard) == (started, said), number
        ends = [event.path for event in events if isinstance(event.body, StageEnded)]
        assert len(ends) == len(set(ends)), number
        assert (cut.tree.endings, cut[Executions].all) == (state.tree.endings, state[Executions].all), number
