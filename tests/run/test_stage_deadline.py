"""The time that all attempts at a stage have together: whatever the stage waits for then is cut off."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from test_loop import TASK, Endless, calling, make_job

from headgate.core import (
    Budget,
    Decision,
    DecisionMade,
    Event,
    Flow,
    Message,
    Note,
    Reply,
    Request,
    Stage,
    StageEnded,
    StageStarted,
    State,
    TaskResumed,
)
from headgate.errors import ModelUnavailable
from headgate.log import Bus, Store, TaskLog
from headgate.models import ScriptedModel
from headgate.run import Entrance, Job
from headgate.run.attempts import complete_stage
from headgate.tools import Args, ToolContext
from headgate.tools.base import tool
from jobs import other_job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


def look(**budget: Any) -> Flow:
    """A stage such as that of a model that scouts."""
    given = {"bad_replies": 1, "idle_attempts": 0, "retries": 3, "exhausted": "skip", **budget}
    return Flow(name="one", stages=(Stage(id="look", budget=Budget.model_validate(given)),))


async def attempt(job: Job) -> Decision:
    """How the stage ends."""
    async with asyncio.timeout(30):
        return await complete_stage(job, job.flow.stages[0], "", Entrance())


def endings(store: Store) -> list[tuple[str, str]]:
    bodies = [event.body for event in store.events("t1")]
    return [(body.ending, body.reason) for body in bodies if isinstance(body, StageEnded)]


@dataclass
class Talker:
    """A model that never calls a tool, and takes its time on a clock of the test's own."""

    seconds: float
    clock: float = 1_000.0
    requests: int = 0
    name: str = "talker"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests += 1
        self.clock += self.seconds
        return Reply(Message("assistant", f"I would rather talk, {self.requests}."))

    async def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def time(self, store: Store, job: Job) -> Job:
        log = TaskLog(store, Bus(), TASK, lambda: self.clock)
        return other_job(job, log=log, now=lambda: self.clock, sleep=self.sleep)


@pytest.mark.parametrize(
    ("most", "requests", "took"),
    [
        (None, 12, 43.0),  # four attempts of three replies, and 1, 2 and 4 s between them
        (40.0, 11, 40.0),
        (35.0, 10, 37.0),
        (20.0, 6, 19.0),  # there is no time to wait for the third attempt
        (10.0, 3, 9.0),
        (2.0, 1, 3.0),
    ],
)
async def test_attempts_waits_and_final_turns_share_one_time(
    store: Store, most: float | None, requests: int, took: float
) -> None:
    model = Talker(3.0)
    flow = look(total_seconds=most, retry_backoff="exponential")
    ended = await attempt(model.time(store, make_job(store, flow, {None: model})))
    assert (ended.action, model.requests, model.clock - 1_000.0) == ("skip", requests, took)


async def test_a_reply_is_cut_off_when_the_time_is_up(store: Store) -> None:
    model = Endless(endless=9)
    ended = await attempt(make_job(store, look(total_seconds=0.2), {None: model}))
    assert ended == Decision("skip", "max_seconds", "1 reply that took too long")
    assert (model.requests, model.cut_off) == (1, True)


async def test_a_final_turn_is_cut_off_as_well(store: Store) -> None:
    endless = Endless(endless=9)
    model = ScriptedModel([Reply(Message("assistant", "No.")), endless.reply])
    await attempt(make_job(store, look(total_seconds=0.3), {None: model}))
    granted = [event.body for event in store.events("t1") if isinstance(event.body, DecisionMade)]
    assert [body.action for body in granted] == ["final_turn", "skip"]
    assert (endless.cut_off, endings(store)) == (True, [("skipped", "max_seconds")])


async def test_nobody_waits_longer_for_a_model_that_is_away(store: Store) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(seconds)

    model = ScriptedModel([ModelUnavailable("Busy.", retry_after=200.0)])
    job = make_job(store, look(total_seconds=0.2), {None: model})
    await attempt(other_job(job, sleep=sleep))
    assert len(model.requests) == len(waited) == 1
    assert waited[0] <= 0.2
    assert endings(store) == [("skipped", "max_seconds")]


async def test_a_tool_that_reads_is_stopped(store: Store) -> None:
    @tool("read")
    async def gaze(ctx: ToolContext, args: Args) -> str:
        """Look for ever."""
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([calling("gaze", "{}")])
    job = make_job(store, look(total_seconds=0.2), {None: model})
    job.parts.tools = {**job.parts.tools, "gaze": gaze}
    await attempt(job)
    assert endings(store) == [("skipped", "max_seconds")]


def test_while_a_task_is_interrupted_the_time_stands_still() -> None:
    def enter(number: int, reason: Any) -> StageStarted:
        return StageStarted(stage="look", title="LOOK", attempt=number, reason=reason, tools=(), turns=9)

    ended = StageEnded(stage="look", ending="failed", reason="max_turns", note=Note())
    state = State()
    for seq, (path, at, body) in enumerate(
        [
            ("look", 100.0, enter(1, "next")),
            ("look", 103.0, DecisionMade(action="retry", reason="max_turns")),
            ("look", 103.0, ended),
            ("", 900.0, TaskResumed()),
            ("look#2", 901.0, enter(2, "retry")),
            ("", 2_000.0, TaskResumed()),
        ],
        1,
    ):
        state.apply(Event(seq, "t1", path, 0, at, body))
    assert 2_000.0 - state.tree.began_at["look"] == 4.0
