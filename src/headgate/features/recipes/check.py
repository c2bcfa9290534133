"""The check `recipe_complete`: what a planner had executed last is complete."""

from headgate.checks import Check, Facts
from headgate.core import ESCALATE_TOOL, EXECUTE_TOOL, CheckSpec, Fail, Pass, Verdict, VerifyRuns, shorten
from headgate.features.recipes.events import Executions, task_progress


def _unfinished(facts: Facts) -> str:
    """Why the recipe that was executed last is not complete, or that there was none; empty if it is."""
    executions, recipes = facts.state[Executions], facts.flow.recipes
    if not executions.all:
        why = facts.last_error(EXECUTE_TOOL)
        return f"nothing was executed yet{f' ({shorten(why, 200)})' if why else ''}"
    latest = executions.all[executions.last - 1]
    progress = task_progress(facts.state, recipes[latest.task_type], latest)
    if progress.is_complete:
        return ""
    why = f" ({progress.reason.rstrip('.')})" if progress.reason else ""
    return f"{latest.task_type} is not complete{why}"


def _has_completed(facts: Facts) -> bool:
    return any(ended.completed for ended in facts.state[Executions].ended.values())


async def _judge_recipe(facts: Facts, argument: int) -> Verdict:
    missing = _unfinished(facts)
    changed = bool(await facts.changed_files())
    if facts.attempt.counts.granted and not changed:
        missing = missing or "no file was changed"
    elif missing and (changed or _has_completed(facts)):
        # What was done counts: the flow's own checks judge it, and what is open is a warning.
        told = facts.attempt.counts.granted or facts.attempt.refused_by["recipe_complete"]
        missing = "" if told or facts.state[VerifyRuns].passing_run else missing
    if not missing:
        return Pass()
    said = f"{missing}: call execute, or escalate and say why"
    again = ", or say again that the task is done" if changed or _has_completed(facts) else ""
    return Fail("recipe_complete", f"{said}{again}", missing)


async def _still_unfinished(facts: Facts, argument: int) -> str:
    if await facts.changed_files():
        return ""
    return _unfinished(facts) or "no file was changed"


RECIPE_COMPLETE = Check(
    CheckSpec(
        "recipe_complete",
        "The recipe that the planner had executed last is complete. If files have changed, or another one is"
        " complete, the planner is told once, and what is open is then a warning.",
        clause="the last recipe is not complete",
        said_done="before the recipe was complete",
    ),
    _judge_recipe,
    final_tools=lambda attempt: (ESCALATE_TOOL,),
    still_missing=_still_unfinished,
)
