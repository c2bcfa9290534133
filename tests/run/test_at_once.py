"""Stages that run at once: how many, which, and what becomes of the others when one ends the flow."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_groups import TASK, Counter, Ran, make_job, plain_kind

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.core import Decision, Note, Stage, StageEnded, ToolScope, ToolSpec, ViewPolicy, fold
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, StageEnd, StageRun, restore, run_flow
from headgate.run.at_once import may_run_beside
from jobs import other_job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fresh_store(tmp_path / "store", TASK) as opened:
        yield opened


@dataclass
class Crowd:
    """The kind `meet`: a stage that yields a number of times, and then ends as its settings say."""

    present: set[str] = field(default_factory=set)
    seen: list[frozenset[str]] = field(default_factory=list)
    """Who was there, each time somebody came."""

    async def run(self, run: StageRun) -> StageEnd:
        self.present.add(run.stage.id)
        self.seen.append(frozenset(self.present))
        try:
            for _ in range(run.stage.settings.get("steps", 3)):
                await run.job.log.commit()
                await asyncio.sleep(0)
            while run.stage.settings.get("for_ever"):
                await asyncio.sleep(0.01)
        finally:
            self.present.discard(run.stage.id)
        action = run.stage.settings.get("action", "advance")
        if action == "retry" and run.state.counts.attempts > run.stage.budget.retries:
            action = "fail"
        reason = "done" if action == "advance" else "not_yet"
        return StageEnd(Decision(action, reason), Note(summary=run.stage.id))


def meet(name: str, *, alone: bool = False, **fields: Any) -> dict[str, Any]:
    settings = {key: fields.pop(key) for key in ("steps", "action", "for_ever") if key in fields}
    return {"id": name, "kind": "alone" if alone else "meet", "settings": settings, **fields}


def crowd_job(store: Store, log: TaskLog, crowd: Crowd, most: int, *stages: dict[str, Any]) -> Job:
    job = make_job(store, list(stages), Counter(), log)
    job.flow = job.flow.model_copy(update={"max_parallel": most})
    kinds = {"meet": plain_kind("meet", crowd.run, "runs_beside"), "alone": plain_kind("alone", crowd.run)}
    job.parts.kinds = {**job.parts.kinds, **kinds}
    return job


async def run_crowd(store: Store, most: int, *stages: dict[str, Any]) -> tuple[Ran, Crowd]:
    crowd = Crowd()
    job = crowd_job(store, TaskLog(store, Bus(), TASK, lambda: 0.0), crowd, most, *stages)
    async with asyncio.timeout(30):
        decision = await run_flow(job)
    return Ran(decision, store.events("t1"), []), crowd


@pytest.mark.parametrize("most", [1, 2, 3, 9])
async def test_so_many_run_at_once(store: Store, most: int) -> None:
    ran, crowd = await run_crowd(store, most, *[meet(name) for name in "abcde"])
    assert max(map(len, crowd.seen)) == min(most, 5)
    assert sorted(ran.ended) == [f"{name} completed" for name in "abcde"]


async def test_others_run_alone_and_needs_are_kept(store: Store) -> None:
    stages = [meet("a"), meet("b", steps=9), meet("c", needs=["a"]), meet("d", alone=True), meet("e")]
    ran, crowd = await run_crowd(store, 3, *stages, meet("last", needs=["*"]))
    assert ran.decision == Decision("advance", "done")
    assert all(there == {"d"} for there in crowd.seen if "d" in there)
    assert not any({"a", "c"} <= there for there in crowd.seen)
    assert ran.ended[-1] == "last completed"
    assert len(ran.ended) == 6


async def test_a_failure_cancels_what_runs_beside_it(store: Store) -> None:
    ran, _ = await run_crowd(store, 2, meet("a", action="fail"), meet("b", for_ever=True), meet("c"))
    assert (ran.decision.action, ran.decision.reason) == ("stuck", "stage_failed")
    assert ran.ended == ["a failed", "b skipped"]
    last = [event.body for event in ran.events if isinstance(event.body, StageEnded)][-1]
    assert last.reason == "cancelled"
    assert fold(ran.events).tree.open_attempts() == []
    assert fold(ran.events).tree.skipped == {"": {"c": "failed: a"}}


async def test_the_first_that_completes_cancels_the_others(store: Store) -> None:
    inner = [meet("a", for_ever=True), meet("b"), meet("c", for_ever=True), meet("d")]
    group = {"id": "one-of", "join": "any", "max_parallel": 3, "stages": inner}
    ran, _ = await run_crowd(store, 1, group, meet("last", needs=["one-of"]))
    assert ran.decision == Decision("advance", "done")
    assert sorted(ran.ended) == [
        "last completed",
        "one-of/a skipped",
        "one-of/b completed",
        "one-of/c skipped",
        "one-of/d skipped",
    ]
    reasons = {
        event.body.stage: event.body.reason for event in ran.events if isinstance(event.body, StageEnded)
    }
    assert [reasons[name] for name in "acd"] == ["join_any"] * 3


@pytest.mark.parametrize("action", ["infra", "stuck"])
async def test_where_one_is_enough_the_end_of_another_is_not_the_end(store: Store, action: str) -> None:
    inner = [meet("a", action=action), meet("b", steps=9), meet("c", for_ever=True)]
    group = {"id": "one-of", "join": "any", "max_parallel": 3, "stages": inner}
    ran, _ = await run_crowd(store, 1, group)
    assert ran.decision == Decision("advance", "done")
    assert ran.ended == ["one-of/a failed", "one-of/b completed", "one-of/c skipped"]


async def test_if_none_completes_it_is_the_end(store: Store) -> None:
    inner = [meet("a", action="infra"), meet("b", action="fail", steps=9)]
    ran, _ = await run_crowd(store, 1, {"id": "one-of", "join": "any", "max_parallel": 2, "stages": inner})
    assert ran.decision == Decision("infra", "not_yet")
    assert ran.ended == ["one-of/a failed", "one-of/b failed"]


async def test_a_cancelled_flow_leaves_nothing_running(store: Store) -> None:
    crowd = Crowd()
    log = TaskLog(store, Bus(), TASK, lambda: 0.0)
    stages = [meet("a", for_ever=True), meet("b", for_ever=True)]
    task = asyncio.create_task(run_flow(crowd_job(store, log, crowd, 2, *stages)))
    while len(crowd.present) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert crowd.present == set()
    assert len(asyncio.all_tasks()) == 1


CRASHING = [
    meet("a", steps=2),
    meet("b", action="retry", max_retries=1, required=False),
    {
        "id": "any",
        "join": "any",
        "max_parallel": 2,
        "stages": [meet("x", action="fail"), meet("y"), meet("z")],
    },
    meet("c", needs=["a"]),
    meet("last", needs=["*"]),
]


@pytest.mark.parametrize("before", [False, True])
async def test_a_crash_and_a_resume_continue_every_open_attempt(tmp_path: Path, before: bool) -> None:
    with fresh_store(tmp_path / "whole", TASK) as whole:
        undisturbed, _ = await run_crowd(whole, 2, *CRASHING)
    commits, crashed, most_open = 0, True, 0
    while crashed:
        commits += 1
        with fresh_store(tmp_path / str(commits), TASK) as other:
            crashing: Any = CrashingStore(other, commits, before)
            try:
                log = TaskLog(crashing, Bus(), TASK, lambda: 0.0)
                await run_flow(crowd_job(other, log, Crowd(), 2, *CRASHING))
                crashed = False
            except Crash:
                pass
            log = TaskLog(other, Bus(), TASK, lambda: 0.0)
            log.state = fold(other.events("t1"))
            most_open = max(most_open, len(log.state.tree.open_attempts()))
            job = crowd_job(other, log, Crowd(), 2, *CRASHING)
            restore(job, other.events("t1"), other.contents("t1"))
            async with asyncio.timeout(30):
                assert await run_flow(job) == undisturbed.decision
            ended = {node.path: node.ending for node in log.state.nodes.values()}
            assert None not in ended.values()
            latest = log.state.tree.endings[""]
            assert latest == {"a": "completed", "b": "failed", "c": "completed", "last": "completed"}
    assert most_open == 2


def test_who_may_run_beside_others(store: Store) -> None:
    job = make_job(store, [{"id": "a"}], Counter(), TaskLog(store, Bus(), TASK, lambda: 0.0))

    @dataclass
    class NamedTool:
        spec: ToolSpec

        @property
        def name(self) -> str:
            return self.spec.name

    specs = [ToolSpec(name, name, {}, category) for name, category in [("r", "read"), ("w", "write")]]
    tools: Any = {spec.name: NamedTool(spec) for spec in specs}
    job = other_job(job, tools=tools)
    reads = ToolScope(allow=("read",))
    assert may_run_beside(job, Stage(id="a", tools=reads), "")
    assert not may_run_beside(job, Stage(id="a"), "")
    plain = plain_kind("plain", Crowd().run, "runs_beside")
    job.parts.kinds = {
        **job.parts.kinds,
        "plain": plain,
        "meet": plain_kind("meet", Crowd().run, "runs_beside", "conversation"),
    }
    assert not may_run_beside(job, Stage(id="a", kind="meet"), "")
    assert may_run_beside(job, Stage(id="a", kind="plain"), "")
    assert not may_run_beside(job, Stage(id="a", tools=reads, view=ViewPolicy(transcript="parent")), "")
    assert not may_run_beside(job, Stage(id="a", kind="verify"), "")
    assert not may_run_beside(job, Stage(id="a", stages=(Stage(id="b", tools=reads),)), "")
