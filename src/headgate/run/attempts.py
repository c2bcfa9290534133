"""Attempts at one stage: each is opened, carried out by the kind of the stage, and closed with a note."""

from headgate.config import fill
from headgate.core import (
    Action,
    Decision,
    DecisionMade,
    Ending,
    Stage,
    StageEnded,
    StageStarted,
    join_path,
    say_reason,
)
from headgate.run.first_messages import stage_message
from headgate.run.job import Job
from headgate.run.leaf import Entrance, Interrupted, Kind, StageEnd, StageRun

_ENDINGS: dict[Action, Ending] = {"advance": "completed", "skip": "skipped"}


async def complete_stage(job: Job, stage: Stage, parent: str, entrance: Entrance) -> Decision:
    """Attempts a stage until it ends or its retries are spent; returns the decision that ended it."""
    place = join_path(parent, stage.id)
    kind = job.kinds[stage.kind]
    stage = kind.adapt(job, stage) or stage
    while True:
        if reason := job.state.tree.retries.get(place):
            entrance = _retry(job, stage, reason)
        run = _reopen(job, stage, place) or _open(job, stage, parent, kind, entrance)
        end = await kind.run(run)
        await _close(run, kind, end)
        if end.decision.action != "retry":
            return end.decision


def stage_failure(job: Job, stage: Stage) -> Decision:
    """How a flow ends whose required stage did not complete."""
    if why := job.kinds[stage.kind].explain_failure(job, stage):
        return Decision("stuck", "stage_failed", why)
    latest = job.state.tree.attempts[stage.id][-1]
    why = say_reason(latest.why) if latest.why.isidentifier() else latest.why or "it was not finished"
    return Decision("stuck", "stage_failed", f'Stage "{stage.id}" did not complete: {why}.')


def _reopen(job: Job, stage: Stage, place: str) -> StageRun | None:
    """The attempt that a crash cut short, if there is one at this place."""
    latest = job.state.tree.latest_at(place)
    if latest is None or latest.ending is not None:
        return None
    interrupted = job.interrupted.pop(latest.path, Interrupted())
    return StageRun(job, stage, latest.path, interrupted.entrance, interrupted, turn=latest.turns)


def _open(job: Job, stage: Stage, parent: str, kind: Kind, entrance: Entrance) -> StageRun:
    """A new attempt. It is recorded with what the kind records first."""
    attempts = len(job.state.tree.places.get(join_path(parent, stage.id), ()))
    run = StageRun(job, stage, join_path(parent, stage.id, attempts + 1), entrance)
    started = StageStarted(
        stage=stage.id,
        title=stage.title if kind.is_announced else "",
        attempt=job.state.tree.attempts_at(stage.id) + 1,
        reason=entrance.reason,
        tools=tuple(spec.name for spec in run.all_specs) if stage.kind == "talk" else (),
        turns=stage.budget.turns,
        item=stage.item,
        stage_kind=stage.kind,
    )
    run.record(started)
    return run


async def _close(run: StageRun, kind: Kind, end: StageEnd) -> None:
    """Records how the attempt ended.

    An attempt that waits for a proposal to be applied has not ended. Neither has a run of the steps that the
    environment failed.
    """
    decision = end.decision
    if decision.action == "propose" or (decision.action == "infra" and not kind.is_announced):
        await run.job.log.commit()
        return
    ending = _ENDINGS.get(decision.action, "failed")
    if decision.action == "advance" and decision.reason != "done":
        ending = "exhausted"
    if decision.action not in ("advance", "infra") and kind.is_announced:
        run.record(DecisionMade(action=decision.action, reason=decision.reason, detail=decision.detail))
    run.record(StageEnded(stage=run.stage.id, ending=ending, reason=decision.reason, note=end.note))
    await run.job.log.commit()


def _retry(job: Job, stage: Stage, reason: str) -> Entrance:
    attempt = job.state.tree.attempts_at(stage.id) + 1
    message = fill("retry", stage=stage.id, attempt=attempt, reason=say_reason(reason))
    return Entrance("retry", message if stage.retry_hints else stage_message(stage))
