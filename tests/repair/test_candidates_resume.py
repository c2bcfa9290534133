"""A crash at every point of a run that asks for whole answers: nothing is lost, nothing written twice."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crashing_store import Crash, CrashingStore, fresh_store
from headgate import repair, run
from headgate.checks.verify import Verifier
from headgate.core.events import CandidateTried, Event, ReplyReceived, ToolStarted
from headgate.core.flow import Candidates, Flow, Stage
from headgate.core.knobs import Budget
from headgate.core.messages import Message, Reply, Request, Usage
from headgate.core.rules import Decision
from headgate.core.settings import ModelSettings, VerifyStep
from headgate.core.short_form import expand_flow
from headgate.core.state import fold
from headgate.core.task import Task
from headgate.engine.resolved import CHECK_SPECS
from headgate.engine.tree import TaskTree
from headgate.run.attempts import restore
from headgate.run.flow import run_flow
from headgate.run.job import Job
from headgate.store.log import Bus, TaskLog
from headgate.store.store import Store
from headgate.tools.base import ToolContext
from headgate.workspace.disk import DiskWorkspace
from headgate.workspace.git_repository import git
from headgate.workspace.snapshots import Snapshots

TASK = Task(id="t1", text="Make n 4.", goal="Make n 4.")
FLOW = Flow(
    name="answers",
    begin="verify",
    stages=(
        Stage(
            id="first",
            when="suspects",
            prompt="Write {path} anew.",
            candidates=Candidates(ask="file"),
            budget=Budget(turns=2, retries=0, exhausted="skip"),
        ),
        Stage(
            id="second",
            when="suspects",
            prompt="Write {path} once more.",
            candidates=Candidates(ask="file", temperature=0.8),
            budget=Budget(turns=3, retries=0, exhausted="fail"),
        ),
    ),
    checks={"verify": True},
)
ANSWERS = ["echo 0", "```sh\necho 1\n```", "  echo 1", "```sh\necho 4\n```", "echo 5", "Something broke it."]
VERDICTS = ["unchanged", "failed", "repeated", "passed"]
CHECK = 'test ! -e broken && test "$(sh calc.sh)" = 4 || { echo "calc.sh:1: not 4"; exit 1; }'


@dataclass
class Answering:
    """A model whose answer follows from how many were committed before: as if it had no memory of its own."""

    store: Store
    name: str = "answering"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        assert request.tools == ()
        assert [message.role for message in request.messages] == ["system", "user"]
        given = sum(isinstance(event.body, ReplyReceived) for event in self.store.events("t1"))
        return Reply(Message("assistant", ANSWERS[given]), Usage(10, 1))


@contextmanager
def place(top: Path) -> Iterator[Store]:
    with fresh_store(top, TASK) as store:
        git(top / "repo", "init", "-q")
        (top / "repo" / "calc.sh").write_text("echo 0\n")
        yield store


def make_job(store: Store, log: TaskLog, tree: TaskTree) -> Job:
    repo = store.path.parent / "repo"
    environment = {"PATH": os.environ["PATH"]}
    step = VerifyStep(name="check", command=CHECK, timeout=60)

    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    return Job(
        task=TASK,
        flow=expand_flow(FLOW, [], CHECK_SPECS),
        kinds={**run.KINDS, **repair.KINDS},
        log=log,
        models={None: Answering(store)},
        model_settings={None: ModelSettings(model="openai/answering")},
        tools={},
        context=ToolContext(
            workspace=DiskWorkspace(repo), save_output=lambda text: "saved", environment=environment
        ),
        verifier=Verifier([step], repo, store.path.parent / "runs", environment),
        tree=tree,
        redact=lambda text: text,
        now=time.time,
        sleep=no_sleep,
        pulse=lambda *pulse, **more: None,
    )


async def start(store: Store, appending: Any) -> Decision:
    log = TaskLog(appending, Bus(), TASK, time.time)
    tree = TaskTree(Snapshots(store.path.parent / "repo"), lambda: log.state.first_hashes)
    (store.path.parent / "baseline").write_text(await tree.begin())
    return await run_flow(make_job(store, log, tree))


async def take_up(store: Store) -> tuple[Decision, Job]:
    log = TaskLog(store, Bus(), TASK, time.time)
    events = store.events("t1")
    log.state = fold(events)
    log.state.flow = FLOW
    tree = TaskTree(Snapshots(store.path.parent / "repo"), lambda: log.state.first_hashes)
    tree.resume((store.path.parent / "baseline").read_text(), log.state.left_behind)
    job = make_job(store, log, tree)
    contents = store.contents("t1")
    restore(job, events, contents)
    return await run_flow(job), job


@dataclass
class Result:
    """What must be the same with and without a crash."""

    decision: Decision
    disk: str
    verdicts: list[str]
    endings: dict[str, str | None]
    replies: int


def result(decision: Decision, store: Store) -> Result:
    events = store.events("t1")
    state = fold(events)
    return Result(
        decision,
        (store.path.parent / "repo" / "calc.sh").read_text(),
        [event.body.verdict for event in events if isinstance(event.body, CandidateTried)],
        {path: entered.ending for path, entered in state.nodes.items() if entered.is_announced},
        state.replies,
    )


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_a_crash_at_every_commit(
    tmp_path: Path, before: bool, record_property: Callable[[str, object], None]
) -> None:
    with place(tmp_path / "whole") as store:
        counter = CrashingStore(store, commits=-1, before=before)
        whole = result(asyncio.run(start(store, counter)), store)
        commits = counter.seen
    assert whole == Result(
        Decision("advance", "done"),
        "echo 4\n",
        VERDICTS,
        {"first": "skipped", "second": "completed"},
        len(VERDICTS),
    )
    for number in range(1, commits + 1):
        with place(tmp_path / f"{number}") as store:
            with pytest.raises(Crash):
                asyncio.run(start(store, CrashingStore(store, number, before)))
            decision, job = asyncio.run(take_up(store))
            assert result(decision, store) == whole, f"crashed at commit {number}"
            assert job.context.workspace.read("calc.sh").text == "echo 4\n"
            assert not job.state.open_calls
            assert all(not transcript.messages for transcript in job.transcripts.values())
            starts = [event for event in store.events("t1") if isinstance(event.body, ToolStarted)]
            assert len(starts) <= 2
    record_property("crash: commits of whole answers cut short", commits)


class DyingAtTheWrite(CrashingStore):
    """Dies when it is on record what is about to be written, and nothing has been."""

    async def _append(self, *args: Any, **options: Any) -> list[Event]:
        events = await self.store.append(*args, **options)
        if any(isinstance(event.body, ToolStarted) for event in events):
            raise Crash
        return events


def test_somebody_changes_the_file_between_the_crash_and_the_next_run(tmp_path: Path) -> None:
    with place(tmp_path) as store:
        with pytest.raises(Crash):
            asyncio.run(start(store, DyingAtTheWrite(store, -1, before=False)))
        file = tmp_path / "repo" / "calc.sh"
        assert file.read_text() == "echo 0\n"
        file.write_text("# mine\necho 0\n")
        decision, job = asyncio.run(take_up(store))
        assert decision == Decision("advance", "done")
        assert file.read_text() == "echo 4\n"
        assert job.state.replies == len(VERDICTS)


def test_an_answer_that_no_longer_passes_is_not_written(tmp_path: Path) -> None:
    with place(tmp_path) as store:
        with pytest.raises(Crash):
            asyncio.run(start(store, DyingAtTheWrite(store, -1, before=False)))
        file = tmp_path / "repo" / "calc.sh"
        (tmp_path / "repo" / "broken").touch()
        decision, job = asyncio.run(take_up(store))
        assert decision.action == "stuck"
        assert file.read_text() == "echo 0\n"
        assert not job.state.open_calls
