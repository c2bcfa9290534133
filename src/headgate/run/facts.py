"""What checks are told about the task and about the attempt that they judge."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from headgate.core import PlanItem, StageState, path_words, show_path
from headgate.errors import ToolError
from headgate.reading import TaskDiff, find_tests
from headgate.run.baseline import was_red
from headgate.run.job import Job
from headgate.run.leaf import StageRun

MOST_LOOKED_AT = 200
MOST_NAMED = 10
"""A task that lists more files than this does not mean that each has to be read first."""


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """The facts for one check about one attempt. Nothing is looked up before a check asks."""

    run: StageRun
    check: str

    @property
    def request(self) -> str:
        return self.run.job.task.request

    @property
    def text(self) -> str:
        return self.run.job.task.text

    @property
    def is_question(self) -> bool:
        return self.run.job.task.is_question

    @property
    def tests_closed(self) -> bool:
        return self.run.job.tests_closed

    @property
    def attempt(self) -> StageState:
        return self.run.state

    @property
    def plan(self) -> Sequence[PlanItem]:
        return self.run.job.state.plan

    @property
    def was_told(self) -> bool:
        return self.run.job.state.review.was_told_once(self.check)

    async def changed_files(self) -> Sequence[str]:
        return await self.run.job.tree.changed_files()

    async def named_files(self) -> Sequence[str]:
        return await asyncio.to_thread(_named_files, self.run.job)

    async def named_tests(self) -> Sequence[str]:
        return await asyncio.to_thread(_named_tests, self.run.job)

    async def count_readable(self, most: int) -> int:
        return await asyncio.to_thread(_count_readable, self.run.job, most)

    async def diff(self) -> TaskDiff:
        return await self.run.job.tree.own_diff()

    async def was_red(self) -> bool | None:
        return await was_red(self.run.job)


def _named_files(job: Job) -> tuple[str, ...]:
    """The files that the task names and a model can read, as they are shown."""
    found: dict[str, None] = {}
    for word in path_words(job.task.request):
        with suppress(ToolError):
            file = job.context.workspace.read(word)
            if not file.is_binary:
                found[show_path(file.path)] = None
        if len(found) == MOST_NAMED:
            break
    return tuple(found)


def _named_tests(job: Job) -> tuple[str, ...]:
    """The tests that exist for what the task names, as they are shown."""
    return tuple(map(show_path, find_tests(job.task.request, list(job.context.workspace.files()))))


def _count_readable(job: Job, most: int) -> int:
    """How many files a model could read, up to `most`; in a large repository only some are looked at.

    What configures Headgate says nothing about the task.
    """
    found = 0
    for path in islice(job.context.workspace.files(), MOST_LOOKED_AT):
        if path in job.task.config_files:
            continue
        with suppress(ToolError):
            found += not job.context.workspace.read(path).is_binary
        if found >= most:
            break
    return found
