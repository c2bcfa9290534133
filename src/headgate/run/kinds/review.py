"""The kind `review`: checks that look at the task's own diff. Each finding sends the work back once."""

from headgate.checks import check_scope, check_tests, check_weakened
from headgate.config import fill
from headgate.core import CheckFinished, Data, Decision, Fail, Pass, Stage, Verdict, clean_text
from headgate.run.baseline import was_red
from headgate.run.job import Job
from headgate.run.leaf import Entrance, Kind, StageEnd, StageRun

AFTER_VERIFICATION = "tests_touched"
"""Whether a test is missing is judged once verification has passed: a check that was red at the start and is
green now is the test."""


class ReviewSettings(Data):
    """The settings of a stage of the kind `review`."""

    checks: tuple[str, ...]
    """The checks that look at the diff."""


async def review(run: StageRun) -> StageEnd:
    """Takes every look that is due; ends at the first finding that the model has not been told of."""
    job, checks = run.job, run.stage.settings["checks"]
    if run.interrupted and isinstance(run.state.verdict, Fail) and (told := _returned(job, checks)):
        return _send(told)
    for check in checks:
        if not _is_due(job, check):
            continue
        told_once = job.state.review.was_told_once(check)
        verdict, final = await _look(job, check)
        reason = "" if isinstance(verdict, Pass) else job.redact(clean_text(verdict.reason))
        finished = CheckFinished(
            check=check, verdict="fail" if reason else "pass", reason=reason, final=final
        )
        run.record(finished)
        await job.log.commit()
        if reason and not final and not told_once and job.state.review.was_told_once(check):
            return _send(reason)
    return StageEnd(Decision("advance", "done"))


def _send(reason: str) -> StageEnd:
    return StageEnd(Decision("fail", "review", reason))


def _returned(job: Job, checks: tuple[str, ...]) -> str:
    """What the model is to be told of the diff, and has not been told yet."""
    found = job.state.review
    check = next(
        (check for check in reversed(found.found) if check in checks and found.was_told_once(check)), None
    )
    return found.found[check][-1] if check else ""


def _is_due(job: Job, check: str) -> bool:
    found, told = job.state.review, job.state.review.was_told_once(check)
    if job.is_pressed and not (told and check == AFTER_VERIFICATION):
        return False
    if check == AFTER_VERIFICATION and job.tests_closed:
        return False  # it asks for what is refused
    if check not in found.found or told:
        return True
    # Tests are weakened above all by a model that cannot get them to pass: look again after each attempt.
    return check == "tests_weakened" and found.loops[check] < job.state.verify_loops


async def _look(job: Job, check: str) -> tuple[Verdict, bool]:
    """What a check says to the diff, and whether that is a warning at once."""
    diff = await job.tree.own_diff()
    if check == "tests_weakened":
        return check_weakened(diff.text, job.task.request), False
    if check == "diff_scope":
        plan = [f"{item.description} {item.goal}" for item in job.state.plan]
        return check_scope(diff, [*plan, job.task.text] if plan else []), False
    verdict = check_tests(diff, job.task.request)
    told = job.state.review.was_told_once(check)
    if isinstance(verdict, Fail) and not told and await was_red(job) is not False:
        verdict = Pass()
    # What a person has reviewed and applied is not changed because of a missing test.
    return verdict, job.task.dry_run


def _send_back(job: Job, stage: Stage) -> Entrance:
    checks = stage.settings["checks"]
    found = job.state.review.found
    check = next(check for check in reversed(found) if check in checks and job.state.review.findings(check))
    text = "review_tests" if check == AFTER_VERIFICATION else "review"
    return Entrance("review", fill(text, reason=found[check][-1]))


REVIEW = Kind("review", review, settings=ReviewSettings, is_announced=False, send_back=_send_back)
