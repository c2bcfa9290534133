"""A whole flow: its tree of stages, then the judgment of the work, and a last question if it is stuck."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from headgate.config import fill
from headgate.core import (
    AnswersTried,
    Conclusion,
    Decision,
    HypothesesGiven,
    Message,
    Note,
    Plan,
    ReplyReceived,
    Request,
    Stage,
    StageEnded,
    VerifyRuns,
    WorkTally,
    clean_text,
    condense_failures,
    is_open,
    judge_work,
    say_reason,
    times,
)
from headgate.errors import ModelError
from headgate.run.asking import reply_in_time
from headgate.run.first_messages import opening_message, system_message
from headgate.run.group import run_group
from headgate.run.job import Job
from headgate.run.stage import Entrance, Search, StageRun


async def judge_task(job: Job) -> Decision:
    """The decision that ends the task: advance, propose or stuck."""
    unfinished = not _is_finished(job)
    tally = WorkTally(
        unfinished=unfinished,
        changed=unfinished and bool(await job.place.tree.changed_files()),
        verified=bool(job.state[VerifyRuns].passing_run),
        proposing=job.place.proposing,
    )
    return judge_work(tally)


def _is_finished(job: Job) -> bool:
    """Whether the stage that does the work said that it is done, or each of those made for the plan did.

    Where no such stage had to run, an answer that passed is enough, or a check that passed from the start. A
    flow without such a stage is finished when its stages are.
    """
    state = job.state
    delivering = [leaf for leaf in job.flow.leaves() if leaf.delivers]
    endings = [
        attempts[-1].ending
        for leaf in delivering
        if not leaf.foreach and (attempts := state.tree.attempts.get(leaf.id))
    ]
    if endings:
        return endings[-1] == "completed"
    if any(leaf.foreach for leaf in delivering):
        steps = [item for item in state[Plan].items if is_open(item)]
        return bool(steps) and all(item.status == "completed" for item in steps)
    if not delivering and state[AnswersTried].suspects is None:
        return True
    opening = state[AnswersTried].opening
    return state[AnswersTried].repaired or (opening is not None and opening.passed)


SPENT = frozenset({"limit_tokens", "limit_seconds", "limit_cost"})
CUT_SHORT = frozenset({"limit_turns", "user_stop"})
"""Why a task ends that could have gone on."""


UNVERIFIED = "verification had not ended"
HYPOTHESES_TOKENS = 500
"""Of the last reply: a small model would write on until its window is full."""


async def run_flow(job: Job) -> Decision:
    """Carries the task out and returns how that ended: advance, propose, stuck or infra."""
    try:
        async with asyncio.timeout(job.seconds_to_deadline()) as limit:
            ended = await run_group(job, job.root) or await judge_task(job)
            if ended.action == "stuck" and job.state.config.get("hypotheses", True):
                await ask_for_hypotheses(job, ended)
            return ended
    except TimeoutError:
        if not limit.expired():
            raise
        return await _cut_short(job)


async def _cut_short(job: Job) -> Decision:
    """The end of a task whose time is up, whatever it was at."""
    open_attempts = [entered for entered in job.state.tree.open_attempts() if entered.is_announced]
    for entered in reversed(open_attempts):
        note = entered.note or Note(summary="It was cut off when the task's time was up.")
        body = StageEnded(stage=entered.stage, ending="failed", reason="limit_seconds", note=note)
        job.log.record(entered.path, entered.counts.turns, body)
    await job.log.commit()
    return Decision("stuck", "limit_seconds", UNVERIFIED if job.state[VerifyRuns].is_running else "")


async def cannot_verify(job: Job) -> Decision | None:
    """The end of a task whose steps name what is not there: no model is asked, as all work would be in vain.

    A dry run is not verified.
    """
    if job.place.verifier is None or job.place.proposing:
        return None
    if all(leaf.kind != "verify" for leaf in job.flow.possible_leaves()):
        return None
    missing = [one.sentence() for one in await job.place.verifier.missing() if one.sure]
    return (
        Decision("infra", "check_broken", job.place.redact(clean_text(" ".join(missing))))
        if missing
        else None
    )


async def ask_for_hypotheses(job: Job, why: Decision) -> None:
    """One last request, without tools, for whoever takes the task up next. No answer is no harm.

    A model that has never replied is not asked, nor is one for which there is nothing left to ask with. Where
    a final turn was forced because the task is to end, that was the last reply.
    """
    state = job.state
    concluded = why.reason in CUT_SHORT and why.reason in state[Conclusion].final_turns
    if state[Conclusion].hypotheses or not state.accounts.replies or concluded or why.reason in SPENT:
        return
    path, stage, conversation = _last_conversation(job)
    tried = condense_failures(state[VerifyRuns].failures) or "\n".join(
        filter(None, (kind.say_tried(job) for kind in job.parts.kinds.values() if isinstance(kind, Search)))
    )
    message = fill("hypotheses", reason=_say_end(job, why), failures=tried).strip()
    listed = StageRun(job, stage, path, Entrance()).scope.listed if conversation else ()
    if not conversation:  # whole answers enter none
        conversation = [Message("system", system_message(job, stage))]
        message = f"{await asyncio.to_thread(opening_message, job, stage)}\n\n{message}"
    asked = Message("user", job.place.redact(clean_text(message)))
    request = Request([*conversation, asked], max_tokens=HYPOTHESES_TOKENS, listed=listed)
    text = await _answer(job, stage, request)
    if text == "" and listed:  # it called a tool, where its server cannot be told that it may not
        text = await _answer(job, stage, replace(request, listed=()))
    if text:
        job.log.record("", 0, HypothesesGiven(text=text))
    await job.log.commit()


async def _answer(job: Job, stage: Stage, request: Request) -> str | None:
    """The words that a model replies with; None if it does not reply."""
    try:
        reply = await reply_in_time(job, stage.model, request)
    except ModelError:
        return None
    job.log.record("", 0, ReplyReceived.of(reply, job.models.settings[stage.model]))
    return job.place.redact(clean_text(reply.message.content)).strip()[:4_000]


def _last_conversation(job: Job) -> tuple[str, Stage, Sequence[Message]]:
    """The latest attempt at a stage with a conversation, and what the model sees of it; else the latest."""
    shown = [entered.path for entered in job.state.nodes.values() if entered.is_announced]
    made = [(path, stage) for path in shown if (stage := job.stage_at(path))]
    for path, stage in reversed(made):
        if stage.kind == "talk" and (view := job.transcript_of(stage).view):
            return path, stage, view
    return (*(made[-1] if made else ("", next(job.flow.leaves()))), ())


def _say_end(job: Job, why: Decision) -> str:
    """How the task ends, as a sentence."""
    match why.reason:
        case "verify_loops":
            return f"verification failed {times(job.state[VerifyRuns].loops)}."
        case "stage_failed" | "unfinished" | "no_progress":
            return f"{why.detail.removeprefix('Stuck: ').removesuffix('.')}."
        case _:
            return f"{say_reason(why.reason)}."
