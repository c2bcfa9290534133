"""The kind `verify`: the project's verification steps. A failure sends the work back."""

from headgate.core import (
    AnyBody,
    Broken,
    Data,
    Decision,
    Fail,
    FixAttempted,
    Repeat,
    RoundTally,
    Stage,
    VerifyFinished,
    clean_text,
    decide_round,
    shorten,
)
from headgate.run.flow import judge_task
from headgate.run.job import Job
from headgate.run.leaf import Entrance, FailedRounds, Kind, StageEnd, StageRun
from headgate.run.verification import run_verification

DIFF_CHARS = 8_000
DONE = Decision("advance", "done")


class VerifySettings(Data):
    """The settings of a stage of the kind `verify`."""

    strict: bool = False
    """Steps that failed before the task fail the verification, whatever `accept_red_before` says."""


async def verify(run: StageRun) -> StageEnd:
    """Runs the steps. In a dry run, the work is proposed instead; it is verified once it is applied."""
    job, verdict = run.job, run.state.verdict if run.interrupted else None
    if job.proposing:
        return StageEnd(await judge_task(job))
    if job.verifier is None or await _is_only_answered(job):
        return StageEnd(Decision("skip", "nothing_to_verify"))
    if verdict is None:  # otherwise a crash came right after the run
        found = await run_verification(job, run.path)
        verdict, job.failure_message = found.verdict, found.message or job.failure_message
    match verdict:
        case Broken(reason):
            return StageEnd(Decision("infra", "check_broken", reason))
        case Fail():
            return StageEnd(Decision("fail", "verify_failed", job.state.last_failure))
        case _:
            return StageEnd(DONE)


async def _is_only_answered(job: Job) -> bool:
    """Whether the task is a question that was answered without a changed file."""
    answered = job.task.is_question and bool(job.state.answer)
    return answered and not await job.tree.changed_files()


def _send_back(job: Job, stage: Stage) -> Entrance:
    return Entrance("check_failed", job.failure_message)


def _after_failure(job: Job, stage: Stage, rounds: FailedRounds, repeat: Repeat) -> Decision:
    """Another round, a new plan, or the end."""
    state = job.state
    tally = RoundTally(
        reason=state.last_failure,
        failures=rounds.failures,
        since_replan=rounds.since_replan,
        idle_rounds=state.idle_rounds,
        idle_attempts=state.idle_attempts,
        over=job.over,
        stopped=job.stopping(),
    )
    return decide_round(tally, repeat)


async def _record_fix(job: Job, path: str) -> None:
    """Keeps what was changed after the latest failure, once."""
    failure = job.state.failures[-1] if job.state.failures else None
    if failure is not None and failure.fix is None:
        diff = job.redact(clean_text(await job.tree.diff_since(failure.tree)))
        fix = FixAttempted(loop=job.state.verify_loops, diff=shorten(diff, DIFF_CHARS))
        job.log.record(path, 0, fix)
        await job.log.commit()


def _replay(run: StageRun, body: AnyBody, content: str) -> None:
    if isinstance(body, VerifyFinished) and not body.asked:
        run.job.failure_message = content


VERIFY = Kind(
    "verify",
    verify,
    settings=VerifySettings,
    is_announced=False,
    send_back=_send_back,
    after_told=_record_fix,
    after_failure=_after_failure,
    replay=_replay,
)
