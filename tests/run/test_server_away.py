"""A real model server that goes away in the middle of a task, or loads its model; the clock is the test's."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from test_loop import TASK, make_job, work

from headgate.core import (
    Decision,
    DecisionMade,
    Event,
    Limits,
    ModelSettings,
    ReplyFailed,
    StageStarted,
    State,
    TaskResumed,
    Timeouts,
    fold,
)
from headgate.log import Bus, Store, TaskLog
from headgate.models.network import open_model
from headgate.run import run_flow
from jobs import other_job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


def say(name: str, arguments: dict[str, Any]) -> web.Response:
    call = {"id": "", "function": {"name": name, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return web.json_response(
        {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage}
    )


def loading() -> web.Response:
    return web.json_response({"error": {"message": "Loading model", "code": 503}}, status=503)


def broken() -> web.Response:
    return web.json_response({"error": {"message": "assertion failed"}}, status=500)


def look() -> web.Response:
    return say("read_file", {"path": "big.txt"})


def done() -> web.Response:
    return say("stage_done", {"summary": "Seen."})


Answer = Callable[[], web.Response]


@dataclass
class Machine:
    """A server that answers these requests in turn, or is away; a clock that only its sleepers move."""

    answers: list[Answer]
    back_after: int | None = None
    """After how many waits it is there again."""
    port: int = 0
    clock: float = 1_000.0
    waits: list[float] = field(default_factory=list)
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self.port or self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        await request.read()
        answered = self.answers.pop(0)()
        answered.force_close()
        return answered

    async def sleep(self, seconds: float) -> None:
        self.clock += seconds
        self.waits.append(seconds)
        if self.back_after is not None and len(self.waits) == self.back_after:
            await self.start()

    async def carry_out(self, store: Store, before: Callable[[], Any], **limits: Any) -> Decision:
        """How a task ends; `before` is called before each request."""
        await self.start()
        settings = ModelSettings(
            model="openai/m",
            base_url=f"http://127.0.0.1:{self.port}/v1",
            tool_transport="native",
            timeouts=Timeouts(connect=5),
        )
        async with open_model(settings) as model:
            log = TaskLog(store, Bus(), TASK, lambda: self.clock)
            job = other_job(
                make_job(store, work(), {None: Before(model, before)}),
                log=log,
                model_settings={None: settings},
                limits=Limits.model_validate(limits),
                now=lambda: self.clock,
                sleep=self.sleep,
            )
            job.state.clock.started_at = self.clock
            try:
                return await run_flow(job)
            finally:
                await self.stop()


@dataclass
class Before:
    """A model, and what is done before each request to it."""

    inner: Any
    act: Callable[[], Any]
    name: str = "m"

    async def reply(self, request: Any, on_delta: Any = None) -> Any:
        await self.act()
        return await self.inner.reply(request, on_delta)


async def nothing() -> None:
    return


def goes_away(machine: Machine, answers_left: int) -> Callable[[], Any]:
    """The server is gone once it has no more than so many answers left."""

    async def act() -> None:
        if len(machine.answers) <= answers_left and not machine.waits:
            await machine.stop()

    return act


def shown(store: Store) -> list[str]:
    """The lines for people about the model."""
    state, lines = State(), []
    for event in store.events("t1"):
        state.apply(event)
        line = event.line(state)
        lines.append(line.text if line else "")
    return [line for line in lines if "odel" in line]


async def test_a_server_that_comes_back_is_waited_for(store: Store) -> None:
    machine = Machine([look, done], back_after=9)
    decision = await machine.carry_out(store, goes_away(machine, 1))
    assert (decision.action, machine.answers) == ("advance", [])
    assert machine.waits == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0, 15.0]
    # What is wrong, and what is done about it, is said once.
    assert shown(store) == [
        f"Model: Nothing listens at http://127.0.0.1:{machine.port}/v1: start the model server or correct"
        " base_url.",
        "The model server is away: waiting up to 10 minutes, asking every 15 s",
    ]
    state = fold(store.events("t1"))
    assert (state.accounts.replies, state.nodes["work"].counts.unanswered.count) == (2, 0)


async def test_it_is_waited_for_as_long_as_the_setting_says(store: Store) -> None:
    machine = Machine([look])
    decision = await machine.carry_out(store, goes_away(machine, 0))
    assert (decision.action, decision.reason) == ("infra", "model_unavailable")
    assert decision.detail.endswith(" Headgate waited 10 minutes for it.")
    assert sum(machine.waits) == 600.0


@pytest.mark.parametrize("wait", [0, 40])
async def test_the_setting(store: Store, wait: float) -> None:
    machine = Machine([look])
    decision = await machine.carry_out(store, goes_away(machine, 0), model_wait=wait)
    assert (decision.action, sum(machine.waits)) == ("infra", wait or 15.0)


async def test_a_server_that_was_never_there_fails_as_fast_as_ever(store: Store) -> None:
    machine = Machine([look])
    decision = await machine.carry_out(store, machine.stop)
    assert (decision.action, machine.waits) == ("infra", [1.0, 2.0, 4.0, 8.0])


async def test_a_server_that_loads_its_model_is_waited_for(store: Store) -> None:
    machine = Machine([*[loading] * 20, done])
    decision = await machine.carry_out(store, nothing)
    assert (decision.action, machine.waits) == ("advance", [15.0] * 20)
    assert "loading the model" in shown(store)[-1]


async def test_a_server_that_answers_with_errors_is_not_away(store: Store) -> None:
    machine = Machine([look, *[broken] * 5])
    decision = await machine.carry_out(store, nothing)
    assert (decision.action, machine.waits) == ("infra", [1.0, 2.0, 4.0, 8.0])


async def test_the_limit_of_seconds_holds_while_it_is_waited_for(store: Store) -> None:
    machine = Machine([look])
    decision = await machine.carry_out(store, goes_away(machine, 0), seconds=100.0)
    assert (decision.action, decision.reason) == ("stuck", "limit_seconds")
    assert sum(machine.waits) == pytest.approx(80.0)  # the rest is for last words, which nobody can say


def test_the_time_in_which_nobody_worked_on_the_task_is_no_waiting() -> None:
    state = State()
    failed = ReplyFailed(error="unavailable", detail="Gone.", server="away")
    enter = StageStarted(stage="work", title="WORK", attempt=1, reason="next", tools=("ls",), turns=9)
    wait = DecisionMade(action="wait", reason="model_away")
    for seq, (path, at, body) in enumerate(
        [
            ("work", 0.0, enter),
            ("work", 10.0, failed),
            ("work", 10.0, wait),
            ("", 5_000.0, TaskResumed()),
            ("work", 5_015.0, failed),
        ],
        1,
    ):
        state.apply(Event(seq, "t1", path, 0, at, body))
    counts = state.nodes["work"].counts
    assert (counts.unanswered.count, counts.unanswered.seconds(counts.last_at)) == (2, 15.0)
