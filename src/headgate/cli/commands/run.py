"""`headgate run`: one task, from its text to its report."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace

import click

from headgate.cli.exit_codes import EXIT_CODES
from headgate.cli.show.endings import try_exit_code
from headgate.cli.show.follow import follow_task
from headgate.cli.submission import Submission, resume_option, submission_options
from headgate.core import Options, Task
from headgate.engine import Engine

BLOCK_TEST_EDITS = ("HEADGATE_BLOCK_TEST_EDITS", "LOCALCODE_BLOCK_TEST_EDITS")
"""The first of these that says anything decides; tests are protected unless it says no."""
_NO = frozenset({"0", "false", "no", "off"})


@click.command("run")
@submission_options
@resume_option
@click.option("--json", "as_json", is_flag=True, help="Print one event per line, then the report.")
@click.option(
    "--benchmark", "is_try", is_flag=True, help="Print only one line: Finished TryN, or why it failed."
)
@click.option(
    "--try",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="The number of this try, for --benchmark.",
)
def command(
    submission: Submission, resume: str | None, as_json: bool, is_try: bool, number: int | None
) -> None:
    """Run a task and wait for it to end.

    TEXT says in plain words what to do; - reads it from standard input. Sections headed Constraints:,
    Non-goals: and Boundaries: in TEXT bind the task, and so do --keep, --non-goal and --boundary. If a
    boundary protects nothing, standard error says so at once.

    Tasks run one at a time, in the order in which they were submitted. Ctrl-C cancels the task; a second
    Ctrl-C quits at once. If the terminal is closed, the task continues in the background: headgate watch
    follows it.

    With --dry-run Headgate writes no file and runs no command. It prints the proposed changes as a diff, for
    headgate apply or headgate abort.

    With --resume ID no TEXT is needed. An interrupted or queued task continues; a queued one takes the
    configuration as it is now. A task that ended as STUCK, INFRA_ERROR or CANCELLED is tried again: a new
    task starts with its report, and TEXT, if given, is added to the request.

    If the environment fails an earlier task, for example because the model server is down, the queue is
    paused: this task stays queued, and the exit code is 3.

    With --benchmark --try N standard output is one line: Finished TryN, or Failed TryN: and the reason. The
    exit code of a failure is 1 whatever the reason, or 130 if the task was cancelled. The task cannot change
    tests, or what decides how they run, unless HEADGATE_BLOCK_TEST_EDITS=0 is in the environment.
    """
    check_benchmark_options(is_try, number, as_json, submission.options.dry_run)
    submission.check_text("run", resume)
    if number is not None:
        options = benchmark_options(submission.options, number, os.environ)
        submission = replace(submission, options=options)
    is_try_of = number

    async def begin(engine: Engine) -> Task:
        nonlocal is_try_of
        task = submission.submit_to(engine, resume)
        is_try_of = None if as_json else task.benchmark
        return task

    following = follow_task(submission.root, begin, as_json, submission.notes, submission.read_config)
    report = asyncio.run(following).report
    code = EXIT_CODES[report.state] if is_try_of is None else try_exit_code(report.state)
    sys.exit(code)


def benchmark_options(options: Options, number: int, environ: Mapping[str, str]) -> Options:
    """The options of a task that is a try: tests are protected, unless the environment says no."""
    said = next((value for name in BLOCK_TEST_EDITS if (value := environ.get(name, "").strip())), "")
    protect = "off" if said.lower() in _NO else "all"
    return options.model_copy(update={"benchmark": number, "protect_tests": protect})


def check_benchmark_options(benchmark: bool, number: int | None, as_json: bool, dry_run: bool) -> None:
    """UsageError for what does not go together: each of these wants standard output for itself."""
    if benchmark != (number is not None):
        raise click.UsageError("Use --benchmark and --try N together, such as --benchmark --try 1.")
    for given, option in ((as_json, "--json"), (dry_run, "--dry-run")):
        if benchmark and given:
            raise click.UsageError(f"--benchmark prints only one line: leave out {option}.")
