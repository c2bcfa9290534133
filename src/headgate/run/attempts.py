"""Attempts at stages: each is opened, carried out by its kind, closed, and resumed after a crash."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headgate.config import fill
from headgate.core import (
    Action,
    Body,
    Decision,
    DecisionMade,
    Ending,
    Event,
    MessageAdded,
    ReplyReceived,
    Stage,
    StageEnded,
    StageStarted,
    join_path,
    retry_seconds,
    say_reason,
)
from headgate.run.first_messages import stage_message
from headgate.run.job import Job
from headgate.run.stage import Conversation, Entrance, Interrupted, StageEnd, StageRun, explain_failure

_ENDINGS: dict[Action, Ending] = {"advance": "completed", "skip": "skipped"}


async def complete_stage(job: Job, stage: Stage, parent: str, entrance: Entrance) -> Decision:
    """Attempts a stage until it ends or its retries are spent; returns the decision that ended it."""
    place = join_path(parent, stage.id)
    kind = job.parts.kinds[stage.kind]
    stage = kind.adapt(job, stage) or stage
    while True:
        entrance = await wait_for_retry(job, stage, place) or entrance
        run = reopen_attempt(job, stage, place) or open_attempt(job, stage, parent, entrance)
        end = await kind.run(run)
        if (ended := record_end(run, end)) and isinstance(kind, Conversation):
            await kind.after_end(run, end, ended)
        await job.log.commit()
        if end.decision.action != "retry":
            return end.decision


def stage_failure(job: Job, stage: Stage) -> Decision:
    """How a flow ends whose required stage did not complete."""
    if why := explain_failure(job, stage):
        return Decision("stuck", "stage_failed", why)
    latest = job.state.tree.attempts[stage.id][-1]
    why = say_reason(latest.why) or "it was not finished"
    return Decision("stuck", "stage_failed", f'Stage "{stage.id}" did not complete: {why.rstrip(".")}.')


def reopen_attempt(job: Job, stage: Stage, place: str) -> StageRun | None:
    """The attempt that a crash cut short, if there is one at this place."""
    latest = job.state.tree.latest_at(place)
    if latest is None or latest.ending is not None:
        return None
    interrupted = job.memory.interrupted.pop(latest.path, Interrupted())
    return StageRun(job, stage, latest.path, interrupted.entrance, interrupted, turn=latest.counts.turns)


def open_attempt(job: Job, stage: Stage, parent: str, entrance: Entrance) -> StageRun:
    """A new attempt. It is recorded with what the kind records first."""
    attempts = len(job.state.tree.places.get(join_path(parent, stage.id), ()))
    run = StageRun(job, stage, join_path(parent, stage.id, attempts + 1), entrance)
    started = StageStarted(
        stage=stage.id,
        title=stage.title if run.is_announced else "",
        announced=run.is_announced,
        attempt=job.state.tree.attempts_at(stage.id) + 1,
        reason=entrance.reason,
        tools=tuple(spec.name for spec in run.scope.every) if run.is_conversation else (),
        turns=stage.budget.turns,
        item=stage.item,
        stage_kind=stage.kind,
    )
    run.record(started)
    return run


def record_end(run: StageRun, end: StageEnd) -> StageEnded | None:
    """Records how the attempt ended; None if it has not.

    An attempt that waits for a proposal to be applied has not ended. Neither has a run of the steps that the
    environment failed.
    """
    decision = end.decision
    if decision.action == "propose" or (decision.action == "infra" and not run.is_announced):
        return None
    ending = _ENDINGS.get(decision.action, "failed")
    if decision.action == "advance" and decision.reason != "done":
        ending = "exhausted"
    if decision.action not in ("advance", "infra") and run.is_announced:
        run.record(DecisionMade(action=decision.action, reason=decision.reason, detail=decision.detail))
    ended = StageEnded(stage=run.stage.id, ending=ending, reason=decision.reason, note=end.note)
    run.record(ended)
    return ended


async def wait_for_retry(job: Job, stage: Stage, place: str) -> Entrance | None:
    """Waits before another attempt, if one is due; returns what it is told."""
    reason = job.state.tree.retries.get(place)
    if not reason:
        return None
    await _wait_to_retry(job, stage, place)
    attempt = job.state.tree.attempts_at(stage.id) + 1
    message = fill("retry", stage=stage.id, attempt=attempt, reason=say_reason(reason))
    return Entrance("retry", message if stage.retry_hints else stage_message(stage))


async def _wait_to_retry(job: Job, stage: Stage, place: str) -> None:
    """Waits. The wait is in the log: after a crash, what is left of it follows."""
    latest, due = job.state.tree.places[place][-1], job.state.tree.retry_at.get(place)
    seconds = retry_seconds(latest.counts.attempts, stage.budget)
    if not seconds:
        return
    if due is None:
        detail = f"attempted again in {seconds:g} s ({latest.counts.attempts} of {stage.budget.retries})"
        body = DecisionMade(action="wait", reason="retry_backoff", detail=detail, seconds=seconds)
        job.log.record(latest.path, 0, body)
        await job.log.commit()
    left = seconds if due is None else min(due - job.clock.now(), seconds)
    if left > 0:
        await job.rest(left)


# The attempts of a task that was interrupted, from its events and what was said in them.


def restore(job: Job, events: Iterable[Event], contents: Mapping[int, str]) -> None:
    """Gives the job the transcripts, views and messages that the process that crashed had in memory."""
    runs: dict[str, StageRun] = {}
    left: dict[str, Interrupted] = {}
    for event in events:
        content = contents.get(event.seq, "")
        if isinstance(event.body, StageStarted) and (stage := job.stage_at(event.path)):
            runs[event.path] = StageRun(job, stage, event.path, Entrance(event.body.reason))
            left[event.path] = Interrupted(Entrance(event.body.reason))
        run = runs.get(event.path)
        if run is None:
            continue
        left[event.path] = _left_after(left[event.path], event.body, content)
        job.parts.kinds[run.stage.kind].replay(run, event.body, content)
    still_open = [entered.path for entered in job.state.tree.open_attempts() if entered.path in left]
    job.memory.interrupted = {path: left[path] for path in still_open}


def _left_after(left: Interrupted, body: Body, content: str) -> Interrupted:
    """What is known about an attempt after one more event."""
    match body:
        case MessageAdded(slug=slug) if slug == left.entrance.reason:
            return replace(left, entrance=replace(left.entrance, message=content))
        case ReplyReceived(finish=finish):
            return replace(left, cut_off=finish == "length")
        case _:
            return left
