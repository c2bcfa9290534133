"""The checks `named_files` and `named_tests`: the stage read what the task names, and the tests for it."""

from headgate.checks.files_read import A_READER, READERS
from headgate.checks.registry import Check, Facts
from headgate.core import CheckSpec, Fail, Pass, Verdict


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
