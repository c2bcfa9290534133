"""The check `tool_calls`: the stage did something."""

from headgate.checks.registry import Check, Facts
from headgate.core import CheckSpec, Fail, Pass, Verdict


async def _judge(facts: Facts, argument: int) -> Verdict:
    calls = facts.attempt.calls.total()
    if calls >= argument:
        return Pass()
    wanted = "1 successful tool call" if argument == 1 else f"{argument} successful tool calls"
    return Fail("tool_calls", f"make at least {wanted} first ({calls} so far)")


TOOL_CALLS = Check(
    CheckSpec(
        "tool_calls",
        "At least this many tool calls, not counting signals, succeeded in the stage.",
        argument="count",
        drawn="{}",
        counted="tool call",
        clause="too few calls succeeded",
        said_done="without making enough calls",
    ),
    _judge,
)
