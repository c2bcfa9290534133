"""Checks on what was done in a stage: pure functions of what was counted."""

from headgate.core.flow import Checks
from headgate.core.rules import Fail, Pass, Verdict
from headgate.core.state import StageState


def check_activity(checks: Checks, stage: StageState, changed: bool) -> Verdict:
    """Whether the stage may be left, or the first thing missing. `changed`: the task changed a file."""
    read, calls = len(stage.files_read), stage.calls.total()
    if read < checks.files_read:
        return Fail(
            "files_read", f"read at least {_count(checks.files_read, 'file')} first ({read} read so far)"
        )
    if calls < checks.tool_calls:
        wanted = _count(checks.tool_calls, "successful tool call")
        return Fail("tool_calls", f"make at least {wanted} first ({calls} so far)")
    if checks.plan_written and not stage.plan_written:
        return Fail("plan_written", 'write the plan first: call plan_tasks with action "create"')
    if checks.code_changed and not changed:
        return Fail("code_changed", "no file has been changed yet: make the change first")
    return Pass()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
