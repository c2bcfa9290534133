"""A whole flow: its stages in order, then its own checks, and the way back when they fail.

What comes next follows from the state alone, so a task that was interrupted anywhere goes on from there.
"""

from headgate.core import (
    NO_PLAN,
    Broken,
    Budget,
    Decision,
    Ending,
    Fail,
    Note,
    Pass,
    Stage,
    StageEnded,
    Tally,
    Verdict,
    decide,
    fit_stage,
    is_open,
    next_stage,
)
from headgate.run.beginning import begin
from headgate.run.debug import ask_for_hypotheses, may_replan, mend, replan, replan_step, start_replan
from headgate.run.job import Entrance, Job
from headgate.run.review import review, review_tests, revise
from headgate.run.stage import complete_stage, stage_failure
from headgate.run.verification import run_verification

_ONCE = Budget(verify_loops=1)
"""Where no stage mends: the first failed verification is the last."""


async def run_flow(job: Job) -> Decision:
    """Carries the task out and returns how that ended: advance, stuck or infra."""
    ended = await _run_to_end(job)
    if ended.action == "stuck":
        await ask_for_hypotheses(job, ended)
    return ended


async def _run_to_end(job: Job) -> Decision:
    fix = job.flow.fix_stage(tool.spec for tool in job.tools.values())
    ended = await begin(job) or await _run_stages(job) if job.state.phase == "stages" else None
    while ended is None:
        if fix is None:
            ended = await _close(job)
            continue
        match job.state.phase:
            case "stages" | "revised" | "mended":
                ended = None if not _is_pressed(job) and await review(job) else await _hand_in(job, fix)
            case "returned" if _is_pressed(job):
                ended = await _hand_in(job, fix)
            case "applied":
                ended = await _verify(job, fix)
            case "returned" | "revising":
                ended = await revise(job, fix)
            case "verifying":
                ended = await _verify(job, fix)
            case "verified":
                more = await review_tests(job, pressed=_is_pressed(job))
                ended = None if more else await _decide(job, fix, Pass())
            case "failed":
                ended = await _after_failure(job, fix)
            case "replanning":
                ended = await replan(job, fix)
            case "replanned":
                ended = await mend(job, fix, after_replan=True)
            case "mending":
                ended = await mend(job, fix)
    return ended


async def _hand_in(job: Job, fix: Stage) -> Decision | None:
    """What follows the looks at the diff: the proposal in a dry run, otherwise verification."""
    return await _decide(job, fix, None) if job.proposing else await _verify(job, fix)


async def _close(job: Job) -> Decision | None:
    """What follows the stages where none of them mends: the flow's checks, once, and the end."""
    match job.state.phase:
        case "stages" if job.proposing:
            return await _decide(job, None, None)
        case "verified":
            return await _decide(job, None, Pass())
        case "failed":
            return await _decide(job, None, Fail("verify_failed", job.state.last_failure))
        case _:
            return await _verify(job, None)


async def _run_stages(job: Job) -> Decision | None:
    """Every stage whose needs are met; the decision that ends the flow early, if one does."""
    while True:
        stages, endings = job.stages(), job.state.endings()
        if failed := next(
            (each for each in stages if each.required and endings.get(each.id) == "failed"), None
        ):
            if not failed.item or not may_replan(job):
                return stage_failure(job, failed)
            ended = await replan_step(job, failed)
        elif following := _open_stage(job) or next_stage(stages, _met(stages, endings)):
            ended = await complete_stage(job, following, Entrance())
            if ended and following.item and ended.reason == "stage_failed":
                continue
        else:
            return await _skip_rest(job, stages)
        if ended:
            return ended


def _met(stages: tuple[Stage, ...], endings: dict[str, Ending]) -> dict[str, Ending]:
    """How stages ended, for those that need them; one that does not apply stands in nobody's way."""
    needed = {need for stage in stages for need in stage.needs}
    idle = needed - {stage.id for stage in stages} - {NO_PLAN}
    return {**dict.fromkeys(idle, "completed"), **endings}


async def _skip_rest(job: Job, stages: tuple[Stage, ...]) -> Decision | None:
    ended = job.state.endings()
    not_run = [stage for stage in stages if stage.id not in ended]
    for stage in not_run:
        note = Note(summary="Not run: a stage it needs did not complete.")
        skipped = StageEnded(stage=stage.id, ending="skipped", reason="needs_not_met", note=note)
        job.log.record(stage.id, 0, skipped)
    await job.log.commit()
    missing = next((stage for stage in not_run if stage.required), None)
    if missing:
        lacks = "there is no plan" if NO_PLAN in missing.needs else "a stage it needs did not complete"
        why = f'Stage "{missing.id}" could not run: {lacks}.'
        return decide(Tally(ended_flow=True, failed_stage=why), missing.budget)
    return None


def _open_stage(job: Job) -> Stage | None:
    under_way = job.state.open_attempt()
    name = under_way.stage if under_way else job.state.pending_retry[0] if job.state.pending_retry else ""
    return job.stage(name) if name else None


async def _decide(job: Job, fix: Stage | None, verdict: Verdict | None) -> Decision:
    unfinished = not _is_finished(job, fix)
    tally = Tally(
        ended_flow=True,
        verdict=verdict,
        verify_loops=job.state.verify_loops,
        consecutive_failures=job.state.consecutive_failures,
        idle_rounds=job.state.idle_rounds,
        idle_attempts=job.state.idle_attempts,
        unfinished=unfinished,
        changed=unfinished and bool(await job.tree.changed_files()),
        proposing=job.proposing,
        stopped=job.stopping(),
        over=job.over,
    )
    return decide(tally, fix.budget if fix else _ONCE)


def _is_pressed(job: Job) -> bool:
    """Whether there is nothing left to ask the model with, so that only verification can follow."""
    return bool(job.over) or job.stopping()


def _is_finished(job: Job, fix: Stage | None) -> bool:
    """Whether the stage that does the work said that it is done, or each of those made for the plan did.

    Where there was none to run, an answer that passed is enough, or a check that passed from the start.
    """
    endings = job.state.endings()
    if fix is None or (fix.id not in endings and fit_stage(fix, job.flow, job.state) is None):
        opening = job.state.opening
        return job.state.repaired or (opening is not None and opening.passed)
    if fix.id in endings or not any(stage.foreach for stage in job.flow.stages):
        return endings.get(fix.id) == "completed"
    steps = [item for item in job.state.plan if is_open(item)]
    return bool(steps) and all(item.status == "completed" for item in steps)


async def _after_failure(job: Job, fix: Stage) -> Decision | None:
    decision = await _decide(job, fix, Fail("verify_failed", job.state.last_failure))
    if decision.action == "retry":
        return await mend(job, fix)
    if decision.action == "replan":
        await start_replan(job)
        return None
    return decision


async def _verify(job: Job, fix: Stage | None) -> Decision | None:
    """The flow's own checks; the decision if there are none to run, or if they cannot be run."""
    if not job.flow.checks.verify or job.verifier is None or await _is_only_answered(job):
        return await _decide(job, fix, None)
    finding = await run_verification(job)
    if isinstance(finding.verdict, Broken):
        return await _decide(job, fix, finding.verdict)
    job.failure_message = finding.message
    return None


async def _is_only_answered(job: Job) -> bool:
    """Whether the task is a question that was answered without a changed file."""
    answered = job.task.is_question and bool(job.state.answer)
    return answered and not await job.tree.changed_files()
