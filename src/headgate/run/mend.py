"""The debug loop: what follows a failed verification, up to the new plan and the last words."""

from headgate.config.texts import fill
from headgate.core.events import FixAttempted, HypothesesGiven, ReplanStarted, ReplyReceived
from headgate.core.flow import Stage
from headgate.core.messages import Message, Request, clean_text
from headgate.core.report import failed_times
from headgate.core.rules import Decision
from headgate.core.state import Failure
from headgate.errors import ModelError
from headgate.run.attempts import complete_stage, stage_failure
from headgate.run.job import Entrance, Job
from headgate.run.patience import reply_in_time

DIFF_CHARS = 8_000
LISTED = 12


async def mend(job: Job, fix: Stage, *, after_replan: bool = False) -> Decision | None:
    """Hands the failure to the stage that mends, and keeps what it changed; returns what ends the flow."""
    if job.state.phase != "mending" or job.state.open_attempt(fix.id) or job.state.pending_retry:
        ended = await complete_stage(
            job, fix, Entrance("check_failed", job.failure_message, cut=after_replan)
        )
    else:
        ended = stage_failure(job, fix) if job.state.endings()[fix.id] == "failed" and fix.required else None
    loop, failure = job.state.verify_loops, job.state.failures[-1]
    diff = job.redact(clean_text(await job.tree.diff_since(failure.tree)))
    job.log.record(fix.id, 0, FixAttempted(loop=loop, diff=_shorten(diff)))
    await job.log.commit()
    return ended


async def start_replan(job: Job) -> None:
    """Says that the plan is to be written anew."""
    job.log.record(job.flow.replan.id, 0, ReplanStarted(loop=job.state.verify_loops))
    await job.log.commit()


async def replan(job: Job, fix: Stage) -> Decision | None:
    """Has the plan written anew, given what was tried in condensed form. Constraints are no part of it."""
    message = fill("replan", count=failed_times(job.state), failures=condense(job.state.failures))
    entrance = Entrance("replan", message, transcript=job.transcript_of(fix))
    return await complete_stage(job, job.flow.replan, entrance)


def may_replan(job: Job) -> bool:
    """Whether the plan may be written anew because a step failed, or is being written anew already."""
    under_way = job.state.replanning_item or job.state.open_attempt(job.flow.replan.id)
    return bool(under_way) or job.state.item_replans < job.flow.replan_max


async def replan_step(job: Job, failed: Stage) -> Decision | None:
    """Has the rest of the plan written anew because one of its steps failed."""
    plan = job.flow.replan
    if not job.state.replanning_item and not job.state.open_attempt(plan.id):
        job.log.record(plan.id, 0, ReplanStarted(loop=job.state.verify_loops, item=failed.item))
        await job.log.commit()
    note = job.state.notes.get(failed.id)
    message = fill("replan_step", item=failed.item, reason=note.summary if note else "it was not finished")
    return await complete_stage(job, plan, Entrance("replan", message))


async def ask_for_hypotheses(job: Job, fix: Stage) -> None:
    """One last request, without tools, for whoever takes the task up next. No answer is no harm."""
    if job.state.hypotheses:
        return
    message = fill("hypotheses", count=failed_times(job.state), failures=condense(job.state.failures))
    request = Request([*job.transcript_of(fix).view, Message("user", job.redact(message))])
    try:
        reply = await reply_in_time(job, fix.model, request)
    except ModelError:
        return
    job.log.record("", 0, ReplyReceived.of(reply, job.model_settings[fix.model].price))
    text = job.redact(clean_text(reply.message.content)).strip()[:4_000]
    if text:
        job.log.record("", 0, HypothesesGiven(text=text))
    await job.log.commit()


def condense(failures: list[Failure]) -> str:
    """What failed, and what was made of it, a few lines each, the latest last."""
    lines = []
    for number, failure in list(enumerate(failures, 1))[-LISTED:]:
        if failure.again:
            lines.append(f"{number}. not run again: nothing had changed since {failure.run_id}")
        else:
            lines.append(f"{number}. {failure.reason} ({failure.run_id})")
        lines += [f"   failing: {test}" for test in failure.failing[:3]]
        if failure.diagnosis:
            lines.append(f"   diagnosis: {failure.diagnosis}")
        files = [line[6:] for line in failure.fix.splitlines() if line.startswith("+++ b/")]
        if failure.diagnosis or failure.fix:
            lines.append(f"   changed: {', '.join(files) or 'nothing'}")
    return "\n".join(lines)


def _shorten(diff: str) -> str:
    if len(diff) <= DIFF_CHARS:
        return diff
    return f"{diff[:DIFF_CHARS]}\n[... {len(diff) - DIFF_CHARS} more characters ...]\n"
