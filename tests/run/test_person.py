"""What a person says while a task runs: told once in each conversation, never lost, and stops are prompt."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.core import (
    Budget,
    Conclusion,
    Decision,
    Flow,
    Message,
    ModelSettings,
    PersonSpoke,
    Reply,
    ReplyFailed,
    Request,
    Stage,
    Task,
    ToolCall,
    Usage,
    ViewPolicy,
    expand_flow,
    fold,
)
from headgate.engine import CHECK_SPECS
from headgate.errors import ModelUnavailable
from headgate.library.surroundings import NoTree
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, restore, run_flow
from headgate.tools import ToolContext, ls, read_file
from headgate.tree import DiskWorkspace
from jobs import job_of

TASK = Task(id="t1", text="Look.", goal="Look.")
TWO = Flow(
    name="two",
    stages=(
        Stage(id="look", allow_missing_done=True),
        Stage(id="work", allow_missing_done=True, needs=("look",)),
    ),
)
TAIL = Flow(
    name="tail",
    stages=(
        Stage(
            id="work",
            allow_missing_done=True,
            view=ViewPolicy(history="tail", max_messages=8, keep_first=False),
        ),
    ),
)
AT_ONCE = Flow(
    name="beside",
    max_parallel=2,
    stages=(Stage(id="one", allow_missing_done=True), Stage(id="two", allow_missing_done=True)),
)
DONE = Decision("advance", "done")


@dataclass
class Reader:
    """A model that reads a few times in each conversation, and then stops."""

    reads: int = 3
    name: str = "reader"
    on_request: Callable[[Request], None] = lambda request: None
    requests: list[Request] = field(default_factory=list)

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.requests.append(Request(tuple(request.messages), request.tools))
        self.on_request(request)
        # Messages may be cut from view, so the number of the turn is in the calls.
        numbers = [int(call.id[1:]) for message in request.messages for call in message.calls]
        number = max(numbers, default=0) + 1
        if number > self.reads:
            return Reply(Message("assistant", "Seen."), Usage(10, 1))
        call = ToolCall(f"c{number}", "read_file", f'{{"path": "big.txt", "start_line": {number}}}')
        return Reply(Message("assistant", "", (call,)), Usage(10, 1), "calls")


@dataclass
class Person:
    """Says each line once, as soon as the model has been asked so often, whatever crashes meanwhile."""

    store: Store
    plan: dict[int, str]

    def listen(self, model: Reader) -> None:
        def speak(request: Request) -> None:
            for after in [number for number in self.plan if len(model.requests) >= number]:
                assert self.store.say("t1", self.plan.pop(after), 0.0)

        model.on_request = speak


def make_job(store: Store, flow: Flow, model: Any, appending: Any = None, **fields: Any) -> Job:
    repo = store.path.parent / "repo"
    (repo / "big.txt").write_text("a line of text\n" * 50)

    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    given: dict[str, Any] = {
        "task": TASK,
        "flow": expand_flow(flow, [ls.spec, read_file.spec], CHECK_SPECS),
        "log": TaskLog(appending or store, Bus(), TASK, time.time),
        "models": {None: model},
        "model_settings": {None: ModelSettings(model="openai/reader", context_window=100_000)},
        "tools": {tool.name: tool for tool in (ls, read_file)},
        "context": ToolContext(workspace=DiskWorkspace(repo), save_output=lambda text: "saved"),
        "verifier": None,
        "tree": NoTree(),
        "redact": lambda text: text.replace("hunter2", "[redacted]"),
        "now": time.time,
        "sleep": no_sleep,
        "pulse": lambda *pulse, **more: None,
        "lines": lambda: store.lines("t1"),
    }
    return job_of(**{**given, **fields})


def spoken(store: Store) -> list[str]:
    return [event.body.text for event in store.events("t1") if isinstance(event.body, PersonSpoke)]


def count(request: Request, text: str) -> int:
    return sum(message.content.count(text) for message in request.messages)


@pytest.mark.parametrize("flow", [TWO, TAIL], ids=["two conversations", "a short view"])
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
async def test_a_crash_at_every_commit_loses_no_line_and_tells_none_twice(
    tmp_path: Path, flow: Flow, before: bool
) -> None:
    plan = {1: "Alpha says hunter2.", 2: "Beta.", 5: "Gamma."}
    heard = ["Alpha says [redacted].", "Beta.", "Gamma."]
    number, crashes = 0, True
    while crashes:
        number += 1
        with fresh_store(tmp_path / f"{number}", TASK) as store:
            store.claim()
            model = Reader(reads=8 if flow is TAIL else 3)
            person = Person(store, dict(plan))
            person.listen(model)
            crashes = False
            try:
                decision = await run_flow(make_job(store, flow, model, CrashingStore(store, number, before)))
            except Crash:
                crashes = True
                log = TaskLog(store, Bus(), TASK, time.time)
                log.state = fold(store.events("t1"))
                job = make_job(store, flow, model, log=log)
                restore(job, store.events("t1"), store.contents("t1"))
                decision = await run_flow(job)
            assert decision == DONE
            assert spoken(store) == heard, f"crashed at commit {number}"
            assert store.lines("t1") == []
            last = model.requests[-1]
            assert [count(last, line) for line in heard] == [1, 1, 1], f"crashed at commit {number}"
            assert all(count(request, "hunter2") == 0 for request in model.requests)
    assert number > 10


async def test_stages_that_run_at_once_are_both_told_and_one_of_them_hears(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "x", TASK) as store:
        store.claim()
        model = Reader(reads=4)
        Person(store, {1: "Alpha.", 3: "Beta."}).listen(model)
        assert await run_flow(make_job(store, AT_ONCE, model)) == DONE
        assert spoken(store) == ["Alpha.", "Beta."]
        for name in ("one", "two"):
            [*_, last] = [request for request in model.requests if count(request, f"Stage: {name.upper()}")]
            assert (count(last, "Alpha."), count(last, "Beta.")) == (1, 1)


async def test_a_person_who_never_stops_talking_is_heard_as_long_as_there_are_turns(tmp_path: Path) -> None:
    flow = Flow(name="short", stages=(Stage(id="work", allow_missing_done=True, budget=Budget(turns=6)),))
    with fresh_store(tmp_path / "x", TASK) as store:
        store.claim()
        model = Reader(reads=1)
        model.on_request = lambda request: store.say("t1", f"Line {len(model.requests)}.", 0.0)
        assert await run_flow(make_job(store, flow, model)) == DONE
        assert len(model.requests) == 6
        assert len(spoken(store)) == 5
        assert [line.text for line in store.lines("t1")] == ["Line 6."]


async def test_huge_lines_leave_room_for_the_work(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "x", TASK) as store:
        store.claim()
        model = Reader()
        for number in range(50):
            assert store.say("t1", f"{number} " + "x" * 19_990, 0.0)
        settings = {None: ModelSettings(model="openai/reader", context_window=8_000)}
        assert await run_flow(make_job(store, TWO, model, model_settings=settings)) == DONE
        assert len(spoken(store)) == 50
        sizes = [sum(len(message.content) for message in request.messages) for request in model.requests]
        assert max(sizes) < 8_000 * 3.5


@dataclass
class Endless:
    """A model that writes and writes, until its last turn."""

    name: str = "endless"
    asked: int = 0
    cut: int = 0

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.asked += 1
        if [tool.name for tool in request.tools] == ["stage_done"]:
            call = ToolCall("c9", "stage_done", '{"stage": "work", "summary": "Half of it."}')
            return Reply(Message("assistant", "", (call,)), Usage(10, 1), "calls")
        if self.asked == 1:
            return Reply(Message("assistant", "", (ToolCall("c1", "ls", "{}"),)), Usage(10, 1), "calls")
        try:
            await asyncio.Event().wait()
        finally:
            self.cut += 1
        raise AssertionError


async def test_an_endless_reply_is_cut_off_when_the_task_is_to_conclude(tmp_path: Path) -> None:
    flow = Flow(name="x", stages=(Stage(id="work", allow_missing_done=True),))
    with fresh_store(tmp_path / "x", TASK) as store:
        model = Endless()
        job = make_job(store, flow, model, stopping=lambda: model.asked > 1, stop_seconds=0.0)
        assert await run_flow(job) == DONE
        assert (model.asked, model.cut) == (3, 1)
        [failed] = [event.body for event in store.events("t1") if isinstance(event.body, ReplyFailed)]
        assert failed.detail == "The task was asked to conclude before the reply ended."
        assert job.state[Conclusion].final_turns == ["user_stop"]


async def test_a_wait_for_the_model_ends_when_the_task_is_to_conclude(tmp_path: Path) -> None:
    @dataclass
    class Away:
        name: str = "away"
        asked: int = 0

        async def reply(self, request: Request, on_delta: object = None) -> Reply:
            self.asked += 1
            raise ModelUnavailable("Nobody is there.")

    async def for_ever(seconds: float) -> None:
        stopping.append(seconds)
        await asyncio.Event().wait()

    stopping: list[float] = []
    with fresh_store(tmp_path / "x", TASK) as store:
        model = Away()
        job = make_job(store, TWO, model, sleep=for_ever, stopping=lambda: bool(stopping))
        ended = await run_flow(job)
        assert (ended.action, ended.reason, model.asked) == ("stuck", "user_stop", 1)
