"""How a task ends whose stages have ended well: whether the work counts as done."""

from headgate.core import Decision, WorkTally, is_open, judge_work
from headgate.run.job import Job


async def judge_task(job: Job) -> Decision:
    """The decision that ends the task: advance, propose or stuck."""
    unfinished = not _is_finished(job)
    tally = WorkTally(
        unfinished=unfinished,
        changed=unfinished and bool(await job.tree.changed_files()),
        verified=bool(job.state.passing_run),
        proposing=job.proposing,
    )
    return judge_work(tally)


def _is_finished(job: Job) -> bool:
    """Whether the stage that does the work said that it is done, or each of those made for the plan did.

    Where no such stage had to run, an answer that passed is enough, or a check that passed from the start. A
    flow without such a stage is finished when its stages are.
    """
    state = job.state
    delivering = [leaf for leaf in job.flow.leaves() if leaf.delivers]
    endings = [
        attempts[-1].ending
        for leaf in delivering
        if not leaf.foreach and (attempts := state.tree.attempts.get(leaf.id))
    ]
    if endings:
        return endings[-1] == "completed"
    if any(leaf.foreach for leaf in delivering):
        steps = [item for item in state.plan if is_open(item)]
        return bool(steps) and all(item.status == "completed" for item in steps)
    if not delivering and state.answers.suspects is None:
        return True
    opening = state.answers.opening
    return state.answers.repaired or (opening is not None and opening.passed)
