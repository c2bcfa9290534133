"""`headgate run`: one task, from its text to its report."""

import asyncio
import os
import sys
from dataclasses import replace

import click

from headgate.cli import benchmark
from headgate.cli.following import EXIT_CODES, follow_task
from headgate.cli.submission import Submission, resume_option, submission_options
from headgate.core.task import Task
from headgate.engine.engine import Engine


@click.command("run")
@submission_options
@resume_option
@click.option(
    "--json", "as_json", is_flag=True, help="One event per line on standard output, the report last."
)
@click.option("--benchmark", "is_try", is_flag=True, help="Print one line alone: Finished TryN, or why not.")
@click.option("--try", "number", type=click.IntRange(min=1), metavar="N", help="Which try --benchmark is.")
def command(
    submission: Submission, resume: str | None, as_json: bool, is_try: bool, number: int | None
) -> None:
    """Run a task and wait for its end.

    TEXT says in plain words what to do; - reads it from standard input. Sections headed Constraints:,
    Non-goals: and Boundaries: in it bind the task, and so do --keep, --non-goal and --boundary. A boundary
    that protects nothing is named at once, on standard error.

    Tasks run one at a time, in the order in which they came. Ctrl-C cancels the task; a second Ctrl-C quits
    at once. If the terminal is closed, the task goes on in the background: headgate watch follows it.

    With --dry-run nothing is written and no command is run: the proposed changes are printed as a diff, for
    headgate apply or headgate abort.

    With --resume ID no TEXT is needed. A task that was interrupted, or is queued, goes on; a queued one takes
    the configuration as it is now. One that ended as STUCK, INFRA_ERROR or CANCELLED is tried again: a new
    task starts with its report, and TEXT, if given, is added to what was asked for.

    If the environment fails a task that comes before this one, such as a model server that is down, the queue
    is paused: the task stays queued, and the exit code is 3.

    With --benchmark --try N standard output is one line: Finished TryN, or Failed TryN: and why, with exit
    code 1 whatever the reason, or 130 if the task was cancelled. Tests, and what decides how they run, cannot
    be changed then, unless HEADGATE_BLOCK_TEST_EDITS=0 is in the environment.
    """
    benchmark.check_options(is_try, number, as_json, submission.options.dry_run)
    submission.check_text("run", resume)
    if number is not None:
        options = benchmark.as_try(submission.options, number, os.environ)
        submission = replace(submission, options=options)
    is_try_of = number

    async def begin(engine: Engine) -> Task:
        nonlocal is_try_of
        task = submission.submit_to(engine, resume)
        is_try_of = None if as_json else task.benchmark
        return task

    report = asyncio.run(follow_task(submission.root, begin, as_json, submission.notes)).report
    code = EXIT_CODES[report.state] if is_try_of is None else benchmark.exit_code(report.state)
    sys.exit(code)
