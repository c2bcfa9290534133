"""The kinds of stages that every flow has: `talk` has its own module, `verify` is here.

`verify` runs the project's verification steps; a failure sends the work back.
"""

from headgate.core import (
    Body,
    Broken,
    Data,
    Decision,
    Fail,
    FailedRounds,
    FixAttempted,
    Note,
    Repeat,
    Role,
    RoundTally,
    Stage,
    VerifyFinished,
    VerifyRuns,
    clean_text,
    decide_round,
    shorten,
    task_rounds,
)
from headgate.run.flow import judge_task
from headgate.run.job import Job
from headgate.run.stage import Entrance, Judge, Kind, StageEnd, StageRun
from headgate.run.talk import Talk
from headgate.run.verification import run_verification

DIFF_CHARS = 8_000
DONE = Decision("advance", "done")
NOT_IN_DRY_RUN = "not verified: dry run"
NO_STEPS = "not verified: no verification steps are configured"
"""What is told to whoever had a part of the work carried out, of a step that verified nothing."""


class VerifySettings(Data):
    """The settings of a stage of the kind `verify`."""

    strict: bool = False
    """Steps that failed before the task fail the verification, whatever `accept_red_before` says."""


async def _has_passed(job: Job) -> bool:
    """Whether the tree as it is has passed, and nothing was run since whose traces a tree does not show."""
    state = job.state
    return bool(state[VerifyRuns].passing_run and state[VerifyRuns].passed_tree) and (
        await job.place.tree.mark() == state[VerifyRuns].passed_tree
    )


class Verify(Judge):
    """The kind `verify`."""

    name = "verify"
    settings = VerifySettings
    roles = frozenset[Role]({"quiet", "sends_back"})

    async def run(self, run: StageRun) -> StageEnd:
        """Runs the steps. In a dry run, the work is proposed instead; it is verified once it is applied.

        A part of the work that a stage has handed out is not proposed: all of it is, later.
        """
        job, verdict = run.job, run.state.counts.verdict if run.interrupted else None
        if job.place.proposing and run.stage.execution:
            return StageEnd(Decision("skip", "nothing_to_verify"), Note(summary=NOT_IN_DRY_RUN))
        if job.place.proposing:
            return StageEnd(await judge_task(job))
        if job.place.verifier is None:
            said = NO_STEPS if run.stage.execution else ""
            return StageEnd(Decision("skip", "nothing_to_verify"), Note(summary=said))
        if verdict is None and not run.stage.settings.get("strict") and await _has_passed(job):
            return StageEnd(DONE)
        if verdict is None:  # otherwise a crash came right after the run
            found = await run_verification(job, run.path)
            verdict, job.memory.failure_message = found.verdict, found.message or job.memory.failure_message
        match verdict:
            case Broken(reason):
                return StageEnd(Decision("infra", "check_broken", reason))
            case Fail():
                return StageEnd(Decision("fail", "verify_failed", job.state[VerifyRuns].last_failure))
            case _:
                return StageEnd(DONE)

    def has_objected(self, job: Job) -> bool:
        return bool(job.state[VerifyRuns].failures)

    def send_back(self, job: Job, stage: Stage) -> Entrance:
        return Entrance("check_failed", job.memory.failure_message, order="fix")

    async def record_fix(self, job: Job, path: str) -> None:
        """Keeps what was changed after the latest failure, once."""
        failure = job.state[VerifyRuns].failures[-1] if job.state[VerifyRuns].failures else None
        if failure is not None and failure.fix is None:
            diff = job.place.redact(clean_text(await job.place.tree.diff_since(failure.own)))
            fix = FixAttempted(loop=job.state[VerifyRuns].loops, diff=shorten(diff, DIFF_CHARS))
            job.log.record(path, 0, fix)
            await job.log.commit()

    def after_failure(self, job: Job, stage: Stage, rounds: FailedRounds, repeat: Repeat) -> Decision:
        """Another round, a new plan, or the end."""
        state = job.state
        led = any("rewrites_plan" in job.roles[leaf.kind] for leaf in job.flow.leaves())
        tally = RoundTally(
            reason=state[VerifyRuns].last_failure,
            failures=rounds.failures,
            task_failures=state[VerifyRuns].loops,
            in_part=bool(stage.execution),
            since_replan=state[VerifyRuns].failed_in_a_row if led else rounds.since_replan,
            idle_rounds=state[VerifyRuns].idle_rounds,
            idle_attempts=state.tree.idle_attempts,
            over=job.limit_reached,
            stopped=job.people.stopping(),
        )
        return decide_round(tally, repeat, task_rounds(job.flow))

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        if isinstance(body, VerifyFinished) and not body.asked:
            run.job.memory.failure_message = content


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Talk(), Verify())}
