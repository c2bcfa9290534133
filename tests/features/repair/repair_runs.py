"""Whole runs of flows of answers and small changes on a real store, for tests of what a crash leaves."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crashing_store import fresh_store
from headgate import run
from headgate.checks import AfterStep, Verification, Verifier, stop
from headgate.core import (
    Budget,
    Decision,
    Flow,
    Model,
    ModelSettings,
    Pass,
    Stage,
    Task,
    VerifyRuns,
    VerifyStep,
    expand_flow,
    fold,
)
from headgate.engine import CHECK_SPECS
from headgate.engine.tree import TaskTree
from headgate.features import repair
from headgate.log import Bus, Store, TaskLog
from headgate.run import Job, restore, run_flow
from headgate.tools import ToolContext
from headgate.tree import DiskWorkspace, Snapshots, git
from jobs import job_of

SOURCE = "def is_free(total, limit):\n    return total > limit\n"
MUTATED = SOURCE.replace(">", ">=")
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
"""A small program, the small change that corrects it, and its tests: two of them fail."""


def mutate_flow(prompt: str = "", **settings: object) -> Flow:
    """One stage that tries small changes, however slow the machine is."""
    changes = Stage(
        id="changes",
        when="suspects",
        kind="mutate",
        prompt=prompt,
        settings={"slow": 60.0, "longest": 60.0, **settings},
        budget=Budget(turns=1, retries=0, exhausted="fail"),
    )
    return Flow(name="changes", begin="verify", stages=(changes,), checks={"verify": True})


@dataclass(frozen=True, slots=True)
class CountingVerifier(Verifier):
    """Keeps the verdict of each run that has ended."""

    verdicts: list[bool] = field(default_factory=list)
    """Whether each has passed."""
    after_run: Callable[[], Awaitable[None]] | None = None
    """Called after each, before anybody else hears of it."""

    async def run(self, run_id: str, after_step: AfterStep = stop) -> Verification:
        found = await Verifier.run(self, run_id, after_step)
        self.verdicts.append(isinstance(found.verdict, Pass))
        if self.after_run:
            await self.after_run()
        return found


@dataclass(frozen=True)
class Case:
    """A task with its repository, its check, its flow and its model."""

    flow: Flow
    files: Mapping[str, str]
    check: str
    model: Callable[[Store], Model]
    workspace: Callable[[Path], DiskWorkspace] = DiskWorkspace
    verdicts: list[bool] = field(default_factory=list)
    """Whether each run of the check has passed."""
    after_run: Callable[[], Awaitable[None]] | None = None
    """Called after each run of the check."""
    task: Task = field(default_factory=lambda: Task(id="t1", text="Fix it.", goal="Fix it."))

    @contextmanager
    def place(self, top: Path) -> Iterator[Store]:
        """A store beside the repository of the task."""
        with fresh_store(top, self.task) as store:
            git(top / "repo", "init", "-q")
            for name, text in self.files.items():
                (top / "repo" / name).write_text(text)
            yield store

    def job(self, store: Store, log: TaskLog, tree: TaskTree) -> Job:
        """What a run needs."""
        repo = store.path.parent / "repo"
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        steps = [VerifyStep(name="check", command=self.check, timeout=60)]

        async def no_sleep(seconds: float) -> None:
            raise AssertionError(f"waited {seconds} s")

        return job_of(
            task=self.task,
            flow=expand_flow(self.flow, [], CHECK_SPECS),
            kinds=run.KINDS | {kind.name: kind for kind in repair.FEATURE.kinds},
            log=log,
            models={None: self.model(store)},
            model_settings={None: ModelSettings(model="openai/answering")},
            tools={},
            context=ToolContext(
                workspace=self.workspace(repo), save_output=lambda text: "saved", environment=environment
            ),
            verifier=CountingVerifier(
                steps,
                repo,
                store.path.parent / "runs",
                environment,
                verdicts=self.verdicts,
                after_run=self.after_run,
            ),
            tree=tree,
            redact=lambda text: text,
            now=time.time,
            sleep=no_sleep,
            pulse=lambda *pulse, **more: None,
        )

    async def start(self, store: Store, appending: Any) -> Decision:
        """Runs the flow on a store that may be one of a process that dies."""
        log = TaskLog(appending, Bus(), self.task, time.time)
        tree = TaskTree(Snapshots(store.path.parent / "repo"), lambda: log.state.first_hashes)
        (store.path.parent / "baseline").write_text(await tree.begin())
        return await run_flow(self.job(store, log, tree))

    async def take_up(self, store: Store) -> tuple[Decision, Job]:
        """Goes on after a crash."""
        log = TaskLog(store, Bus(), self.task, time.time)
        events = store.events("t1")
        log.state = fold(events)
        log.state.flow = self.flow
        tree = TaskTree(Snapshots(store.path.parent / "repo"), lambda: log.state.first_hashes)
        tree.resume((store.path.parent / "baseline").read_text(), log.state[VerifyRuns].left_behind)
        job = self.job(store, log, tree)
        restore(job, events, store.contents("t1"))
        return await run_flow(job), job
