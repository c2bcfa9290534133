"""Running the project's own checks in copies of the tree: a change that is tried, or the task's start."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from headgate.checks import StepRun, Verification, Verifier, unless_cut_short
from headgate.core import (
    BaselineVerified,
    Broken,
    Comparison,
    Fail,
    Pass,
    VerifyStep,
    clean_text,
    compare,
    line_marks,
)
from headgate.process import uninterrupted
from headgate.protect import Restored, protected_while
from headgate.reading import MAX_FAILURES
from headgate.run.job import Job
from headgate.scouts import CoverageByTest, measuring
from headgate.workspace import CopyImpossible, FileChange, tree_copy

PATIENCE = 5.0
"""A step may take so many times as long as it took before: what takes longer does not end."""
TRIAL_SECONDS = 10.0
"""A trial may take so long in any case."""


@dataclass(frozen=True)
class Trials:
    """Copies of one task's tree, and the check in them."""

    job: Job
    least: float = TRIAL_SECONDS
    """A trial may take so long in any case, in seconds."""
    quiet: bool = False
    """People who watch are not shown what the check prints: something else goes on meanwhile."""

    @cached_property
    def root(self) -> Path:
        return Path(os.path.realpath(self.job.context.workspace.root))

    @asynccontextmanager
    async def verifier(
        self, changes: Sequence[FileChange] = (), *, protect: bool = True
    ) -> AsyncIterator[tuple[Path, Verifier]]:
        """A copy with these changes, and the verifier that runs in it; its logs go where others do.

        Without `protect`, somebody else already watches the protected files. CopyImpossible if there can be
        no such copy.
        """
        job, own = self.job, self.job.verifier
        assert own is not None
        ignored = await asyncio.to_thread(lambda: job.ignored)
        restored: list[Restored] = []
        copy = tree_copy(self.root, ignored, changes)
        tree = await uninterrupted(asyncio.to_thread(copy.__enter__))
        try:
            inside = tree / Path(os.path.realpath(own.directory)).relative_to(self.root)
            # An installed package may lead to the tree itself; what is on Python's path comes before that.
            folders = dict.fromkeys([inside, inside / "src", tree, tree / "src"])
            places = [*map(str, folders), own.environment.get("PYTHONPATH", "")]
            environment = {
                **own.environment,
                "PYTHONPATH": os.pathsep.join(filter(None, places)),
                # Two answers of one length, tried within a second, look the same to Python's cache.
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            async with protected_while(job.context.protected if protect else None, restored):
                sandbox = own.sandbox and own.sandbox.in_copy(tree)
                yield (
                    tree,
                    replace(own, directory=inside, environment=environment, owner=self.root, sandbox=sandbox),
                )
        finally:
            await uninterrupted(asyncio.to_thread(copy.__exit__, None, None, None))

    async def verify(self, changes: Sequence[FileChange]) -> Verification:
        """What the check says to these changes. Nothing of the run is kept."""
        async with self.verifier(changes) as (_, verifier):
            return await self._run(verifier)

    @asynccontextmanager
    async def after_step(self, step: VerifyStep, changes: Sequence[FileChange]) -> AsyncIterator[Path]:
        """A copy with these changes, in which a step has run."""
        async with self.verifier(changes) as (tree, verifier):
            await self._run(replace(verifier, steps=(step,)))
            yield tree

    async def measure(self) -> tuple[Verification, CoverageByTest]:
        """What the check says to the tree as it is, and which lines each Python test runs."""
        async with self.verifier() as (tree, verifier):
            with measuring(tree, verifier.environment, verifier.sandbox) as measured:
                found = await self._run(
                    replace(verifier, environment=measured.environment, sandbox=measured.sandbox)
                )
                return found, await asyncio.to_thread(measured.read)

    async def _run(self, verifier: Verifier) -> Verification:
        steps = tuple(map(self._impatient, verifier.steps))
        with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as runs:
            verifier = replace(verifier, runs=Path(runs), steps=steps)
            if self.quiet:
                verifier = replace(verifier, on_step=lambda step: None, on_line=lambda line: None)
            found = await verifier.run("trial")
            if isinstance(found.verdict, Pass):
                found = await asyncio.to_thread(unless_cut_short, found, Path(runs) / "trial")
            return unless_left_out(self.job, found)

    def _impatient(self, step: VerifyStep) -> VerifyStep:
        opening = self.job.state.answers.opening
        took = sum(ran.seconds for ran in opening.steps if ran.name == step.name) if opening else 0.0
        return step.model_copy(update={"timeout": min(step.timeout, max(self.least, PATIENCE * took))})


def unless_left_out(job: Job, found: Verification) -> Verification:
    """A run that passed does not count if it skips tests that the task's first run did not.

    Only if both had as many tests: with `-x`, the first one ended before it came to all of them.
    """
    opening = job.state.answers.opening
    before = {(step.name, step.tests): step.left_out for step in opening.steps} if opening else {}
    for step in found.steps:
        more = step.left_out - before.get((step.name, step.tests), step.left_out)
        if more > 0 and isinstance(found.verdict, Pass):
            tests = "1 test is" if more == 1 else f"{more} tests are"
            reason = f'step "{step.name}" passes, but {tests} skipped that ran before'
            return replace(found, verdict=Fail("verify_failed", reason))
    return found


LEAST_SECONDS = 30.0
MOST_SECONDS = 120.0
"""A verification that took longer is not run again only to find out whether it was red at the start."""


@dataclass
class RedBefore:
    """Holds each step that fails against the same step at the task's start, which is run once in a task."""

    job: Job
    tree: str
    """The git tree that is being verified."""
    ran: list[StepRun] = field(default_factory=list)
    looks: list[BaselineVerified] = field(default_factory=list)
    """What was found out about the start in this run."""
    found: Comparison = field(default_factory=Comparison)
    """What the last failed step shows."""
    same: dict[str, None] = field(default_factory=dict)
    """All that failed before as well."""

    async def hear(self, ran: StepRun) -> Literal["stop", "forgive"]:
        """Says what follows a failed step; see `AfterStep`."""
        self.ran.append(ran)
        if not isinstance(ran.verdict, Fail) or not looks_at_start(self.job):
            return "stop"
        known = (look for look in self.looks if ran.step.name in look.steps)
        start = self.job.state.runs.of(ran.step.name) or next(known, None)
        if start is None:
            start = await self._look(ran)
            self.looks.append(start)
        assert self.job.verifier is not None
        marks = line_marks(ran.tail, str(self.job.verifier.directory))
        names = _names(self.job, ran)
        self.found = compare(ran.result, names, marks, len(ran.failures) < MAX_FAILURES, start)
        self.same.update(dict.fromkeys(self.found.same))
        return "forgive" if self.found.nothing_new and accepts_red_before(self.job) else "stop"

    def record(self, found: Verification) -> None:
        """Puts what was found out about the start into the log, with what the verification came to."""
        for look in self.looks:
            self.job.log.record("", 0, look)
        names = tuple(step.name for step in found.steps)
        unchanged = self.tree == self.job.state.baseline
        if unchanged and isinstance(found.verdict, Pass) and not found.forgiven:  # nothing was changed yet
            self.job.log.record("", 0, BaselineVerified(steps=names))

    async def _look(self, ran: StepRun) -> BaselineVerified:
        assert self.job.verifier is not None
        if self.tree == self.job.state.baseline:  # nothing has changed: this is what it came to
            steps = tuple(each.step.name for each in self.ran)
            return _describe(self.job, steps, ran, str(self.job.verifier.directory))
        steps_now = [
            replace_timeout(each.step, each.result.seconds)
            for each in self.ran
            if each is ran or isinstance(each.verdict, Pass)
        ]
        return await verify_start(self.job, steps_now, protect=False)


def accepts_red_before(job: Job) -> bool:
    """Whether what failed before may go on failing; never where the task is about the failing check."""
    configured = job.state.config.get("verification", {}).get("accept_red_before", False)
    strict = any(leaf.settings.get("strict") for leaf in job.flow.leaves() if leaf.kind == "verify")
    return bool(configured) and not strict


def looks_at_start(job: Job) -> bool:
    """Whether steps may be run on the tree as it was at the task's start."""
    return bool(job.state.config.get("verification", {}).get("red_before", True))


async def was_red(job: Job) -> bool | None:
    """Whether a step that passes now failed at the task's start; None if that cannot be found out.

    Only where it is not known yet are the steps run there, and only if they take a reasonable time.
    """
    assert job.verifier is not None
    runs, took = job.state.runs, {step.name: step.seconds for step in job.state.last_steps}
    steps = [
        replace_timeout(step, took.get(step.name, 0.0))
        for step in job.verifier.steps
        if step.name not in runs.forgiven
    ]
    names = [step.name for step in steps]
    if runs.was_red():
        return True
    if steps and runs.was_green(names):
        return False
    if not steps or sum(took.values()) > MOST_SECONDS or not looks_at_start(job):
        return None
    job.log.record("", 0, await verify_start(job, steps))
    await job.log.commit()
    return True if runs.was_red() else False if runs.was_green(names) else None


async def verify_start(job: Job, steps: Sequence[VerifyStep], *, protect: bool = True) -> BaselineVerified:
    """Runs steps in a copy of the tree as it was at the task's start. No log of it is kept.

    People who watch are told that it is this tree: what the steps print about it is no news of the task.
    """
    assert job.verifier is not None
    job.pulse("start")
    names, own_steps = tuple(step.name for step in steps), job.verifier.steps
    changes = await job.tree.way_back()
    if changes is None:
        return BaselineVerified(steps=names, problem="a link or a submodule has changed")
    seen: list[StepRun] = []

    async def hear(ran: StepRun) -> Literal["stop"]:
        seen.append(ran)
        return "stop"

    try:
        with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as runs:
            async with Trials(job).verifier(changes, protect=protect) as (_, verifier):
                verifier = replace(
                    verifier,
                    runs=Path(runs),
                    steps=tuple(steps),
                    on_step=lambda step: job.pulse("start", step),
                    on_line=lambda line: None,
                )
                found = await verifier.run("start", hear)
                directory = str(verifier.directory)
    except (CopyImpossible, OSError) as error:
        return BaselineVerified(steps=names, problem=job.redact(clean_text(str(error))))
    match found.verdict:
        case Pass():
            return BaselineVerified(steps=names)
        case Broken(reason):
            return BaselineVerified(steps=names, problem=job.redact(clean_text(reason)))
        case _ if seen[-1].result.timed_out and seen[-1].step not in own_steps:
            return BaselineVerified(steps=names, problem=f'step "{seen[-1].step.name}" took too long')
        case _:
            return _describe(job, names, seen[-1], directory)


def replace_timeout(step: VerifyStep, seconds: float) -> VerifyStep:
    """The step with less patience: what takes much longer than it does now need not end."""
    return step.model_copy(update={"timeout": min(step.timeout, max(LEAST_SECONDS, PATIENCE * seconds))})


def _describe(job: Job, steps: tuple[str, ...], ran: StepRun, directory: str) -> BaselineVerified:
    return BaselineVerified(
        steps=steps,
        failed=ran.step.name,
        exit_code=ran.result.exit_code,
        failing=_names(job, ran),
        lines=line_marks(ran.tail, directory),
    )


def _names(job: Job, ran: StepRun) -> tuple[str, ...]:
    return tuple(job.redact(clean_text(failure.name)) for failure in ran.failures)
