"""The check `code_changed`: the task has changed something."""

from headgate.checks.registry import Check, Facts
from headgate.core import CheckSpec, Fail, Pass, Verdict


async def _judge(facts: Facts, argument: int) -> Verdict:
    if await facts.changed_files():
        return Pass()
    if not facts.is_question:
        return Fail("code_changed", "no file has been changed yet: make the change first")
    # A model that insists that a question needs no change is believed.
    if facts.attempt.refused_by["code_changed"]:
        return Pass()
    return Fail("code_changed", "no file has been changed yet: read the task again, and do what it asks for")


CODE_CHANGED = Check(
    CheckSpec(
        "code_changed",
        "The task has changed at least one file.",
        clause="no file was changed",
        said_done="without changing a file",
    ),
    _judge,
)
