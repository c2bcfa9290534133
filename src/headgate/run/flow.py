"""A whole flow: its stages in order, then its own checks, and the way back when they fail."""

from headgate.checks.verify import Verification, new_run_id
from headgate.config.texts import fill
from headgate.core.events import CheckFinished, Note, StageEnded, VerifyFinished, VerifyStarted
from headgate.core.flow import Stage, next_stage
from headgate.core.milestones import say_reason
from headgate.core.rules import Broken, Decision, Fail, Pass, Tally, Verdict, decide
from headgate.run.job import Job
from headgate.run.stage import Entrance, run_stage
from headgate.tools.output import plain


async def run_flow(job: Job) -> Decision:
    """Carries the task out and returns how that ended: advance, stuck or infra."""
    failed = await _run_stages(job)
    if failed:
        return failed
    fix = job.flow.fix_stage(tool.spec for tool in job.tools.values())
    while True:
        verdict, message = await _check_flow(job)
        decision = decide(await _tally(job, fix, verdict), fix.budget)
        if decision.action != "retry":
            return decision
        failed = await _complete(job, fix, Entrance("check_failed", message))
        if failed:
            return failed


async def _run_stages(job: Job) -> Decision | None:
    """Every stage whose needs are met; the decision that ends the flow early, if one does."""
    while stage := next_stage(job.flow, job.state.endings()):
        failed = await _complete(job, stage, Entrance())
        if failed:
            return failed
    not_run = [stage for stage in job.flow.stages if stage.id not in job.state.endings()]
    for stage in not_run:
        note = Note(summary="Not run: a stage that it needs did not complete.")
        job.log.record(
            stage.id, 0, StageEnded(stage=stage.id, ending="skipped", reason="needs_not_met", note=note)
        )
    await job.log.commit()
    missing = next((stage for stage in not_run if stage.required), None)
    if missing:
        tally = Tally(
            ended_flow=True, failed_stage=f'Stage "{missing.id}" could not run: what it needs failed.'
        )
        return decide(tally, missing.budget)
    return None


async def _complete(job: Job, stage: Stage, entry: Entrance) -> Decision | None:
    """Attempts a stage until it ends or its retries are spent; returns what ends the flow, if it does."""
    while True:
        decision = await run_stage(job, stage, entry)
        match decision.action:
            case "retry":
                attempt = job.state.attempts_at(stage.id) + 1
                reason = decision.detail or say_reason(decision.reason)
                entry = Entrance("retry", fill("retry", stage=stage.id, attempt=attempt, reason=reason))
            case "infra" | "stuck":
                return decision
            case "fail" if stage.required:
                tally = Tally(ended_flow=True, failed_stage=_why(stage, decision))
                return decide(tally, stage.budget)
            case _:
                return None


def _why(stage: Stage, decision: Decision) -> str:
    return f'Stage "{stage.id}" did not complete: {decision.detail or say_reason(decision.reason)}.'


async def _tally(job: Job, fix: Stage, verdict: Verdict | None) -> Tally:
    unfinished = job.state.endings().get(fix.id) != "completed"
    return Tally(
        ended_flow=True,
        verdict=verdict,
        verify_loops=job.state.failed_runs,
        unfinished=unfinished,
        changed=unfinished and bool(await job.tree.changed_files()),
    )


async def _check_flow(job: Job) -> tuple[Verdict | None, str]:
    """The flow's own checks, and the message for the stage that has to mend what they found."""
    if not job.flow.checks.verify or job.verifier is None:
        return None, ""
    run_id = new_run_id(job.now())
    job.log.record("", 0, VerifyStarted(run_id=run_id, steps=tuple(step.name for step in job.verifier.steps)))
    await job.log.commit()
    async with job.tree.during_verification():
        found = await job.verifier.run(run_id)
    reason = "" if isinstance(found.verdict, Pass) else job.redact(found.verdict.reason)
    if isinstance(found.verdict, Broken):
        job.log.record("", 0, CheckFinished(check="verify", verdict="broken", reason=reason))
    else:
        passed = isinstance(found.verdict, Pass)
        job.log.record("", 0, VerifyFinished(run_id=run_id, passed=passed, steps=found.steps, reason=reason))
    await job.log.commit()
    return found.verdict, _failure_message(job, run_id, found) if isinstance(found.verdict, Fail) else ""


def _failure_message(job: Job, run_id: str, found: Verification) -> str:
    assert isinstance(found.verdict, Fail)
    tail = job.redact(plain(found.tail))[-job.context.result_chars :]
    return fill("verify_failed", reason=found.verdict.reason, run_id=run_id, tail=tail)
