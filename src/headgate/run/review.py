"""A look at the task's own diff before it is verified. Each finding goes back to the model once."""

import asyncio

from headgate.checks.scope import check_scope, check_tests, read_diff
from headgate.checks.weakened import check_weakened
from headgate.config.texts import fill
from headgate.core.events import CheckFinished
from headgate.core.flow import Stage
from headgate.core.messages import clean_text
from headgate.core.rules import Decision, Pass, Verdict
from headgate.core.state import REVIEWS
from headgate.core.testfiles import is_test
from headgate.run.attempts import complete_stage, stage_failure
from headgate.run.job import Entrance, Job


async def review(job: Job) -> bool:
    """Runs the next look that is due; False when there is none left."""
    name = next((check for check in REVIEWS if _is_due(job, check)), None)
    if name is None:
        return False
    verdict = await _look(job, name)
    reason = "" if isinstance(verdict, Pass) else job.redact(clean_text(verdict.reason))
    job.log.record("", 0, CheckFinished(check=name, verdict="fail" if reason else "pass", reason=reason))
    await job.log.commit()
    return True


async def revise(job: Job, fix: Stage) -> Decision | None:
    """Hands a finding to the stage that mends; returns what ends the flow, if it does."""
    if job.state.phase == "returned" or job.state.open_attempt(fix.id) or job.state.pending_retry:
        reason = next(found[-1] for check, found in job.state.reviews.items() if _was_told_once(job, check))
        return await complete_stage(job, fix, Entrance("review", fill("review", reason=reason)))
    return stage_failure(job, fix) if job.state.endings()[fix.id] == "failed" and fix.required else None


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
    return len(job.state.findings(check)) == 1 and bool(job.state.reviews[check][-1])


async def _look(job: Job, check: str) -> Verdict:
    text = await job.tree.diff_since(job.state.baseline)
    if check == "tests_weakened":
        return check_weakened(text, job.task.request)
    diff = read_diff(text)
    if check == "diff_scope":
        plan = [f"{item.description} {item.goal}" for item in job.state.plan]
        return check_scope(diff, [*plan, job.task.text] if plan else [])
    return check_tests(diff, job.task.request, await asyncio.to_thread(_has_tests, job))


def _has_tests(job: Job) -> bool:
    return any(is_test(path) for path in job.context.workspace.files())
