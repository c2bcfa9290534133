"""Checks on what was done in a stage: pure functions of what was counted."""

from collections.abc import Sequence

from headgate.core import Checks, Fail, Pass, StageState, Verdict

_READ_AGAIN = "no file has been changed yet: read the task again, and do what it asks for"


def check_activity(
    checks: Checks,
    stage: StageState,
    changed: bool,
    named: Sequence[str] = (),
    tests: Sequence[str] = (),
    readable: int | None = None,
    question: bool = False,
) -> Verdict:
    """Whether the stage may be left, or the first thing missing.

    `changed`: the task changed a file; `named`: files that the task names; `tests`: the tests for what it
    names; `readable`: how many files there are to read, where that is less than the check wants; `question`:
    the task is a question, so that a model which insists that nothing has to change is believed.
    """
    read, calls = len(stage.files_read), stage.calls.total()
    wanted_files = checks.files_read if readable is None else min(checks.files_read, readable)
    if read < wanted_files:
        return Fail("files_read", f"read at least {_count(wanted_files, 'file')} first ({read} read so far)")
    unread = [path for path in named if path not in stage.files_read] if checks.named_files else []
    if unread:
        return Fail("named_files", f"read {', '.join(unread)} first (named in the task)")
    untold = [path for path in tests if path not in stage.files_read] if checks.named_tests else []
    if untold:
        return Fail("named_tests", f"read {', '.join(untold)} first (tests for what the task names)")
    if calls < checks.tool_calls:
        wanted = _count(checks.tool_calls, "successful tool call")
        return Fail("tool_calls", f"make at least {wanted} first ({calls} so far)")
    if checks.plan_written and not stage.plan_written:
        return Fail("plan_written", 'write the plan first: call plan_tasks with action "create"')
    if checks.code_changed and not changed and question:
        return Pass() if stage.refused_by["code_changed"] else Fail("code_changed", _READ_AGAIN)
    if checks.code_changed and not changed:
        return Fail("code_changed", "no file has been changed yet: make the change first")
    return Pass()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
