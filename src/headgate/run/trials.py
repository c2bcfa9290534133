"""Running the project's own checks in copies of the tree: a change that is tried, or the task's start."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from headgate.checks import CoverageByTest, StepRun, Verification, Verifier, measuring, unless_cut_short
from headgate.core import (
    AnswersTried,
    BaselineVerified,
    Broken,
    Fail,
    Pass,
    StepResult,
    VerifyRuns,
    VerifyStep,
    clean_text,
)
from headgate.first_use import dataclass
from headgate.guard import Restored, protected_while
from headgate.process import uninterrupted
from headgate.reading import MAX_FAILURES
from headgate.run.job import Job
from headgate.run.red_before import Comparison, compare, line_marks
from headgate.tree import CopyImpossible, FileChange, tree_copy

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
        return Path(os.path.realpath(self.job.place.context.workspace.root))

    @asynccontextmanager
    async def verifier(
        self, changes: Sequence[FileChange] = (), *, protect: bool = True
    ) -> AsyncIterator[tuple[Path, Verifier]]:
        """A copy with these changes, and the verifier that runs in it; its logs go where others do.

        Without `protect`, somebody else already watches the protected files. CopyImpossible if there can be
        no such copy.
        """
        job, own = self.job, self.job.place.verifier
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
            async with protected_while(job.place.context.protected if protect else None, restored):
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
        opening = self.job.state[AnswersTried].opening
        took = sum(ran.seconds for ran in opening.steps if ran.name == step.name) if opening else 0.0
        return step.model_copy(update={"timeout": min(step.timeout, max(self.least, PATIENCE * took))})


def unless_left_out(job: Job, found: Verification, started: Sequence[BaselineVerified] = ()) -> Verification:
    """A run that passed does not count if it skips tests that were not skipped at the task's start.

    What is not known of the start is held against the first run of the task. `started` is what was just
    found out about the start.
    """
    runs = job.state[VerifyRuns]
    known = {result.name: result for look in started for result in look.results}
    for step in found.steps:
        before = known.get(step.name) or runs.counted_at_start(step.name) or runs.first.get(step.name)
        more = _newly_skipped(step, before) if before else 0
        if more and isinstance(found.verdict, Pass):
            tests = "1 test is" if more == 1 else f"{more} tests are"
            reason = f'step "{step.name}" passes, but {tests} skipped that ran before'
            return replace(found, verdict=Fail("verify_failed", reason))
    return found


def _newly_skipped(step: StepResult, before: StepResult) -> int:
    """How many tests are skipped that were not.

    A run that failed may have ended before it came to all of its tests. It then tells only how many ran.
    """
    more = step.left_out - before.left_out
    is_whole = step.tests <= before.tests or before.passed or before.told_all
    fewer_ran = step.tests - step.left_out < before.tests - before.left_out
    return more if more > 0 and (is_whole or fewer_ran) else 0


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
        start = self._known(ran.step.name) or await self._look(ran)
        assert self.job.place.verifier is not None
        marks = line_marks(ran.tail, str(self.job.place.verifier.directory))
        names = _names(self.job, ran)
        self.found = compare(ran.result, names, marks, len(ran.failures) < MAX_FAILURES, start)
        self.same.update(dict.fromkeys(self.found.same))
        return "forgive" if self.found.nothing_new and accepts_red_before(self.job) else "stop"

    async def count_skips(self, found: Verification) -> Verification:
        """See `unless_left_out`. Where tests are skipped, it is found out how many were at the start.

        In a benchmark, a step that skips all its tests does not pass, whatever it did at the start.
        """
        if not isinstance(found.verdict, Pass):
            return found
        idle = (step.name for step in found.steps if 0 < step.tests == step.left_out)
        if protects_all(self.job) and (name := next(idle, "")):
            reason = f'step "{name}" ran no tests: all of them are skipped'
            return replace(found, verdict=Fail("verify_failed", reason))
        if self.tree == self.job.state.baseline:
            return found
        counted = {result.name for look in self.looks for result in look.results}
        unknown = [
            step.name
            for step in found.steps
            if step.left_out
            and step.name not in counted
            and not self.job.state[VerifyRuns].counted_at_start(step.name)
        ]
        if unknown and (looks_at_start(self.job) or protects_all(self.job)):
            until = max(index for index, ran in enumerate(self.ran) if ran.step.name in unknown)
            steps = [replace_timeout(ran.step, ran.result.seconds) for ran in self.ran[: until + 1]]
            self.looks += await verify_start(self.job, steps, protect=False)
        return unless_left_out(self.job, found, self.looks)

    def record(self, found: Verification) -> None:
        """Puts what was found out about the start into the log, with what the verification came to."""
        for look in self.looks:
            self.job.log.record("", 0, look)
        names = tuple(step.name for step in found.steps)
        unchanged = self.tree == self.job.state.baseline
        if unchanged and isinstance(found.verdict, Pass) and not found.forgiven:  # nothing was changed yet
            self.job.log.record("", 0, BaselineVerified(steps=names, results=found.steps))

    def _known(self, step: str) -> BaselineVerified | None:
        """What is known about a step at the start."""
        here = (look for look in self.looks if step in look.steps)
        return self.job.state[VerifyRuns].of(step) or next(here, None)

    async def _look(self, ran: StepRun) -> BaselineVerified:
        """Finds out what a step comes to at the start, behind the steps that it stands behind now."""
        assert self.job.place.verifier is not None
        if self.tree == self.job.state.baseline:  # nothing has changed: this is what it came to
            self.looks.append(_describe(self.job, ran, str(self.job.place.verifier.directory)))
        else:
            steps = [replace_timeout(each.step, each.result.seconds) for each in self.ran]
            self.looks += await verify_start(self.job, steps, protect=False)
        known = self._known(ran.step.name)
        assert known is not None
        return known


def accepts_red_before(job: Job) -> bool:
    """Whether what failed before may go on failing; never where the task is about the failing check."""
    configured = job.state.config.get("verification", {}).get("accept_red_before", False)
    strict = any(leaf.settings.get("strict") for leaf in job.flow.leaves() if leaf.kind == "verify")
    return bool(configured) and not strict


def protects_all(job: Job) -> bool:
    """Whether no test may be changed or added, as in a benchmark."""
    return (job.task.protect_tests or job.state.config.get("protect_tests")) == "all"


def looks_at_start(job: Job) -> bool:
    """Whether steps may be run on the tree as it was at the task's start."""
    return bool(job.state.config.get("verification", {}).get("red_before", True))


async def was_red(job: Job) -> bool | None:
    """Whether a step that passes now failed at the task's start; None if that cannot be found out.

    Only where it is not known yet are the steps run there, and only if they take a reasonable time.
    """
    assert job.place.verifier is not None
    runs, took = job.state[VerifyRuns], {step.name: step.seconds for step in job.state[VerifyRuns].last_steps}
    steps = [
        replace_timeout(step, took.get(step.name, 0.0))
        for step in job.place.verifier.steps
        if step.name not in runs.forgiven
    ]
    names = [step.name for step in steps]
    if runs.was_red():
        return True
    if steps and runs.was_green(names):
        return False
    if not steps or sum(took.values()) > MOST_SECONDS or not looks_at_start(job):
        return None
    for look in await verify_start(job, steps):
        job.log.record("", 0, look)
    await job.log.commit()
    return True if runs.was_red() else False if runs.was_green(names) else None


async def verify_start(
    job: Job, steps: Sequence[VerifyStep], *, protect: bool = True
) -> list[BaselineVerified]:
    """Runs steps in a copy of the tree as it was at the task's start, also behind one that fails.

    No log of it is kept. People who watch are told that it is this tree: what the steps print about it is no
    news of the task.
    """
    assert job.place.verifier is not None
    job.people.pulse("start")
    changes = await job.place.tree.diff_to_start()
    if changes is None:
        return _unknown(steps, "a link or a submodule has changed")
    seen: list[StepRun] = []

    async def hear(ran: StepRun) -> Literal["stop", "go_on"]:
        seen.append(ran)
        return "stop" if isinstance(ran.verdict, Broken) else "go_on"

    try:
        with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as runs:
            async with Trials(job).verifier(changes, protect=protect) as (_, verifier):
                verifier = replace(
                    verifier,
                    runs=Path(runs),
                    steps=tuple(steps),
                    on_step=lambda step: job.people.pulse("start", step),
                    on_line=lambda line: None,
                )
                found = await verifier.run("start", hear)
                directory = str(verifier.directory)
    except (CopyImpossible, OSError) as error:
        return _unknown(steps, job.place.redact(clean_text(str(error))))
    if isinstance(found.verdict, Broken):
        return _unknown(steps, job.place.redact(clean_text(found.verdict.reason)))
    passed = [ran.result for ran in seen if isinstance(ran.verdict, Pass)]
    green = BaselineVerified(steps=tuple(result.name for result in passed), results=tuple(passed))
    red = [_describe(job, ran, directory) for ran in seen if not isinstance(ran.verdict, Pass)]
    return [green, *red] if passed else red


def _unknown(steps: Iterable[VerifyStep], problem: str) -> list[BaselineVerified]:
    return [BaselineVerified(steps=tuple(step.name for step in steps), problem=problem)]


def replace_timeout(step: VerifyStep, seconds: float) -> VerifyStep:
    """The step with less patience: what takes much longer than it does now need not end."""
    return step.model_copy(update={"timeout": min(step.timeout, max(LEAST_SECONDS, PATIENCE * seconds))})


def _describe(job: Job, ran: StepRun, directory: str) -> BaselineVerified:
    """What a step that failed came to at the start."""
    name = ran.step.name
    assert job.place.verifier is not None
    if ran.result.timed_out and ran.step not in job.place.verifier.steps:  # it had less patience than usual
        return BaselineVerified(steps=(name,), problem=f'step "{name}" took too long')
    return BaselineVerified(
        steps=(name,),
        failed=name,
        exit_code=ran.result.exit_code,
        failing=_names(job, ran),
        lines=line_marks(ran.tail, directory),
        results=(ran.result,),
    )


def _names(job: Job, ran: StepRun) -> tuple[str, ...]:
    return tuple(job.place.redact(clean_text(failure.name)) for failure in ran.failures)
