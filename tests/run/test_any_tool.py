"""Tools of any kind in the loop: what they return, raise and write, and what a crash leaves."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate.core import (
    Body,
    Decision,
    Flow,
    Message,
    ModelSettings,
    Reply,
    Request,
    Stage,
    Task,
    ToolCall,
    ToolFinished,
    ToolStarted,
    expand_flow,
    fold,
)
from headgate.engine import CHECK_SPECS
from headgate.engine.tree import TaskTree
from headgate.errors import ToolFailed
from headgate.library.surroundings import NoTree
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, restore, run_flow
from headgate.run.job import Tree
from headgate.tools import Args, Outcome, Tool, ToolContext, run_tests
from headgate.tools.base import tool
from headgate.tree import DiskWorkspace, FileChange, Snapshots, git
from jobs import job_of

TASK = Task(id="t1", text="Count.", goal="Count.")
FLOW = Flow(name="test", stages=(Stage(id="work"),))
DONE = Decision("advance", "done")


class NoArgs(Args):
    """Takes nothing."""


class Count(BaseModel):
    """What a tool found."""

    word: str
    number: int


class Crash(BaseException):
    """The process is gone."""


@dataclass
class CallsOnce:
    """A model that calls one tool, says that it is done, and keeps what it was answered."""

    tool: str
    name: str = "calls-once"
    answers: list[Message] = field(default_factory=list)

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        self.answers = [message for message in request.messages if message.role == "tool"]
        if not self.answers:
            return Reply(Message("assistant", "", (ToolCall("c1", self.tool, "{}"),)), finish="calls")
        done = ToolCall("c2", "stage_done", json.dumps({"summary": "Counted."}))
        return Reply(Message("assistant", "", (done,)), finish="calls")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q")
    (repo / "n.txt").write_text("0\n")
    opened = Store(tmp_path / "headgate.db")
    opened.add_task(lambda task_id: TASK, 0.0)
    yield opened
    opened.close()


def make_job(
    store: Store, model: CallsOnce, tools: Sequence[Tool], log: TaskLog, tree: Tree, disk: DiskWorkspace
) -> Job:
    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    return job_of(
        task=TASK,
        flow=expand_flow(FLOW, [tool.spec for tool in tools], CHECK_SPECS),
        log=log,
        models={None: model},
        model_settings={None: ModelSettings(model="openai/calls-once")},
        tools={tool.name: tool for tool in tools},
        context=ToolContext(workspace=disk, save_output=lambda text: "saved"),
        verifier=None,
        tree=tree,
        redact=lambda text: text,
        now=time.time,
        sleep=no_sleep,
        pulse=lambda *pulse, **more: None,
    )


async def answer_of(store: Store, called: Tool, tree: Tree | None = None) -> Message:
    """What the model was answered by a tool, in a task that then ended well."""
    model, log = CallsOnce(called.name), TaskLog(store, Bus(), TASK, time.time)
    disk = DiskWorkspace(store.path.parent / "repo")
    job = make_job(store, model, [called], log, tree or NoTree(), disk)
    assert await run_flow(job) == DONE
    return model.answers[0]


def events(store: Store, kind: type[Body]) -> list[Any]:
    return [event.body for event in store.events(TASK.id) if isinstance(event.body, kind)]


def divide() -> object:
    return 1 / 0


def ask_for_more() -> object:
    return next(iter(()))


def quit_python() -> object:
    raise SystemExit("usage: count WORD")


def return_an_object() -> object:
    return object()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("work", "said"),
    [
        (divide, "count failed with ZeroDivisionError: division by zero."),
        (ask_for_more, "count failed with RuntimeError: "),
        (quit_python, "count failed with SystemExit: usage: count WORD."),
        (return_an_object, "count failed with PydanticSerializationError: "),
    ],
)
async def test_whatever_a_tool_raises_is_an_answer_and_the_task_goes_on(
    store: Store, is_async: bool, work: Callable[[], object], said: str
) -> None:
    def plain(ctx: ToolContext, args: NoArgs) -> object:
        return work()

    async def waiting(ctx: ToolContext, args: NoArgs) -> object:
        return work()

    function = waiting if is_async else plain
    function.__name__ = "count"
    answer = await answer_of(store, tool("read", NoArgs)(function))
    assert answer.content.startswith(said)
    assert "\n" not in answer.content
    assert answer.failed
    finished = events(store, ToolFinished)[0]
    assert (finished.ok, finished.error, finished.detail) == (False, "failed", answer.content)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("three\nwords", "three\nwords"),
        ({"word": "é", "numbers": [1, 2]}, '{"word": "é", "numbers": [1, 2]}'),
        ([Count(word="a", number=1)], '[{"word": "a", "number": 1}]'),
        (Count(word="b", number=2), '{"word": "b", "number": 2}'),
        (Outcome("whole"), "whole"),
    ],
)
async def test_a_tool_returns_text_or_data(store: Store, result: object, shown: str) -> None:
    @tool("read")
    def count(ctx: ToolContext, args: NoArgs) -> object:
        """Count words."""
        return result

    answer = await answer_of(store, count)
    assert (answer.content, answer.failed) == (shown, False)


async def test_a_failure_of_the_runtime_in_a_port_is_no_failure_of_the_tool(store: Store) -> None:
    class BrokenTree(NoTree):
        async def mark(self) -> str:
            raise OSError("no space left")

    @tool("run")
    async def count(ctx: ToolContext, args: NoArgs) -> object:
        """Count words."""
        try:
            return await ctx.stage.run_tests()
        except OSError:
            return "Nothing happened."

    for called in (run_tests, count):
        with pytest.raises(OSError, match="no space left"):
            await answer_of(store, called, BrokenTree())
        assert events(store, ToolFinished) == []


async def test_outside_a_stage_no_tool_acts(tmp_path: Path) -> None:
    context = ToolContext(workspace=DiskWorkspace(tmp_path), save_output=lambda text: "saved")
    with pytest.raises(ToolFailed, match="only be done in a stage"):
        await run_tests.run(context, run_tests.parse({}))


async def test_a_cancelled_tool_answers_nothing(store: Store) -> None:
    @tool("read")
    async def count(ctx: ToolContext, args: NoArgs) -> object:
        """Count words."""
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await answer_of(store, count)
    assert events(store, ToolFinished) == []


@tool("write")
async def count_up(ctx: ToolContext, args: NoArgs) -> Outcome:
    """Add one to the number in n.txt."""
    await asyncio.sleep(0)
    file = ctx.workspace.read("n.txt")
    after = f"{int(file.text) + 1}\n".encode()
    return Outcome("Counted.", changes=(FileChange("n.txt", file.data, after),))


class WatchedDisk(DiskWorkspace):
    """A disk that notes which starts of calls are committed when it is written to, and may crash there."""

    def __init__(self, store: Store, crash: str = "") -> None:
        super().__init__(store.path.parent / "repo")
        self.store, self.crash = store, crash
        self.begun: list[Any] = []

    def apply(self, changes: Sequence[FileChange]) -> None:
        self.begun = events(self.store, ToolStarted)
        if self.crash == "before":
            raise Crash
        super().apply(changes)
        if self.crash == "after":
            raise Crash


async def run_count_up(store: Store, disk: WatchedDisk, *, resumed: bool = False) -> CallsOnce:
    model, log = CallsOnce("count_up"), TaskLog(store, Bus(), TASK, time.time)
    recorded = store.events(TASK.id)
    if resumed:
        log.state = fold(recorded)
        log.state.flow = FLOW
    tree = TaskTree(Snapshots(disk.root), lambda: log.state.first_hashes)
    await tree.begin()
    job = make_job(store, model, [count_up], log, tree, disk)
    if resumed:
        restore(job, recorded, store.contents(TASK.id))
    assert await run_flow(job) == DONE
    return model


def hash_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


async def test_what_an_async_tool_writes_is_recorded_with_its_hashes_before_it_is_written(
    store: Store,
) -> None:
    disk = WatchedDisk(store)
    model = await run_count_up(store, disk)
    assert model.answers[0].content == "Counted."
    assert (disk.root / "n.txt").read_text() == "1\n"
    (started,) = disk.begun
    assert [(one.path, one.before, one.after) for one in started.changes] == [
        ("n.txt", hash_of("0\n"), hash_of("1\n"))
    ]
    assert events(store, ToolFinished)[0].changed == ("n.txt",)


@pytest.mark.parametrize(("crash", "said"), [("before", "Counted."), ("after", "after its change was made")])
async def test_a_write_of_an_async_tool_is_made_once_whenever_the_process_dies(
    store: Store, crash: str, said: str
) -> None:
    with pytest.raises(Crash):
        await run_count_up(store, WatchedDisk(store, crash))
    disk = WatchedDisk(store)
    model = await run_count_up(store, disk, resumed=True)
    assert (disk.root / "n.txt").read_text() == "1\n"
    assert said in model.answers[0].content
