"""A look at the task's own diff. Each finding goes back to the model once.

Two looks come before verification, and in a dry run before the proposal. Whether a test is missing is judged
once verification has passed: a check that was red at the start and is green now is the test.
"""

from headgate.checks import check_scope, check_tests, check_weakened
from headgate.config import fill
from headgate.core import CheckFinished, Decision, Fail, Pass, Stage, Verdict, clean_text
from headgate.run.baseline import was_red
from headgate.run.job import Entrance, Job
from headgate.run.stage import complete_stage, stage_failure

BEFORE_VERIFICATION = ("diff_scope", "tests_weakened")
AFTER_VERIFICATION = "tests_touched"


async def review(job: Job) -> bool:
    """Runs the next look that is due before verification; False when there is none left."""
    name = next((check for check in BEFORE_VERIFICATION if _is_due(job, check)), None)
    if name is None:
        return False
    await _record(job, name, await _look(job, name))
    return True


async def review_tests(job: Job, *, pressed: bool) -> bool:
    """Looks, after a verification that passed, whether what was changed has a test; False if it need not.

    What a person has reviewed and applied is not changed because of that: there it is a warning at once.
    """
    check = AFTER_VERIFICATION
    told = _was_told_once(job, check)
    if not _is_due(job, check) or (pressed and not told):
        return False
    verdict = check_tests(await job.tree.own_diff(), job.task.request)
    if isinstance(verdict, Fail) and not told and await was_red(job) is not False:
        verdict = Pass()
    await _record(job, check, verdict, final=job.task.dry_run)
    return True


async def revise(job: Job, fix: Stage) -> Decision | None:
    """Hands a finding to the stage that mends; returns what ends the flow, if it does.

    Work that has passed verification is not given up because no test came of it.
    """
    check = next(name for name in reversed(job.state.reviews) if _was_told_once(job, name))
    ended: Decision | None = None
    if job.state.phase == "returned" or job.state.open_attempt(fix.id) or job.state.pending_retry:
        text = "review_tests" if check == AFTER_VERIFICATION else "review"
        message = fill(text, reason=job.state.reviews[check][-1])
        ended = await complete_stage(job, fix, Entrance("review", message))
    elif job.state.endings()[fix.id] == "failed" and fix.required:
        ended = stage_failure(job, fix)
    return None if check == AFTER_VERIFICATION else ended


async def _record(job: Job, check: str, verdict: Verdict, *, final: bool = False) -> None:
    reason = "" if isinstance(verdict, Pass) else job.redact(clean_text(verdict.reason))
    finished = CheckFinished(check=check, verdict="fail" if reason else "pass", reason=reason, final=final)
    job.log.record("", 0, finished)
    await job.log.commit()


def _is_due(job: Job, check: str) -> bool:
    if not getattr(job.flow.checks, check):
        return False
    if check == "tests_touched" and (job.tests_closed or job.state.repaired):
        return False  # it asks for what is refused, or the check that failed at the start is the test
    if check not in job.state.reviews or _was_told_once(job, check):
        return True
    # Tests are weakened above all by a model that cannot get them to pass: look again after each attempt.
    return check == "tests_weakened" and job.state.reviewed_loops[check] < job.state.verify_loops


def _was_told_once(job: Job, check: str) -> bool:
    """Whether the model was told what a look found, and the second look is still to come."""
    if check not in job.state.reviews or check in job.state.final_reviews:
        return False
    return len(job.state.findings(check)) == 1 and bool(job.state.reviews[check][-1])


async def _look(job: Job, check: str) -> Verdict:
    diff = await job.tree.own_diff()
    if check == "tests_weakened":
        return check_weakened(diff.text, job.task.request)
    plan = [f"{item.description} {item.goal}" for item in job.state.plan]
    return check_scope(diff, [*plan, job.task.text] if plan else [])
