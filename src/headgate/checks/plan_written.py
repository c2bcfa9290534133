"""The check `plan_written`: the stage wrote a plan."""

from headgate.checks.registry import Check, Facts
from headgate.core import PLAN_TOOL, CheckSpec, Fail, Pass, StageState, Verdict


async def _judge(facts: Facts, argument: int) -> Verdict:
    if facts.attempt.plan_written:
        return Pass()
    return Fail("plan_written", f'write the plan first: call {PLAN_TOOL} with action "create"')


def _final_tools(attempt: StageState) -> tuple[str, ...]:
    return () if attempt.plan_written else (PLAN_TOOL,)


PLAN_WRITTEN = Check(
    CheckSpec(
        "plan_written",
        "The stage wrote a plan.",
        needs=(PLAN_TOOL,),
        clause="no plan was written",
        said_done="without writing a plan",
    ),
    _judge,
    final_tools=_final_tools,
)
