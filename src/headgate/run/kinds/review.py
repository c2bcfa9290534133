"""The kind `review`: checks that look at the task's own diff. Each finding sends the work back once."""

from collections.abc import Sequence

from pydantic import Field

from headgate.checks import Check
from headgate.config import fill
from headgate.core import Broken, CheckFinished, Data, Decision, Fail, Pass, Stage, clean_text, unknown_name
from headgate.errors import ConfigError
from headgate.run.facts import AttemptFacts
from headgate.run.job import Job
from headgate.run.leaf import Entrance, Kind, StageEnd, StageRun


class ReviewSettings(Data):
    """The settings of a stage of the kind `review`."""

    checks: tuple[str, ...] = Field(min_length=1)
    """The checks that look at the diff."""


async def review(run: StageRun) -> StageEnd:
    """Takes every look that is due; ends at the first finding that the model has not been told of."""
    job, checks = run.job, _checks(run.job, run.stage)
    await job.log.commit()  # checks may look at the attempt
    if run.interrupted and isinstance(run.state.verdict, Fail) and (told := _returned(job, checks)):
        return _send(told)
    for check in checks:
        facts = AttemptFacts(run, check.name)
        if not check.applies(facts) or not _is_due(job, check):
            continue
        told_once = facts.was_told
        verdict = await check.judge(facts, 1)
        reason = "" if isinstance(verdict, Pass) else job.redact(clean_text(verdict.reason))
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


def _checks(job: Job, stage: Stage) -> list[Check]:
    """The checks of the stage, in the order in which it names them."""
    names: Sequence[str] = stage.settings["checks"]
    for name in names:
        if name not in job.checks:
            raise ConfigError(unknown_name("check", name, job.checks))
    return [job.checks[name] for name in names]


def _send(reason: str) -> StageEnd:
    return StageEnd(Decision("fail", "review", reason))


def _returned(job: Job, checks: Sequence[Check]) -> str:
    """What the model is to be told of the diff, and has not been told yet."""
    found, names = job.state.review, {check.name for check in checks}
    name = next((name for name in reversed(found.found) if name in names and found.was_told_once(name)), None)
    return found.found[name][-1] if name else ""


def _is_due(job: Job, check: Check) -> bool:
    found, told = job.state.review, job.state.review.was_told_once(check.name)
    if job.is_pressed and not (told and check.spec.after_verification):
        return False
    if check.name not in found.found or told:
        return True
    return check.spec.looks_again and found.loops[check.name] < job.state.verify_loops


def _send_back(job: Job, stage: Stage) -> Entrance:
    found, names = job.state.review, stage.settings["checks"]
    name = next(name for name in reversed(found.found) if name in names and found.findings(name))
    return Entrance("review", fill(job.checks[name].spec.prompt, reason=found.found[name][-1]))


REVIEW = Kind(
    "review", review, settings=ReviewSettings, is_announced=False, finds_once=True, send_back=_send_back
)
