"""A crash at every point of a run: the run that takes it up reaches the same tree, state and verdict."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crashing_store import Crash, CrashingStore, fresh_store
from headgate.checks import Verifier
from headgate.core import (
    Budget,
    Decision,
    Flow,
    Message,
    Model,
    ModelSettings,
    Plan,
    Reply,
    Request,
    Stage,
    State,
    Task,
    ToolCall,
    ToolScope,
    Usage,
    VerifyRuns,
    VerifyStep,
    ViewPolicy,
    expand_flow,
    fold,
)
from headgate.engine import CHECK_SPECS
from headgate.engine.tree import TaskTree
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, restore, run_flow
from headgate.tools import ToolContext, edit_file, ls, plan_tasks, read_file, shell, write_file
from headgate.tree import DiskWorkspace, Snapshots, git
from jobs import job_of

TASK = Task(id="t1", text="Make n 4.", goal="Make n 4.")
SHARED = ViewPolicy(transcript="parent")
WINDOW = 40_000
ASIDE = Usage(prompt=2 * WINDOW)
"""They say nothing of the next request's size: taken for it, they would have the view cut."""
FLOW = Flow(
    name="test",
    stages=(
        Stage(id="look", view=SHARED, tools=ToolScope(allow=("read",)), checks={"files_read": 1}),
        Stage(id="plan", view=SHARED, advance="rules", checks={"plan_written": True}, needs=("look",)),
        Stage(
            id="work",
            view=SHARED,
            checks={"code_changed": True},
            budget=Budget(turns=6, verify_loops=6, replan_every=2),
            allow_missing_done=True,
            needs=("plan",),
        ),
    ),
    checks={"verify": True},
)
STEPS: list[list[tuple[str, dict[str, Any]]] | str] = [
    [("write_file", {"path": "n.txt", "content": "9\n"})],
    [("stage_done", {"summary": "Too early."})],
    [("ls", {}), ("read_file", {"path": "n.txt"})],
    [("stage_done", {"summary": "Looked."})],
    "Let me think about a plan.",
    [("plan_tasks", {"action": "create", "tasks": [{"id": "1", "description": "Change n.txt"}]})],
    [
        ("edit_file", {"path": "n.txt", "old": "0", "new": "1"}),
        ("write_file", {"path": "new.txt", "content": "x\n"}),
    ],
    [("shell", {"command": "cp n.txt copy.txt"})],
    [("stage_done", {"summary": "n is 1."})],
    [("edit_file", {"path": "n.txt", "old": "1", "new": "2"}), ("stage_done", {"summary": "n is 2."})],
    [("plan_tasks", {"action": "create", "tasks": [{"id": "1", "description": "Change it twice"}]})],
    [("edit_file", {"path": "n.txt", "old": "2", "new": "3"})],
    [("edit_file", {"path": "n.txt", "old": "3", "new": "4"})],
    "Now n is 4.",
]


STEP_FLOW = Flow(
    name="steps",
    stages=(
        Stage(id="plan", advance="rules", checks={"plan_written": True}),
        Stage(
            id="step",
            foreach="plan",
            prompt="Do {item.description}.",
            checks={"code_changed": True},
            budget=Budget(turns=2, retries=0, verify_loops=3, replan_every=0),
            needs=("plan",),
        ),
    ),
    checks={"verify": True},
)
CONVERSATIONS: dict[str, list[list[tuple[str, dict[str, Any]]] | str]] = {
    "Stage: PLAN": [
        [
            (
                "plan_tasks",
                {
                    "action": "create",
                    "tasks": [{"id": "1", "description": "nothing"}, {"id": "2", "description": "all"}],
                },
            )
        ]
    ],
    "Do nothing.": [[("ls", {})], "I cannot.", "No.", "No."],
    "Step 1 of the plan failed": [
        [("read_file", {"path": "n.txt"})],
        [
            (
                "plan_tasks",
                {
                    "action": "create",
                    "tasks": [{"id": "1", "description": "half"}, {"id": "3", "description": "rest"}],
                },
            )
        ],
    ],
    "Do half.": [
        [("edit_file", {"path": "n.txt", "old": "0", "new": "2"})],
        [("stage_done", {"summary": "Half."})],
    ],
    "Do rest.": [
        [
            ("edit_file", {"path": "n.txt", "old": "2", "new": "3"}),
            ("plan_tasks", {"action": "update", "tasks": [{"id": "3", "status": "completed"}]}),
        ],
        [("stage_done", {"summary": "Rest."})],
    ],
    "Verification failed": [
        [("edit_file", {"path": "n.txt", "old": "3", "new": "4"}), ("stage_done", {"summary": "n is 4."})]
    ],
}


@dataclass
class Worker:
    """A model that goes through its steps, and repeats one that it is told was interrupted."""

    name: str = "worker"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        said = [message for message in request.messages if message.role == "assistant"]
        lost = "not run again" in request.messages[-1].content
        number = int(said[-1].content.split()[1]) + (not lost) if said else 0
        step = STEPS[number]
        text = f"Step {number} {step if isinstance(step, str) else ''}".strip()
        called = enumerate(() if isinstance(step, str) else step)
        ids = f"{number}_{len(request.messages)}"
        calls = tuple(ToolCall(f"c{ids}_{i}", name, json.dumps(args)) for i, (name, args) in called)
        return Reply(Message("assistant", text, calls), Usage(prompt=10, completion=1), aside=ASIDE)


@dataclass
class Stepper:
    """A model with one script for each conversation, which it knows by what it was told first."""

    name: str = "stepper"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        told = "\n".join(message.content for message in request.messages if message.role == "user")
        steps = next(steps for mark, steps in reversed(CONVERSATIONS.items()) if mark in told)
        number = sum(message.role == "assistant" for message in request.messages)
        step = steps[number]
        called = enumerate(() if isinstance(step, str) else step)
        calls = tuple(ToolCall(f"c{number}_{i}", name, json.dumps(args)) for i, (name, args) in called)
        return Reply(Message("assistant", step if isinstance(step, str) else "", calls), Usage(10, 1))


@dataclass(frozen=True)
class Case:
    """A flow, a model, and what they come to."""

    flow: Flow
    model: Model
    tree: dict[str, str]
    counted: tuple[int, int, int]


CASES = {
    "debugging": Case(FLOW, Worker(), {"n.txt": "4\n", "new.txt": "x\n", "copy.txt": "1\n"}, (2, 1, 2)),
    "steps": Case(STEP_FLOW, Stepper(), {"n.txt": "4\n"}, (1, 1, 3)),
}


@contextmanager
def place(tmp_path: Path) -> Iterator[Store]:
    repo = tmp_path / "repo"
    with fresh_store(tmp_path, TASK) as store:
        git(repo, "init", "-q")
        (repo / "n.txt").write_text("0\n")
        (repo / ".headgate").mkdir()
        (repo / ".gitignore").write_text(".headgate\n")
        yield store


TOOLS = (ls, read_file, write_file, edit_file, shell, plan_tasks)


def make_job(case: Case, store: Store, log: TaskLog, tree: TaskTree) -> Job:
    repo = store.path.parent / "repo"
    step = VerifyStep(name="check", command='test "$(cat n.txt)" = 4', timeout=60)
    environment = {"PATH": os.environ["PATH"]}

    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    return job_of(
        task=TASK,
        flow=expand_flow(case.flow, [tool.spec for tool in TOOLS], CHECK_SPECS),
        log=log,
        models={None: case.model},
        model_settings={None: ModelSettings(model="openai/worker", context_window=WINDOW)},
        tools={tool.name: tool for tool in TOOLS},
        context=ToolContext(
            workspace=DiskWorkspace(repo),
            save_output=lambda text: "saved",
            environment=environment,
        ),
        verifier=Verifier([step], repo, store.path.parent / "runs", environment),
        tree=tree,
        redact=lambda text: text,
        now=time.time,
        sleep=no_sleep,
        pulse=lambda *pulse, **more: None,
    )


async def start(case: Case, store: Store, appending: Any) -> Decision:
    log = TaskLog(appending, Bus(), TASK, time.time)
    tree = TaskTree(Snapshots(store.path.parent / "repo"), lambda: log.state.first_hashes)
    (store.path.parent / "baseline").write_text(await tree.begin())
    return await run_flow(make_job(case, store, log, tree))


async def take_up(case: Case, store: Store, appending: Any) -> Decision:
    log = TaskLog(appending, Bus(), TASK, time.time)
    events = store.events("t1")
    log.state = fold(events)
    log.state.flow = case.flow
    tree = TaskTree(Snapshots(store.path.parent / "repo"), lambda: log.state.first_hashes)
    tree.resume((store.path.parent / "baseline").read_text(), log.state[VerifyRuns].left_behind)
    job = make_job(case, store, log, tree)
    restore(job, events, store.contents("t1"))
    return await run_flow(job)


@dataclass
class Result:
    """What must be the same with and without a crash."""

    decision: Decision
    tree: dict[str, str]
    endings: dict[str, str | None]
    counted: tuple[int, int, int]
    plan: tuple[str, ...]
    failures: list[tuple[str, str]]


def result(decision: Decision, store: Store) -> Result:
    repo = store.path.parent / "repo"
    state: State = fold(store.events("t1"))
    tree = {path.name: path.read_text() for path in sorted(repo.iterdir()) if path.is_file()}
    return Result(
        decision,
        tree,
        {path: entered.ending for path, entered in state.nodes.items() if entered.is_announced},
        (state[VerifyRuns].loops, state[Plan].replans, state[Plan].version),
        tuple(item.description for item in state[Plan].items),
        [(failure.reason, failure.fix) for failure in state[VerifyRuns].failures],
    )


def kinds(store: Store, skip: Callable[[str], bool] = lambda kind: False) -> list[str]:
    return [event.kind for event in store.events("t1") if not skip(event.kind)]


@pytest.mark.parametrize(("name", "before"), [("debugging", False), ("steps", True)])
def test_a_crash_at_every_sort_of_commit(
    tmp_path: Path, name: str, before: bool, record_property: Callable[[str, object], None]
) -> None:
    case = CASES[name]
    with place(tmp_path / "whole") as store:
        counter = CrashingStore(store, commits=-1, before=before)
        whole = result(asyncio.run(start(case, store, counter)), store)
        story, points = kinds(store), counter.points()
    assert whole.decision == Decision("advance", "done")
    assert whole.tree == {".gitignore": ".headgate\n", **case.tree}
    assert whole.counted == case.counted
    for number in points:
        with place(tmp_path / f"{number}") as store:
            with pytest.raises(Crash):
                asyncio.run(start(case, store, CrashingStore(store, number, before)))
            again = result(asyncio.run(take_up(case, store, store)), store)
            assert again == whole, f"crashed at commit {number}"
            check_story(kinds(store), story)
    record_property("crash: commits cut short in process", len(points))


def check_story(with_crash: list[str], without: list[str]) -> None:
    """No event is lost or doubled, but for a verification or an interrupted call that is done again."""
    extra = list(with_crash)
    for kind in without:
        assert kind in extra, f"{kind} was lost"
        extra.remove(kind)
    allowed = {"verify_started", "step_failed", "reply_received", "tool_started", "tool_finished"}
    assert set(extra) <= allowed, extra
    assert extra.count("reply_received") <= 1
