"""The kinds of stages that every flow has: `talk` has its own module, `verify` and `review` are here.

`verify` runs the project's verification steps; a failure sends the work back. `review` has checks look at the
task's own diff; each finding sends the work back once.
"""

from collections.abc import Sequence

from pydantic import Field

from headgate.checks import Check
from headgate.config import fill
from headgate.core import (
    Body,
    Broken,
    CheckFinished,
    Data,
    Decision,
    DiffFindings,
    Executions,
    Fail,
    FailedRounds,
    FixAttempted,
    Note,
    Pass,
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
    unknown_name,
)
from headgate.errors import ConfigError
from headgate.run.exits import AttemptFacts
from headgate.run.flow import judge_task
from headgate.run.job import Job
from headgate.run.planner import PlannerKind
from headgate.run.stage import Entrance, Judge, Kind, StageEnd, StageRun
from headgate.run.talk import Talk
from headgate.run.verification import run_verification

DIFF_CHARS = 8_000
DONE = Decision("advance", "done")
NOT_IN_DRY_RUN = "not verified: dry run"
NO_STEPS = "not verified: no verification steps are configured"
"""What a planner is told about a step that verified nothing."""


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

        What a planner has carried out is only a part of the work: all of it is proposed together, later.
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
        tally = RoundTally(
            reason=state[VerifyRuns].last_failure,
            failures=rounds.failures,
            task_failures=state[VerifyRuns].loops,
            in_recipe=bool(stage.execution),
            since_replan=state[VerifyRuns].failed_in_a_row if state[Executions].all else rounds.since_replan,
            idle_rounds=state[VerifyRuns].idle_rounds,
            idle_attempts=state.tree.idle_attempts,
            over=job.limit_reached,
            stopped=job.people.stopping(),
        )
        return decide_round(tally, repeat, task_rounds(job.flow))

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        if isinstance(body, VerifyFinished) and not body.asked:
            run.job.memory.failure_message = content


class ReviewSettings(Data):
    """The settings of a stage of the kind `review`."""

    checks: tuple[str, ...] = Field(min_length=1)
    """The checks that look at the diff."""


def _checks(job: Job, stage: Stage) -> list[Check]:
    """The checks of the stage, in the order in which it names them."""
    names: Sequence[str] = stage.settings["checks"]
    for name in names:
        if name not in job.parts.checks:
            raise ConfigError(unknown_name("check", name, job.parts.checks))
    return [job.parts.checks[name] for name in names]


def _send(reason: str) -> StageEnd:
    return StageEnd(Decision("fail", "review", reason))


def _returned(job: Job, checks: Sequence[Check]) -> str:
    """What the model is to be told of the diff, and has not been told yet."""
    found, names = job.state[DiffFindings], {check.name for check in checks}
    name = next((name for name in reversed(found.found) if name in names and found.was_told_once(name)), None)
    return found.found[name][-1] if name else ""


def _is_due(job: Job, check: Check) -> bool:
    found, told = job.state[DiffFindings], job.state[DiffFindings].was_told_once(check.name)
    if job.must_end and not (told and check.spec.after_verification):
        return False
    if check.name not in found.found or told:
        return True
    return check.spec.looks_again and found.loops[check.name] < job.state[VerifyRuns].loops


class Review(Judge):
    """The kind `review`."""

    name = "review"
    settings = ReviewSettings
    roles = frozenset[Role]({"quiet", "sends_back", "reports_once"})

    async def run(self, run: StageRun) -> StageEnd:
        """Takes every look that is due; ends at the first finding that the model has not been told of."""
        job, checks = run.job, _checks(run.job, run.stage)
        await job.log.commit()  # checks may look at the attempt
        if (
            run.interrupted
            and isinstance(run.state.counts.verdict, Fail)
            and (told := _returned(job, checks))
        ):
            return _send(told)
        for check in checks:
            facts = AttemptFacts(run, check.name)
            if not check.applies(facts) or not _is_due(job, check):
                continue
            told_once = facts.was_told
            verdict = await check.judge(facts, 1)
            reason = "" if isinstance(verdict, Pass) else job.place.redact(clean_text(verdict.reason))
            if isinstance(verdict, Broken):
                run.record(CheckFinished(check=check.name, verdict="broken", reason=reason))
                await job.log.commit()
                return StageEnd(Decision("infra", "check_broken", reason))
            # What a person has reviewed and applied is not changed because of what is found afterwards.
            final = check.spec.after_verification and job.task.dry_run
            finished = CheckFinished(
                check=check.name,
                verdict="fail" if reason else "pass",
                reason=reason,
                final=final,
                leads=check.spec.leads,
            )
            run.record(finished)
            await job.log.commit()
            # `was_told` now includes this finding: a first finding goes back to the model.
            if reason and not final and not told_once and facts.was_told:
                return _send(reason)
        return StageEnd(Decision("advance", "done"))

    def send_back(self, job: Job, stage: Stage) -> Entrance:
        found, names = job.state[DiffFindings], stage.settings["checks"]
        name = next(name for name in reversed(found.found) if name in names and found.findings(name))
        return Entrance("review", fill(job.parts.checks[name].spec.prompt, reason=found.found[name][-1]))


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Talk(), Verify(), Review(), PlannerKind())}
