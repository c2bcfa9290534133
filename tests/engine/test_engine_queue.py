"""The engine's queue in one process, with models handed in: order, races at the end, cancelling, crashes."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from headgate.config import load_config
from headgate.core import Constraints, Event, Message, Reply, Request, Usage, fold
from headgate.engine import Engine
from headgate.log import Bus, Folder
from headgate.process import FileLock


class Model:
    """Answers every request with the same words, after something else has happened."""

    name = "fake"

    def __init__(self, before: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.before = before
        self.asked: list[str] = []

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        task = next(word for word in request.messages[1].content.split() if word.startswith("task-"))
        self.asked.append(task)
        if self.before:
            await self.before(task)
        return Reply(Message("assistant", "Done."), Usage(1, 1), "stop")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    (tmp_path / "repo" / "agent.yaml").write_text("task_flow_mode: flat\n")
    return tmp_path / "repo"


@pytest.fixture
def engine(repo: Path) -> Iterator[Engine]:
    opened = open_engine(repo, Model())
    yield opened
    opened.store.close()


def open_engine(repo: Path, model: Model) -> Engine:
    loaded = load_config(repo, environ={}, flags={}, user_file=repo / "none.yaml")
    return Engine.open(repo, loaded, models={None: model})


def states(engine: Engine) -> list[str]:
    return [row.state for row in engine.store.tasks()]


async def test_without_workers_run_does_what_is_before_it_and_hears_only_of_its_own(engine: Engine) -> None:
    heard: list[Event] = []
    waits: list[int] = []
    engine.bus.on_event.append(heard.append)
    tasks = [engine.submit(f"task-{number}", Constraints()) for number in range(4)]
    report = await engine.run(tasks[2], lambda wait: waits.append(wait.ahead))
    model = engine.models[None]
    assert isinstance(model, Model)
    assert (list(dict.fromkeys(model.asked)), waits) == (["task-0", "task-1", "task-2"], [2, 1])
    assert states(engine) == ["SUCCESS", "SUCCESS", "SUCCESS", "QUEUED"]
    assert (report.task_id, heard) == ("t3", engine.store.events("t3"))
    assert not FileLock(engine.folder.lock).is_held()


async def test_nobody_is_told_to_wait_for_a_task_that_another_process_has_started(repo: Path) -> None:
    told: list[str | int] = []

    async def wait_for_the_follower(task: str) -> None:
        wanted = 1 if task == "task-0" else "stage_started"
        while wanted not in told:
            await asyncio.sleep(0)

    worker, follower = open_engine(repo, Model(wait_for_the_follower)), open_engine(repo, Model())
    follower.bus.on_event.append(lambda event: told.append(event.body.kind))
    _, own = (follower.submit(f"task-{number}", Constraints()) for number in range(2))
    lock = FileLock(worker.folder.lock)
    assert lock.try_acquire()
    working = asyncio.create_task(worker.drain(lock))
    assert (await follower.run(own, lambda wait: told.append(wait.ahead))).state == "SUCCESS"
    await working
    started = told.index("task_started")
    assert set(told[:started]) <= {0, 1}
    assert not {0, 1} & set(told[started:])
    for engine in (worker, follower):
        engine.store.close()


def note_states(bus: Bus) -> list[int]:
    """A list that gets, with each event, the number of the last event in the bus's state."""
    seen: list[int] = []
    bus.on_event.append(lambda event: seen.append(bus.state.last_seq))
    return seen


async def test_listeners_see_one_state_with_each_event_folded_once(repo: Path) -> None:
    worker, follower = open_engine(repo, Model()), open_engine(repo, Model())
    task = follower.submit("task-0", Constraints())
    seen = [note_states(engine.bus) for engine in (worker, follower)]
    await worker.drain()  # here the log has folded them
    await follower.run(task)  # and here they come out of the store
    events = worker.store.events(task.id)
    assert seen == [[event.seq for event in events]] * 2
    # An event that is folded twice would be counted twice.
    assert worker.bus.state == follower.bus.state == fold(events)
    for engine in (worker, follower):
        engine.store.close()


class SubmittingLock(FileLock):
    """Somebody submits a task, and finds the lock held, just before it is released."""

    def __init__(self, path: Path, submit: Callable[[], object], times: int) -> None:
        super().__init__(path)
        self.submit, self.times = submit, times

    def release(self) -> None:
        if self.times:
            self.times -= 1
            self.submit()
            assert FileLock(self.path).is_held()
        super().release()


async def test_what_is_submitted_while_the_worker_is_about_to_leave_is_run(engine: Engine) -> None:
    engine.submit("task-0", Constraints())
    lock = SubmittingLock(engine.folder.lock, lambda: engine.submit("task-1", Constraints()), times=3)
    await engine.drain(lock)
    assert states(engine) == ["SUCCESS"] * 4
    assert not FileLock(engine.folder.lock).is_held()


async def test_cancelling_in_the_same_process_wakes_the_task_at_once(repo: Path) -> None:
    asked = asyncio.Event()

    async def hang(task: str) -> None:
        asked.set()
        await asyncio.Event().wait()

    engine = open_engine(repo, Model(hang))
    task = engine.submit("task-0", Constraints())
    running = asyncio.create_task(engine.run(task))
    await asked.wait()
    assert engine.cancel(task.id) == "asked"
    assert (await running).state == "CANCELLED"
    second = engine.submit("task-1", Constraints())
    running = asyncio.create_task(engine.run(second))
    asked.clear()
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert states(engine) == ["CANCELLED", "CANCELLED"]
    assert not FileLock(engine.folder.lock).is_held()
    assert not engine.folder.reports.exists()
    engine.store.close()


async def test_a_waiting_run_that_is_cancelled_leaves_no_trace(engine: Engine) -> None:
    lock = FileLock(engine.folder.lock)
    assert lock.try_acquire()
    waiting = asyncio.Event()
    task = engine.submit("task-0", Constraints())
    running = asyncio.create_task(engine.run(task, lambda wait: waiting.set()))
    await waiting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    lock.release()
    assert (states(engine), engine.store.events()) == ([], [])


async def test_a_bug_ends_its_task_and_not_the_queue(repo: Path) -> None:
    async def fail_once(task: str) -> None:
        if task == "task-0":
            raise KeyError("lost")

    engine = open_engine(repo, Model(fail_once))
    bugs: list[Exception] = []
    for number in range(2):
        engine.submit(f"task-{number}", Constraints())
    await engine.drain(on_crash=bugs.append)
    assert (states(engine), [type(bug) for bug in bugs]) == (["INFRA_ERROR", "SUCCESS"], [KeyError])
    with pytest.raises(KeyError, match="lost"):
        await engine.run(engine.submit("task-0", Constraints()))
    assert states(engine)[-1] == "INFRA_ERROR"
    engine.store.close()


async def test_a_configuration_that_broke_meanwhile_has_no_effect(repo: Path) -> None:
    (repo / "script.yaml").write_text("- calls: [{stage_done: {summary: Done.}}]\n")
    (repo / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:script.yaml\n")
    engine = Engine.open(repo)
    task = engine.submit("task-0", Constraints())
    (repo / "agent.yaml").write_text("modle: x\n")
    report = await engine.run(task)
    assert (report.state, report.flow, report.description) == ("SUCCESS", "flat", "task-0")
    assert engine.store.pin(task.id) == ""  # not needed any more
    engine.store.close()


async def test_a_package_that_went_away_meanwhile_ends_its_task_and_not_the_queue(repo: Path) -> None:
    (repo / "script.yaml").write_text("- text: Done.\n")
    (repo / "agent.yaml").write_text(
        "task_flow_mode: flat\nmodel: script:script.yaml\nmonorepo: {package: api}\n"
    )
    (repo / "api").mkdir()
    engine = Engine.open(repo)
    task = engine.submit("task-0", Constraints())
    (repo / "api").rmdir()
    report = await engine.run(task)
    assert (report.state, report.reason) == ("INFRA_ERROR", "environment")
    assert "there is no directory api" in report.summary
    engine.store.close()


@pytest.mark.parametrize("asked", [False, True])
async def test_what_a_crash_left_comes_first_unless_it_is_to_be_cancelled(repo: Path, asked: bool) -> None:
    first = open_engine(repo, Model())
    crashed = first.submit("task-0", Constraints())
    assert first.store.claim() == crashed
    if asked:
        assert first.cancel(crashed.id) == "asked"
    first.store.close()
    model = Model()
    engine = open_engine(repo, model)
    await engine.run(engine.submit("task-1", Constraints()))
    assert states(engine) == ["CANCELLED" if asked else "SUCCESS", "SUCCESS"]
    assert list(dict.fromkeys(model.asked)) == ["task-1"] if asked else ["task-0", "task-1"]
    assert Folder(repo).reports.read_text().count("\n") == (1 if asked else 2)
    engine.store.close()
