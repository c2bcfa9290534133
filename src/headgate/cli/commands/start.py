"""`headgate run`, `submit` and `ask`: a new task, or one that goes on."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from headgate.cli.endings import try_exit_code
from headgate.cli.follow import follow_task
from headgate.cli.printing import printable, say, tell
from headgate.cli.shared import EXIT_CODES
from headgate.cli.submission import (
    QUESTION_OPTIONS,
    TASK_OPTIONS,
    add_options,
    read_submission,
    with_followed,
)
from headgate.cli.worker import open_engine
from headgate.config import is_on_this_machine
from headgate.core import Constraints, Options, Task
from headgate.engine import Engine
from headgate.errors import ConfigError

BLOCK_TEST_EDITS = ("HEADGATE_BLOCK_TEST_EDITS", "LOCALCODE_BLOCK_TEST_EDITS")
"""The first of these that says anything decides; tests are protected unless it says no."""
_NO = frozenset({"0", "false", "no", "off"})


_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one event per line, then the report."
)


@click.command("run")
@add_options(TASK_OPTIONS)
@_json_option
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
def run_command(as_json: bool, is_try: bool, number: int | None, **given: Any) -> None:
    """Run a task and wait for it to end.

    TEXT says in plain words what to do. Sections headed Constraints:, Non-goals: and Boundaries: in TEXT bind
    the task, and so do --keep, --non-goal and --boundary. If a boundary protects nothing, standard error says
    so at once. @src/app.py, @src/app.py:10-40 and @src/ in TEXT show the model that file, those lines or the
    names of those files from the start.

    A single - reads TEXT from standard input. If that is the output of tests or a compiler, the task is to
    fix what fails in it. TEXT and - together attach standard input to TEXT.

    Tasks run one at a time, in the order in which they were submitted. Ctrl-C cancels the task; a second
    Ctrl-C quits at once. If the terminal is closed, the task continues in the background: headgate watch
    follows it.

    With --dry-run Headgate writes no file and runs no command. It prints the proposed changes as a diff, for
    headgate apply or headgate abort.

    With --worktree the task works in .headgate/worktrees/ID, on a new branch headgate/ID, and your own tree
    is not touched. It does not contain uncommitted changes. headgate apply writes the result to your tree;
    headgate abort removes the worktree and the branch. --commit commits a success on that branch.

    With --resume ID no TEXT is needed. An interrupted or queued task continues; a queued one takes the
    configuration as it is now. A task that ended as STUCK, INFRA_ERROR or CANCELLED is tried again: a new
    task starts with its report, and TEXT, if given, is added to the request.

    With --follow ID the task is a follow-up of one that has ended: the model gets the request of that
    task, how it ended, its notes and its diff. Its constraints hold for the new task, too.

    If the environment fails an earlier task, for example because the model server is down, the queue is
    paused: this task stays queued, and the exit code is 3.

    With --benchmark --try N standard output is one line: Finished TryN, or Failed TryN: and the reason. The
    exit code of a failure is 1 whatever the reason, or 130 if the task was cancelled. The task cannot change
    tests, or what decides how they run, unless HEADGATE_BLOCK_TEST_EDITS=0 is in the environment.
    """
    submission = read_submission(**given)
    check_benchmark_options(is_try, number, as_json, submission.options.dry_run)
    if number is not None:
        options = benchmark_options(submission.options, number, os.environ)
        submission = replace(submission, options=options)
    is_try_of = number

    async def begin(engine: Engine) -> Task:
        nonlocal is_try_of
        task = submission.submit_to(engine)
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


@click.command("submit")
@add_options(TASK_OPTIONS)
@click.option("--no-start", is_flag=True, help="Only queue the task; the next run or submit starts the work.")
def submit_command(no_start: bool, **given: Any) -> None:
    """Queue a task and return at once.

    Prints the task's id alone; standard error says what can be done next. Tasks run in the background, one at
    a time, in the order in which they were submitted. TEXT and the options are those of headgate run. The
    configuration and the flow are fixed now: later changes to their files do not affect this task.

    If the environment fails a task, for example because the model server is down, the queue is paused and
    later tasks stay queued; headgate tasks shows the reason. A task that is submitted then stays queued, too.
    To continue, use submit --resume ID with a queued task or with the one that failed, or headgate run. A
    queued task that you name takes the configuration as it is now.
    """
    submission = read_submission(**given)
    resume = submission.resume
    with open_engine(submission.root, read_config=submission.read_config) as engine:
        engine.on_notice = lambda line: tell(printable(line))
        for note in submission.notes:
            tell(note)
        task = submission.submit_to(engine)
        if no_start and resume and task.resumes != resume.lower():
            raise ConfigError(f"Task {task.id} is already queued: leave out --no-start.")
        for model, address in task.models:
            if address and not is_on_this_machine(address):
                tell(f"Task {task.id} will use {model} at {address}.")
        if task.package:
            tell(f"Task {task.id} will work on the package {task.package}.")
        say(task.id)
        if not no_start and (pause := engine.wake_worker(try_again=resume is not None)):
            tell(printable(pause.sentence()))
        waits = " It waits for the next headgate run or submit." if no_start else ""
        then = f"headgate watch {task.id} follows it; headgate cancel {task.id} cancels it.{waits}"
        tell(then)


@click.command("ask")
@add_options(QUESTION_OPTIONS)
@_json_option
def ask_command(as_json: bool, **given: Any) -> None:
    """Ask a question about the code and print the answer.

    TEXT is the question; - reads it from standard input, and TEXT and - together attach standard input to
    TEXT. @src/app.py in TEXT shows the model that file. The model can only read and search files: it changes
    no file and runs no command. Standard output contains only the answer; progress goes to standard error.
    headgate show prints the answer again, and --follow last asks on.

    A question is a task like any other: it waits for earlier tasks, and Ctrl-C cancels it.
    """
    asked = read_submission(flow="ask", **given)

    async def begin(engine: Engine) -> Task:
        return engine.submit(asked.text, Constraints(), with_followed(engine, asked.options))

    following = follow_task(asked.root, begin, as_json, asked.notes, asked.read_config, answer_alone=True)
    sys.exit(EXIT_CODES[asyncio.run(following).report.state])
