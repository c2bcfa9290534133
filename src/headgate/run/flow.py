"""A whole flow: its stages in order, then its own checks, and the way back when they fail."""

from headgate.checks.verify import Verification, new_run_id
from headgate.config.texts import fill
from headgate.core.events import CheckFinished, Note, StageEnded, VerifyFinished, VerifyStarted
from headgate.core.flow import Stage, next_stage
from headgate.core.rules import Broken, Decision, Fail, Pass, Tally, Verdict, decide
from headgate.run.attempts import complete_stage
from headgate.run.job import Entrance, Job
from headgate.run.mend import ask_for_hypotheses, mend, replan
from headgate.tools.output import plain


async def run_flow(job: Job) -> Decision:
    """Carries the task out and returns how that ended: advance, stuck or infra."""
    ended = await _run_stages(job)
    fix = job.flow.fix_stage(tool.spec for tool in job.tools.values())
    while ended is None:
        verdict, message = await _check_flow(job)
        decision = decide(await _tally(job, fix, verdict), fix.budget)
        if decision.action == "replan":
            ended = await replan(job, fix)
        elif decision.action != "retry":
            if decision.reason == "verify_loops":
                await ask_for_hypotheses(job, fix)
            return decision
        ended = ended or await mend(job, fix, message, after_replan=decision.action == "replan")
    return ended


async def _run_stages(job: Job) -> Decision | None:
    """Every stage whose needs are met; the decision that ends the flow early, if one does."""
    while stage := next_stage(job.flow, job.state.endings()):
        ended = await complete_stage(job, stage, Entrance())
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


async def _tally(job: Job, fix: Stage, verdict: Verdict | None) -> Tally:
    unfinished = job.state.endings().get(fix.id) != "completed"
    return Tally(
        ended_flow=True,
        verdict=verdict,
        verify_loops=job.state.verify_loops,
        consecutive_failures=job.state.consecutive_failures,
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
    return fill("verify_failed", reason=found.verdict.reason, run_id=run_id, failing="", tail=tail)
