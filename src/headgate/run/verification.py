"""Running the project's own checks: as the flow's last word, before the first stage, or for the model.

One run of the steps has observers. Each looks at it for one reason, before the steps, after each of them and
at the end, and may say that what came of it does not count.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Literal

from headgate.checks import StepRun, Verification, new_run_id, unless_cut_short
from headgate.config import fill
from headgate.core import (
    OWN_FOLDER,
    Body,
    Broken,
    CheckFinished,
    Fail,
    Pass,
    StepFailed,
    Verdict,
    VerifyFinished,
    VerifyRuns,
    VerifyStarted,
    say_failed,
)
from headgate.first_use import dataclass
from headgate.guard import CommitFound
from headgate.reading import describe, is_code, render_failures
from headgate.run.job import Job
from headgate.run.protected_run import ProtectedRun, list_some
from headgate.run.trials import RedBefore, accepts_red_before, protects_all

MOST_REWRITES = 2
"""How often the steps are run again because they changed source."""
Purpose = Literal["final", "asked", "opening"]
"""final: it decides about the work. asked: the model wants to know. opening: it is run before the first
stage, and what fails in it was red before."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a run, and what the model is told about it if it failed."""

    verdict: Verdict
    run_id: str
    message: str = ""
    rewritten: tuple[str, ...] = ()
    """Source files that a run which passed has changed, so that another run has to tell."""


async def run_verification(job: Job, path: str = "", turn: int = 0, purpose: Purpose = "final") -> Finding:
    """Runs the steps under a new id and records the result. A broken environment is recorded as such.

    Code may rewrite itself while its tests run. Only a tree that a run has left as it was is verified, so a
    run that changed source is followed by another, and by no more than a few.
    """
    for runs_left in range(MOST_REWRITES, -1, -1):
        found = await _run_once(StepsRun(job, path, turn, purpose, is_last=not runs_left))
        if not found.rewritten:
            break
    return found


@dataclass
class StepsRun:
    """One run of the steps, and what its observers have found out."""

    job: Job
    path: str
    turn: int
    purpose: Purpose
    is_last: bool = False
    """No other run follows if this one changes source."""
    run_id: str = ""
    found: Verification = field(init=False)
    """What came of it."""
    tree: str = ""
    """The git tree that is verified; `own` is the same without what others had changed."""
    own: str = ""
    tree_after: str = ""
    own_after: str = ""
    left_behind: tuple[str, ...] = ()
    known: str = ""
    rewritten: tuple[str, ...] = ()
    lost: list[str] = field(default_factory=list)
    """What a step wrote where it may not, and the model is to know: a sentence each."""
    red: RedBefore = field(init=False)
    clues: list[str] = field(default_factory=list)
    """What observers know of a failure besides, for the model: a line each."""

    def __post_init__(self) -> None:
        assert self.job.place.verifier is not None
        self.run_id = new_run_id(self.job.clock.now())
        self.steps = ProtectedRun(self.job.place.verifier, self.job.place.context)

    @property
    def passes(self) -> bool:
        return isinstance(self.found.verdict, Pass)

    def record(self, body: Body, content: str | None = None) -> None:
        self.job.log.record(self.path, self.turn, body, content)


class Observer:
    """Looks at a run of the steps for one reason."""

    async def before(self, run: StepsRun) -> None:
        """The steps are about to run."""

    async def after_step(self, run: StepsRun, ran: StepRun) -> None:
        """A step has ended."""

    async def after(self, run: StepsRun) -> None:
        """The steps have run. `run.found` may be replaced by what counts instead."""

    async def look_into_failure(self, run: StepsRun) -> None:
        """What they came to is a failure that decides about the work. `run.clues` may be added to."""


class LeftAlone(Observer):
    """What decides how tests run must be as it was, before and during the run.

    A command may have left something where it may not write. If it cannot be put back, what follows says so.
    """

    async def before(self, run: StepsRun) -> None:
        if protected := run.job.place.context.protected:
            await asyncio.to_thread(protected.check_and_restore)

    async def after(self, run: StepsRun) -> None:
        run.found = run.steps.judge(run.found)
        # A test that writes where it may not is told by its failure alone.
        told = [one for one in run.steps.restored if one.path == OWN_FOLDER or isinstance(one, CommitFound)]
        run.lost = [one.sentence() for one in told]


class Trees(Observer):
    """The tree before and after the run, and whose changes are in it."""

    async def before(self, run: StepsRun) -> None:
        tree = run.job.place.tree
        run.tree = await tree.mark("before")
        if edits := await tree.notice(run.tree):
            run.record(edits)
            await run.job.log.commit()
        run.own, run.red = await tree.own_mark(run.tree), RedBefore(run.job, run.tree)

    async def after(self, run: StepsRun) -> None:
        tree = run.job.place.tree
        run.tree_after = await tree.mark("after")
        run.left_behind = await tree.left_behind(run.tree, run.tree_after)
        run.known = await tree.settle(run.tree_after)


class FailuresTold(Observer):
    """People are told of a failed step at once: what else is found out about it may take a minute."""

    async def after_step(self, run: StepsRun, ran: StepRun) -> None:
        if run.purpose == "opening" or not isinstance(ran.verdict, Fail):
            return
        redact = run.job.place.redact
        failing, reason = [redact(describe(one)) for one in ran.failures], redact(ran.verdict.reason)
        run.record(
            StepFailed(
                run_id=run.run_id,
                step=ran.step.name,
                sentence=say_failed(failing, reason, f"; {reason}" if ran.result.timed_out else ""),
                asked=run.purpose == "asked",
                decides=run.purpose == "asked" or not accepts_red_before(run.job),
            )
        )
        await run.job.log.commit()


class RedBeforeTask(Observer):
    """What of a failure was red before the task is said with it."""

    async def after(self, run: StepsRun) -> None:
        clause = run.red.found.clause
        if run.purpose != "opening" and clause and isinstance(failed := run.found.verdict, Fail):
            run.found = replace(run.found, verdict=replace(failed, reason=f"{failed.reason}{clause}"))


class Secrets(Observer):
    """A person may have changed secrets before the steps, and a step may write some to other files."""

    async def before(self, run: StepsRun) -> None:
        if run.job.place.context.secrets:
            run.job.place.context.secrets.expect_changes()

    async def after_step(self, run: StepsRun, ran: StepRun) -> None:
        await self.before(run)


class Rewrites(Observer):
    """A run that passes and changes source verifies nothing. The last one of several fails."""

    async def after(self, run: StepsRun) -> None:
        if not run.passes:
            return
        changed = await run.job.place.tree.changed_between(run.tree, run.tree_after)
        run.rewritten = tuple(filter(is_code, changed))
        if run.rewritten and run.is_last:
            reason = f"every run changes the code that it verifies: {list_some(run.rewritten)}"
            run.found, run.rewritten = replace(run.found, verdict=Fail("verify_failed", reason)), ()


class LeftOut(Observer):
    """A run does not pass if it leaves out tests that ran before, nor in a benchmark if it was cut short."""

    async def after(self, run: StepsRun) -> None:
        if protects_all(run.job) and run.passes:
            folder = run.steps.verifier.runs / run.run_id
            run.found = await asyncio.to_thread(unless_cut_short, run.found, folder)
        run.found = await run.red.count_skips(run.found)


OBSERVERS = (Secrets(), RedBeforeTask(), LeftAlone(), Trees(), Rewrites(), LeftOut(), FailuresTold())
"""In the order in which they look at a run."""


def _of_features(job: Job) -> Iterator[Observer]:
    return (observer for feature in job.parts.features for observer in feature.observers)


async def _run_steps(run: StepsRun) -> None:
    observers = (*OBSERVERS, *_of_features(run.job))
    for observer in observers:
        await observer.before(run)

    async def hear(ran: StepRun) -> Literal["stop", "forgive"]:
        for observer in observers:
            await observer.after_step(run, ran)
        return await run.red.hear(ran)

    run.found = await run.steps.run(run.run_id, hear)
    for observer in observers:
        await observer.after(run)


async def _run_once(run: StepsRun) -> Finding:
    """Runs the steps once, and records what came of it."""
    job = run.job
    steps = tuple(step.name for step in run.steps.verifier.steps)
    asked, opening = run.purpose != "final", run.purpose == "opening"
    run.record(VerifyStarted(run_id=run.run_id, steps=steps, asked=asked, opening=opening))
    await job.log.commit()
    await _run_steps(run)
    verdict, redact = run.found.verdict, job.place.redact
    reason = "" if isinstance(verdict, Pass) else redact(verdict.reason)
    if isinstance(verdict, Broken) and run.purpose != "asked":
        run.record(CheckFinished(check="verify", verdict="broken", reason=reason))
        await job.log.commit()
        return Finding(verdict, run.run_id)
    run.red.record(run.found)
    # Why a run does not count, although its tests have failed, is not for one of them to say.
    failing = run.found.failures if isinstance(verdict, Fail) else ()
    described = tuple(redact(describe(one)) for one in failing)
    message = "" if run.passes else await _tell_failure(run, reason, described)
    late = any(step.timed_out for step in run.found.steps if step.name not in run.found.forgiven)
    finished = VerifyFinished(
        run_id=run.run_id,
        passed=run.passes,
        steps=run.found.steps,
        reason=reason,
        tree=run.tree,
        tree_after=run.tree_after,
        own=run.own,
        own_after=await job.place.tree.own_mark(run.tree_after),
        left_behind=run.left_behind,
        failing=described,
        asked=asked,
        opening=opening,
        red_before=tuple(run.red.same),
        forgiven=run.found.forgiven if run.passes else (),
        rewritten=run.rewritten,
        known=run.known if run.tree_after != run.tree else "",
        clause=f"; {reason}" if late else "" if opening else redact(run.red.found.clause),
    )
    run.record(finished, None if asked else message or None)
    await job.log.commit()
    return Finding(verdict, run.run_id, message, run.rewritten)


async def _tell_failure(run: StepsRun, reason: str, failing: tuple[str, ...]) -> str:
    """What the model is told about a run that failed."""
    job, found, redact = run.job, run.found, run.job.place.redact
    assert not isinstance(found.verdict, Pass)
    tail = redact(found.tail)[-job.place.context.result_chars :]
    listed = redact(render_failures(found.failures))
    told = fill(
        "verify_failed" if run.purpose == "final" else "tests_failed",
        reason=found.verdict.reason,
        run_id=run.run_id,
        failing=f"\nFailing tests:\n{listed}\n" if listed else "",
        tail=tail,
    )
    if run.purpose != "final":
        return "\n".join([told, *run.lost])
    for observer in _of_features(job):
        await observer.look_into_failure(run)
    told = "\n".join([told, *map(redact, run.clues)])
    runs = job.state[VerifyRuns]
    if runs.work.is_idle(runs.failures, run.own, reason, failing):
        same = fill("verify_unchanged", run_id=runs.failures[-1].run_id)
        told = f"{same}\n\n{told}"
    return "\n".join([told, *run.lost])
