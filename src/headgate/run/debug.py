"""The debug loop: what follows a failed verification, up to the new plan and the last words."""

import asyncio
from collections.abc import Sequence

from headgate.config import fill
from headgate.core import (
    CandidateTried,
    Decision,
    Failure,
    FixAttempted,
    HypothesesGiven,
    Message,
    ReplanStarted,
    ReplyReceived,
    Request,
    Stage,
    clean_text,
    cut_text,
    say_reason,
    shorten,
    times,
)
from headgate.errors import ModelError
from headgate.run.first_messages import opening_message, system_message
from headgate.run.job import Entrance, Job
from headgate.run.stage import complete_stage, stage_failure
from headgate.run.turn import reply_in_time

DIFF_CHARS = 8_000
LISTED = 12
REASON_CHARS = 1_000
SPENT = frozenset({"limit_tokens", "limit_seconds", "limit_cost"})
CUT_SHORT = frozenset({"limit_turns", "user_stop"})
"""Why a task ends that could have gone on."""


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
    job.log.record(fix.id, 0, FixAttempted(loop=loop, diff=shorten(diff, DIFF_CHARS)))
    await job.log.commit()
    return ended


async def start_replan(job: Job) -> None:
    """Says that the plan is to be written anew."""
    job.log.record(job.flow.replan.id, 0, ReplanStarted(loop=job.state.verify_loops))
    await job.log.commit()


async def replan(job: Job, fix: Stage) -> Decision | None:
    """Has the plan written anew, given what was tried in condensed form. Constraints are no part of it."""
    message = fill("replan", count=times(job.state.verify_loops), failures=condense(job.state.failures))
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
    reason = cut_text(note.summary, REASON_CHARS, "the note") if note else "it was not finished"
    message = fill("replan_step", item=failed.item, reason=reason)
    return await complete_stage(job, plan, Entrance("replan", message))


async def ask_for_hypotheses(job: Job, why: Decision) -> None:
    """One last request, without tools, for whoever takes the task up next. No answer is no harm.

    A model that has never replied is not asked, nor is one for which there is nothing left to ask with. Where
    a final turn was forced because the task is to end, that was the last reply.
    """
    state = job.state
    concluded = why.reason in CUT_SHORT and why.reason in state.final_turns
    if state.hypotheses or not state.replies or concluded or why.reason in SPENT:
        return
    stage, conversation = _last_conversation(job)
    tried = condense(state.failures) or condense_answers(state.candidates)
    message = fill("hypotheses", reason=_say_end(job, why), failures=tried).strip()
    if not conversation:  # whole answers enter none
        conversation = [Message("system", system_message(job, stage))]
        message = f"{await asyncio.to_thread(opening_message, job, stage)}\n\n{message}"
    request = Request([*conversation, Message("user", job.redact(clean_text(message)))])
    try:
        reply = await reply_in_time(job, stage.model, request)
    except ModelError:
        return
    job.log.record("", 0, ReplyReceived.of(reply, job.model_settings[stage.model].price))
    text = job.redact(clean_text(reply.message.content)).strip()[:4_000]
    if text:
        job.log.record("", 0, HypothesesGiven(text=text))
    await job.log.commit()


def _last_conversation(job: Job) -> tuple[Stage, Sequence[Message]]:
    """The latest stage that has a conversation, with what the model sees of it; else the latest stage."""
    entered = [job.stage(attempt.stage) for attempt in job.state.stages.values()]
    for stage in reversed(entered):
        if stage.candidates is None and (view := job.transcript_of(stage).view):
            return stage, view
    return entered[-1] if entered else job.flow.stages[0], ()


def _say_end(job: Job, why: Decision) -> str:
    """How the task ends, as a sentence."""
    match why.reason:
        case "verify_loops":
            return f"verification failed {times(job.state.verify_loops)}."
        case "stage_failed" | "unfinished" | "no_progress":
            return f"{why.detail.removeprefix('Stuck: ').removesuffix('.')}."
        case _:
            return f"{say_reason(why.reason)}."


def condense_answers(candidates: Sequence[CandidateTried]) -> str:
    """What was answered, and how that went, a line each."""
    lines = [f"- {tried.place}: {tried.verdict} {tried.reason}".rstrip() for tried in candidates[-LISTED:]]
    return "\n".join(["Answers tried:", *lines]) if lines else ""


def condense(failures: list[Failure]) -> str:
    """What failed, and what was made of it, a few lines each, the latest last."""
    lines = []
    for number, failure in list(enumerate(failures, 1))[-LISTED:]:
        lines.append(f"{number}. {failure.reason} ({failure.run_id})")
        lines += [f"   failing: {test}" for test in failure.failing[:3]]
        if failure.diagnosis:
            lines.append(f"   diagnosis: {failure.diagnosis}")
        files = [line[6:] for line in failure.fix.splitlines() if line.startswith("+++ b/")]
        if failure.diagnosis or failure.fix:
            lines.append(f"   changed: {', '.join(files) or 'nothing'}")
    return "\n".join(lines)
