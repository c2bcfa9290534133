"""The kind `review`: checks look at the task's own diff; each finding sends the work back once."""

from collections.abc import Sequence

from pydantic import Field

from headgate.checks import Check
from headgate.config import fill
from headgate.core import (
    Broken,
    CheckFinished,
    Data,
    Decision,
    Fail,
    Pass,
    Role,
    Stage,
    VerifyRuns,
    clean_text,
    unknown_name,
)
from headgate.errors import ConfigError
from headgate.features.reviews.events import DiffFindings
from headgate.run import AttemptFacts, Entrance, Job, Judge, StageEnd, StageRun


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
            and (told := job.state[DiffFindings].latest_of(check.name for check in checks))
        ):
            return _send(told)
        for check in checks:
            told_once = job.state[DiffFindings].was_told_once(check.name)
            facts = AttemptFacts(run, was_told=told_once)
            if not check.applies(facts) or not _is_due(job, check):
                continue
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
            # This finding is in the state now: a first one goes back to the model.
            is_told_now = job.state[DiffFindings].was_told_once(check.name)
            if reason and not final and not told_once and is_told_now:
                return _send(reason)
        return StageEnd(Decision("advance", "done"))

    def has_objected(self, job: Job) -> bool:
        return bool(job.state[DiffFindings])

    def send_back(self, job: Job, stage: Stage) -> Entrance:
        found, names = job.state[DiffFindings], stage.settings["checks"]
        name = next(name for name in reversed(found.found) if name in names and found.findings(name))
        return Entrance("review", fill(job.parts.checks[name].spec.prompt, reason=found.found[name][-1]))
