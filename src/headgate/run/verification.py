"""Running the project's own checks: as the flow's last word, or because the model asked."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from headgate.checks import StepRun, Verification, new_run_id, unless_cut_short
from headgate.config import fill
from headgate.core import (
    OWN_FOLDER,
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
from headgate.guard import CommitFound, Restored
from headgate.reading import describe, is_code, render_failures
from headgate.run.failure_clues import FailedRun, find_clues, new_failures
from headgate.run.job import Job
from headgate.run.protected_run import ProtectedRun, list_some
from headgate.run.trials import RedBefore, accepts_red_before, protects_all

MOST_REWRITES = 2
"""How often the steps are run again because they changed source."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a run, and what the model is told about it if it failed."""

    verdict: Verdict
    run_id: str
    message: str = ""
    rewritten: tuple[str, ...] = ()
    """Source files that a run which passed has changed, so that another run has to tell."""


async def run_verification(
    job: Job, path: str = "", turn: int = 0, *, asked: bool = False, opening: bool = False
) -> Finding:
    """Runs the steps under a new id and records the result. A broken environment is recorded as such.

    Code may rewrite itself while its tests run. Only a tree that a run has left as it was is verified, so a
    run that changed source is followed by another, and by no more than a few.
    """
    for runs_left in range(MOST_REWRITES, -1, -1):
        found = await _run_once(job, path, turn, asked=asked, opening=opening, last=not runs_left)
        if not found.rewritten:
            break
    return found


async def _run_once(job: Job, path: str, turn: int, *, asked: bool, opening: bool, last: bool) -> Finding:
    """One run. If it is the `last` one, it fails if it changed source."""
    assert job.place.verifier is not None
    run_id = new_run_id(job.clock.now())
    steps = tuple(step.name for step in job.place.verifier.steps)
    job.log.record(path, turn, VerifyStarted(run_id=run_id, steps=steps, asked=asked, opening=opening))
    await job.log.commit()
    if job.place.context.protected:
        # Verification must not depend on what a command left where it may not write.
        # It is told again by what follows if something cannot be put back.
        await asyncio.to_thread(job.place.context.protected.check_and_restore)
    tree = await job.place.tree.mark()
    if edits := await job.place.tree.notice_edits(tree):
        job.log.record(path, turn, edits)
        await job.log.commit()
    own = await job.place.tree.own_mark(tree)
    before = RedBefore(job, tree)
    run = ProtectedRun(job.place.verifier, job.place.context)

    async def hear(ran: StepRun) -> Literal["stop", "forgive"]:
        if isinstance(ran.verdict, Fail) and not opening:
            # People are told now: what else is found out about the failure may take a minute.
            decides = asked or not accepts_red_before(job)
            sentence = _say_step(job, ran)
            step = ran.step.name
            told = StepFailed(run_id=run_id, step=step, sentence=sentence, asked=asked, decides=decides)
            job.log.record(path, turn, told)
            await job.log.commit()
        return await before.hear(ran)

    found = await run.run(run_id, hear)
    if job.place.context.secrets:
        job.place.context.secrets.expect_changes()
    if not opening:  # the check that a task begins with is itself what was red before
        found = _with_red_before(found, before)
    found = run.judge(found)
    after = await job.place.tree.mark()
    left_behind = await job.place.tree.left_behind(tree, after)
    known = await job.place.tree.settle(after)
    rewritten: tuple[str, ...] = ()
    if isinstance(found.verdict, Pass):
        rewritten = tuple(filter(is_code, await job.place.tree.changed_between(tree, after)))
        if rewritten and last:
            reason, rewritten = f"every run changes the code that it verifies: {list_some(rewritten)}", ()
            found = replace(found, verdict=Fail("verify_failed", reason))
    if protects_all(job) and isinstance(found.verdict, Pass):
        found = await asyncio.to_thread(unless_cut_short, found, job.place.verifier.runs / run_id)
    found = await before.count_skips(found)
    reason = "" if isinstance(found.verdict, Pass) else job.place.redact(found.verdict.reason)
    if isinstance(found.verdict, Broken) and (opening or not asked):
        job.log.record(path, turn, CheckFinished(check="verify", verdict="broken", reason=reason))
        await job.log.commit()
        return Finding(found.verdict, run_id)
    before.record(found)
    message = _failure_message(job, "tests_failed" if asked else "verify_failed", run_id, found)
    if message and not asked and job.pinned.scouts.build != "off":
        message = "\n".join([message, *await _clues(job, after, found, before.same)])
    # Why a run does not count, although its tests have failed, is not for one of them to say.
    counts = isinstance(found.verdict, Fail)
    failing = tuple(job.place.redact(describe(failure)) for failure in found.failures if counts)
    late = any(step.timed_out for step in found.steps if step.name not in found.forgiven)
    if (
        message
        and not asked
        and job.state[VerifyRuns].work.is_idle(job.state[VerifyRuns].failures, own, reason, failing)
    ):
        message = (
            fill("verify_unchanged", run_id=job.state[VerifyRuns].failures[-1].run_id) + "\n\n" + message
        )
    if message and (lost := [one.sentence() for one in run.restored if _is_told(one)]):
        message = "\n".join([message, *lost])
    finished = VerifyFinished(
        run_id=run_id,
        passed=isinstance(found.verdict, Pass),
        steps=found.steps,
        reason=reason,
        tree=tree,
        tree_after=after,
        own=own,
        own_after=await job.place.tree.own_mark(after),
        left_behind=left_behind,
        failing=failing,
        asked=asked,
        opening=opening,
        red_before=tuple(before.same),
        forgiven=found.forgiven if isinstance(found.verdict, Pass) else (),
        rewritten=rewritten,
        known=known if after != tree else "",
        clause=f"; {reason}" if late else "" if opening else job.place.redact(before.found.clause),
    )
    job.log.record(path, turn, finished, None if asked else message or None)
    await job.log.commit()
    return Finding(found.verdict, run_id, message, rewritten)


def _say_step(job: Job, ran: StepRun) -> str:
    """Why a step failed, for people."""
    assert isinstance(ran.verdict, Fail)
    failing = [job.place.redact(describe(failure)) for failure in ran.failures]
    reason = job.place.redact(ran.verdict.reason)
    return say_failed(failing, reason, f"; {reason}" if ran.result.timed_out else "")


def _with_red_before(found: Verification, before: RedBefore) -> Verification:
    """Says of a failure what of it was red before the task."""
    if not isinstance(found.verdict, Fail) or not before.found.clause:
        return found
    reason = f"{found.verdict.reason}{before.found.clause}"
    return replace(found, verdict=replace(found.verdict, reason=reason))


def _is_told(one: Restored) -> bool:
    """Whether the model hears about it: a test that writes where it may not is told by its failure alone."""
    return one.path == OWN_FOLDER or isinstance(one, CommitFound)


async def _clues(job: Job, tree: str, found: Verification, red_before: Collection[str]) -> list[str]:
    """What the runtime found out about a failure."""
    failed = FailedRun(
        tree,
        found.failures,
        found.tail,
        sum(step.seconds for step in found.steps),
        new_failures(job, found.failures, red_before),
    )
    clues = await find_clues(job, failed)
    return [job.place.redact(line) for line in clues.render()]


def _failure_message(job: Job, text: str, run_id: str, found: Verification) -> str:
    if isinstance(found.verdict, Pass):
        return ""
    tail = job.place.redact(found.tail)[-job.place.context.result_chars :]
    listed = job.place.redact(render_failures(found.failures))
    failing = f"\nFailing tests:\n{listed}\n" if listed else ""
    return fill(text, reason=found.verdict.reason, run_id=run_id, failing=failing, tail=tail)
