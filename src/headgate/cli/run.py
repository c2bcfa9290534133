"""`headgate run`: one task, from its text to its report."""

import asyncio
import os
import sys
from dataclasses import replace

import click

from headgate.cli import benchmark
from headgate.cli.following import EXIT_CODES, follow_task
from headgate.cli.lookup import find_task
from headgate.cli.submission import Submission, describe_boundaries, say_once, submission_options
from headgate.core.task import Constraints, Options, Task
from headgate.engine.engine import RETRIED_STATES, Engine
from headgate.errors import ConfigError


@click.command("run")
@submission_options(text_required=False)
@click.option(
    "--resume",
    metavar="ID",
    help="Go on with an interrupted task, or try one again that ended STUCK or INFRA_ERROR.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One event per line on standard output, the report last."
)
@click.option("--benchmark", "is_try", is_flag=True, help="Print one line alone: Finished TryN, or why not.")
@click.option("--try", "number", type=click.IntRange(min=1), metavar="N", help="Which try --benchmark is.")
def command(
    submission: Submission, resume: str | None, as_json: bool, is_try: bool, number: int | None
) -> None:
    """Run a task and wait for its end.

    TEXT says in plain words what is to be done; - reads it from standard input. Sections headed
    Constraints:, Non-goals: and Boundaries: bind the task, as --keep, --non-goal and --boundary do. A
    boundary that protects nothing is named at once, on standard error.

    Tasks run one at a time, in the order in which they came. Ctrl-C, or closing the terminal, cancels the
    task; a second Ctrl-C quits at once.

    With --dry-run nothing is written and no command is run: the proposed changes are printed as a diff, for
    headgate apply or headgate abort. With --resume no TEXT is needed: a task that was interrupted goes on,
    and one that ended as STUCK or INFRA_ERROR is tried again by a new task that is told its report.

    With --benchmark --try N standard output is one line: Finished TryN, or Failed TryN: and why, with exit
    code 1 whatever the reason, or 130 if the task was cancelled. Tests, and what decides how they run, cannot
    be changed then, unless HEADGATE_BLOCK_TEST_EDITS=0 is in the environment.
    """
    benchmark.check_options(is_try, number, as_json, submission.options.dry_run)
    if resume is None and submission.text is None:
        raise ConfigError(say_once("run"))
    if resume is not None and submission.text is not None:
        raise ConfigError("--resume takes a task up as it was submitted: leave TEXT and --file out.")

    if number is not None:
        options = benchmark.as_try(submission.options, number, os.environ)
        submission = replace(submission, options=options)
    is_try_of = number

    async def begin(engine: Engine) -> Task:
        nonlocal is_try_of
        task = submission.submit_to(engine) if resume is None else take_up(engine, resume, submission)
        is_try_of = None if as_json else task.benchmark
        return task

    report = asyncio.run(follow_task(submission.root, begin, as_json, submission.notes)).report
    code = EXIT_CODES[report.state] if is_try_of is None else benchmark.exit_code(report.state)
    sys.exit(code)


def take_up(engine: Engine, task_id: str, submission: Submission) -> Task:
    """The task to follow: the one that is named, if it has yet to end, or a new one that tries it again."""
    row = find_task(engine.store, task_id)
    if row.state in RETRIED_STATES:
        again = engine.retry(row.task.id, submission.constraints, submission.options)
        return describe_boundaries(engine, again)
    if row.state == "PROPOSED":
        raise ConfigError(
            f"Task {row.task.id} is a proposal: headgate apply {row.task.id} goes on with it, "
            f"headgate abort {row.task.id} gives it up."
        )
    if row.state in ("SUCCESS", "CANCELLED"):
        raise ConfigError(f"Task {row.task.id} is over ({row.state}): submit a new one with headgate run.")
    same = (
        {"benchmark": None, "protect_tests": None}
        if submission.options.benchmark == row.task.benchmark
        else {}
    )
    if (submission.options.model_copy(update=same), submission.constraints) != (Options(), Constraints()):
        raise ConfigError(f"Task {row.task.id} goes on as it was submitted: leave the other options out.")
    return row.task
