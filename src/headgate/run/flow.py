"""A whole flow: its stages in order, then its own checks, and the way back when they fail.

What comes next follows from the state alone, so a task that was interrupted anywhere goes on from there.
"""

import asyncio

from headgate.checks.failures import describe, render_failures
from headgate.checks.verify import Verification, new_run_id
from headgate.config.texts import fill
from headgate.core.events import CheckFinished, Note, StageEnded, VerifyFinished, VerifyStarted
from headgate.core.flow import Stage, next_stage
from headgate.core.rules import Broken, Decision, Fail, Pass, Tally, Verdict, decide
from headgate.run.attempts import complete_stage, stage_failure
from headgate.run.job import Entrance, Job
from headgate.run.mend import ask_for_hypotheses, mend, replan, start_replan
from headgate.run.review import review, revise


async def run_flow(job: Job) -> Decision:
    """Carries the task out and returns how that ended: advance, stuck or infra."""
    fix = job.flow.fix_stage(tool.spec for tool in job.tools.values())
    ended = await _run_stages(job) if job.state.phase == "stages" else None
    while ended is None:
        match job.state.phase:
            case "stages" | "revised":
                ended = None if await review(job) else await _verify(job, fix)
            case "returned" | "revising":
                ended = await revise(job, fix)
            case "verifying" | "mended":
                ended = await _verify(job, fix)
            case "verified":
                ended = await _decide(job, fix, Pass())
            case "failed":
                ended = await _after_failure(job, fix)
            case "replanning":
                ended = await replan(job, fix)
            case "replanned":
                ended = await mend(job, fix, after_replan=True)
            case "mending":
                ended = await mend(job, fix)
    return ended


async def _run_stages(job: Job) -> Decision | None:
    """Every stage whose needs are met; the decision that ends the flow early, if one does."""
    for stage in job.flow.stages:
        if stage.required and job.state.endings().get(stage.id) == "failed":
            return stage_failure(job, stage)
    while following := _open_stage(job) or next_stage(job.flow, job.state.endings()):
        ended = await complete_stage(job, following, Entrance())
        if ended:
            return ended
    not_run = [stage for stage in job.flow.stages if stage.id not in job.state.endings()]
    for stage in not_run:
        note = Note(summary="Not run: a stage that it needs did not complete.")
        skipped = StageEnded(stage=stage.id, ending="skipped", reason="needs_not_met", note=note)
        job.log.record(stage.id, 0, skipped)
    await job.log.commit()
    missing = next((stage for stage in not_run if stage.required), None)
    if missing:
        why = f'Stage "{missing.id}" could not run: what it needs failed.'
        return decide(Tally(ended_flow=True, failed_stage=why), missing.budget)
    return None


def _open_stage(job: Job) -> Stage | None:
    under_way = job.state.open_attempt()
    name = under_way.stage if under_way else job.state.pending_retry[0] if job.state.pending_retry else ""
    return job.flow.stage(name) if name else None


async def _decide(job: Job, fix: Stage, verdict: Verdict | None) -> Decision:
    unfinished = job.state.endings().get(fix.id) != "completed"
    tally = Tally(
        ended_flow=True,
        verdict=verdict,
        verify_loops=job.state.verify_loops,
        consecutive_failures=job.state.consecutive_failures,
        unfinished=unfinished,
        changed=unfinished and bool(await job.tree.changed_files()),
    )
    return decide(tally, fix.budget)


async def _after_failure(job: Job, fix: Stage) -> Decision | None:
    decision = await _decide(job, fix, Fail("verify_failed", job.state.last_failure))
    if decision.action == "retry":
        return await mend(job, fix)
    if decision.action == "replan":
        await start_replan(job)
        return None
    await ask_for_hypotheses(job, fix)
    return decision


async def _verify(job: Job, fix: Stage) -> Decision | None:
    """The flow's own checks; the decision if there are none, or if they cannot be run."""
    if not job.flow.checks.verify or job.verifier is None:
        return await _decide(job, fix, None)
    run_id = new_run_id(job.now())
    job.log.record("", 0, VerifyStarted(run_id=run_id, steps=tuple(step.name for step in job.verifier.steps)))
    await job.log.commit()
    if job.context.protected:
        # Verification must not depend on what a command left where it may not write.
        await asyncio.to_thread(job.context.protected.check_and_restore)
    tree = await job.tree.mark()
    found = await job.verifier.run(run_id)
    if isinstance(found.verdict, Broken):
        broken = CheckFinished(check="verify", verdict="broken", reason=job.redact(found.verdict.reason))
        job.log.record("", 0, broken)
        await job.log.commit()
        return await _decide(job, fix, found.verdict)
    reason = job.redact(found.verdict.reason) if isinstance(found.verdict, Fail) else ""
    job.failure_message = _failure_message(job, run_id, found)
    finished = VerifyFinished(
        run_id=run_id,
        passed=isinstance(found.verdict, Pass),
        steps=found.steps,
        reason=reason,
        tree=tree,
        left_behind=await job.tree.left_behind(tree),
        failing=tuple(job.redact(describe(failure)) for failure in found.failures),
    )
    job.log.record("", 0, finished, job.failure_message or None)
    await job.log.commit()
    return None


def _failure_message(job: Job, run_id: str, found: Verification) -> str:
    if not isinstance(found.verdict, Fail):
        return ""
    tail = job.redact(found.tail)[-job.context.result_chars :]
    listed = job.redact(render_failures(found.failures))
    failing = f"\nFailing tests:\n{listed}\n" if listed else ""
    return fill("verify_failed", reason=found.verdict.reason, run_id=run_id, failing=failing, tail=tail)
