"""A crash at every commit of a run that tries small changes: the same change is written, once."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crashing_store import Crash, CrashingStore, fresh_store
from headgate import repair, run
from headgate.checks.verify import Verifier
from headgate.core.events import CandidateTried, ToolFinished, ToolStarted
from headgate.core.flow import Flow, Stage
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

TASK = Task(id="t1", text="Fix it.", goal="Fix it.")
SOURCE = "def is_free(total, limit):\n    return total > limit\n"
FIXED = SOURCE.replace(">", ">=")
TEST = """\
import unittest
from cart import is_free

class IsFree(unittest.TestCase):
    def test_one(self):
        self.assertTrue(is_free(5, 5))

    def test_two(self):
        self.assertTrue(is_free(7, 7))

    def test_below(self):
        self.assertFalse(is_free(4, 5))
"""
FLOW = Flow(
    name="changes",
    begin="verify",
    stages=(
        Stage(
            id="changes",
            when="suspects",
            kind="mutate",
            prompt="Which? {changes}",
            settings={"trials": 4, "slow": 60.0},
            budget=Budget(turns=1, retries=0, exhausted="fail"),
        ),
    ),
    checks={"verify": True},
)


@dataclass
class Choosing:
    """Always chooses the first."""

    name: str = "choosing"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        assert request.tools == ()
        return Reply(Message("assistant", "1"), Usage(10, 1))


@contextmanager
def place(top: Path) -> Iterator[Store]:
    with fresh_store(top, TASK) as store:
        git(top / "repo", "init", "-q")
        (top / "repo" / "cart.py").write_text(SOURCE)
        (top / "repo" / "test_cart.py").write_text(TEST)
        yield store


def make_job(store: Store, log: TaskLog, tree: TaskTree) -> Job:
    repo = store.path.parent / "repo"
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    step = VerifyStep(name="check", command="python3 -m unittest", timeout=60)

    async def no_sleep(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")

    return Job(
        task=TASK,
        flow=expand_flow(FLOW, [], CHECK_SPECS),
        kinds={**run.KINDS, **repair.KINDS},
        log=log,
        models={None: Choosing()},
        model_settings={None: ModelSettings(model="openai/choosing")},
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
    restore(job, events, store.contents("t1"))
    return await run_flow(job), job


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
def test_a_crash_at_every_commit(tmp_path: Path, before: bool) -> None:
    with place(tmp_path / "whole") as store:
        counter = CrashingStore(store, commits=-1, before=before)
        assert asyncio.run(start(store, counter)) == Decision("advance", "done")
        assert (tmp_path / "whole" / "repo" / "cart.py").read_text() == FIXED
    for number in range(1, counter.seen + 1):
        with place(tmp_path / f"{number}") as store:
            with pytest.raises(Crash):
                asyncio.run(start(store, CrashingStore(store, number, before)))
            decision, job = asyncio.run(take_up(store))
            assert decision == Decision("advance", "done"), f"crashed at commit {number}"
            assert (tmp_path / f"{number}" / "repo" / "cart.py").read_text() == FIXED
            assert not job.state.open_calls
            bodies = [event.body for event in store.events("t1")]
            (tried,) = [body for body in bodies if isinstance(body, CandidateTried)]
            assert (tried.verdict, tried.origin) == ("passed", "mutation")
            assert len([body for body in bodies if isinstance(body, ToolStarted)]) <= 2
            assert [body.ok for body in bodies if isinstance(body, ToolFinished)][-1]
