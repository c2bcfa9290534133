"""A stage with its retries."""

from headgate.config.texts import fill
from headgate.core.flow import Stage
from headgate.core.milestones import say_reason
from headgate.core.rules import Decision, Tally, decide
from headgate.run.job import Entrance, Job
from headgate.run.opening import stage_message
from headgate.run.stage import run_stage


async def complete_stage(job: Job, stage: Stage, entrance: Entrance) -> Decision | None:
    """Attempts a stage until it ends or its retries are spent; returns what ends the flow, if it does."""
    while True:
        if job.state.pending_retry and job.state.pending_retry[0] == stage.id:
            entrance = _retry(job, stage, entrance)
        decision = await run_stage(job, stage, entrance)
        if decision.action in ("infra", "stuck"):
            return decision
        if decision.action == "fail" and stage.required:
            return stage_failure(job, stage)
        if decision.action != "retry":
            return None


def stage_failure(job: Job, stage: Stage) -> Decision:
    """How a flow ends whose required stage did not complete."""
    latest = [entered for entered in job.state.stages.values() if entered.stage == stage.id][-1]
    why = say_reason(latest.why) if latest.why.isidentifier() else latest.why or "it was not finished"
    why = f'Stage "{stage.id}" did not complete: {why}.'
    if stage.candidates and (tried := len(job.state.candidates)):
        why = f"None of the {tried} answers passed." if tried > 1 else "The only answer failed."
    return decide(Tally(ended_flow=True, failed_stage=why), stage.budget)


def _retry(job: Job, stage: Stage, entrance: Entrance) -> Entrance:
    assert job.state.pending_retry is not None
    attempt = job.state.attempts_at(stage.id) + 1
    reason = say_reason(job.state.pending_retry[1])
    message = fill("retry", stage=stage.id, attempt=attempt, reason=reason)
    if not stage.retry_hints:
        message = stage_message(stage)
    return Entrance("retry", message, transcript=entrance.transcript)
