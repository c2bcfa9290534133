"""A stage with its retries."""

from headgate.config.texts import fill
from headgate.core.flow import Stage
from headgate.core.milestones import say_reason
from headgate.core.rules import Decision, Tally, decide
from headgate.run.job import Entrance, Job
from headgate.run.stage import run_stage


async def complete_stage(job: Job, stage: Stage, entrance: Entrance) -> Decision | None:
    """Attempts a stage until it ends or its retries are spent; returns what ends the flow, if it does."""
    while True:
        decision = await run_stage(job, stage, entrance)
        match decision.action:
            case "retry":
                attempt = job.state.attempts_at(stage.id) + 1
                reason = decision.detail or say_reason(decision.reason)
                message = fill("retry", stage=stage.id, attempt=attempt, reason=reason)
                entrance = Entrance("retry", message, transcript=entrance.transcript)
            case "infra" | "stuck":
                return decision
            case "fail" if stage.required:
                why = (
                    f'Stage "{stage.id}" did not complete: {decision.detail or say_reason(decision.reason)}.'
                )
                return decide(Tally(ended_flow=True, failed_stage=why), stage.budget)
            case _:
                return None
