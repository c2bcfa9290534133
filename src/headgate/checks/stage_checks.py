"""The checks at the exit of a stage: it has read, called, planned or changed what it was to."""

from headgate.checks.registry import Check, Facts
from headgate.core import (
    PLAN_TOOL,
    TASKS_ENDED,
    CheckSpec,
    Fail,
    Pass,
    StageState,
    Verdict,
    list_names,
)

READERS = ("read_file", "read_files")
A_READER = "a tool that reads"
_NOTHING_READ = "no file was read"


async def _judge_files_read(facts: Facts, argument: int) -> Verdict:
    read, wanted = len(facts.attempt.files_read), argument
    if read < wanted:
        wanted = min(wanted, await facts.count_readable(wanted))
    if read >= wanted:
        return Pass()
    files = "1 file" if wanted == 1 else f"{wanted} files"
    reason = f"read at least {files} first ({read} read so far)"
    return Fail("files_read", reason, "" if read else _NOTHING_READ)


async def _still_missing(facts: Facts, argument: int) -> str:
    return _NOTHING_READ if not facts.attempt.files_read and await facts.count_readable(1) else ""


FILES_READ = Check(
    CheckSpec(
        "files_read",
        "The stage read at least this many different files, if the repository has that many.",
        argument="count",
        needs=READERS,
        needs_words=A_READER,
        drawn="{} read",
        counted="file",
        clause="too few files were read",
        said_done="without reading enough files",
    ),
    _judge_files_read,
    still_missing=_still_missing,
)


async def _judge_files(facts: Facts, argument: int) -> Verdict:
    unread = [path for path in await facts.named_files() if path not in facts.attempt.files_read]
    return Fail("named_files", f"read {', '.join(unread)} first (named in the task)") if unread else Pass()


async def _judge_tests(facts: Facts, argument: int) -> Verdict:
    unread = [path for path in await facts.named_tests() if path not in facts.attempt.files_read]
    reason = f"read {', '.join(unread)} first (tests for what the task names)"
    return Fail("named_tests", reason) if unread else Pass()


NAMED_FILES = Check(
    CheckSpec(
        "named_files",
        "The stage read every file that the task names, if it exists and is text.",
        needs=READERS,
        needs_words=A_READER,
        drawn="every file named in the task read",
        clause="a file named in the task was not read",
        said_done="without reading the files named in the task",
    ),
    _judge_files,
)
NAMED_TESTS = Check(
    CheckSpec(
        "named_tests",
        "The stage read the tests named after files and symbols in the task (`test_cart.py` for `cart.py`).",
        needs=READERS,
        needs_words=A_READER,
        drawn="the tests for the files named in the task read",
        clause="a test for what the task names was not read",
        said_done="without reading the tests for what the task names",
    ),
    _judge_tests,
)


async def _judge_calls(facts: Facts, argument: int) -> Verdict:
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
    _judge_calls,
)


async def _judge_plan(facts: Facts, argument: int) -> Verdict:
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
    _judge_plan,
    final_tools=_final_tools,
)


async def _judge_change(facts: Facts, argument: int) -> Verdict:
    refused = facts.attempt.refused_by["code_changed"]
    # In a part of the work, a change that an earlier part made says little; a model that insists is believed.
    if await facts.changed_files():
        if facts.has_acted or refused:
            return Pass()
        said = (
            "no file has been changed for these goals yet: make the change, or say again that none is needed"
        )
        return Fail("code_changed", said)
    return Fail("code_changed", "no file has been changed yet: make the change first")


async def _judge_tasks(facts: Facts, argument: int) -> Verdict:
    tasks = facts.open_stages
    if not tasks:
        return Pass()
    return Fail(TASKS_ENDED, f"these tasks have not ended: {list_names(tasks, 20, 500)}; call start_task")


TASKS_ENDED_CHECK = Check(
    CheckSpec(
        TASKS_ENDED,
        "Every task of the list has ended. Each stage of the kind `drive` has this check.",
        clause="tasks of the list have not ended",
        said_done="before all tasks had ended",
    ),
    _judge_tasks,
)


CODE_CHANGED = Check(
    CheckSpec(
        "code_changed",
        "The task has changed at least one file.",
        order=60,
        clause="no file was changed",
        said_done="without changing a file",
    ),
    _judge_change,
)


async def _judge_change_or_answer(facts: Facts, argument: int) -> Verdict:
    refused = facts.attempt.refused_by[CHANGE_OR_ANSWER.name]
    if refused >= argument or await facts.changed_files():
        return Pass()
    again = "; if it needs none, give your answer again" if refused else ""
    return Fail(CHANGE_OR_ANSWER.name, f"no file has been changed yet: make the change first{again}")


CHANGE_OR_ANSWER = Check(
    CheckSpec(
        "change_or_answer",
        "The task has changed at least one file. After so many refusals, what the model says is its answer.",
        argument="count",
        drawn="a file changed, or the answer given again after {}",
        counted="refusal",
        order=60,
        clause="no file was changed",
        said_done="without changing a file",
    ),
    _judge_change_or_answer,
)
