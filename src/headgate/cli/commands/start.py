"""`headgate run` and `submit`: new tasks."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from headgate.cli.follow import follow_task, start_worker
from headgate.cli.printing import printable, say
from headgate.cli.shared import (
    EXIT_CODES,
    config_option,
    find_repo_to_act,
    flow_argument,
    model_options,
    package_argument,
    package_option,
    repo_option,
)
from headgate.cli.stored_tasks import find_store, find_task, try_exit_code
from headgate.cli.task_text import explain_text_options, read_task_input
from headgate.cli.terminal import fold_lines, terminal_width
from headgate.config import is_on_this_machine
from headgate.core import SETTLED_STATES, Constraints, Options, Task
from headgate.engine import RETRIED_STATES, ConfigReader, Engine
from headgate.errors import ConfigError


@dataclass(frozen=True)
class Submission:
    """A task as it was given on the command line."""

    root: Path
    text: str | None
    """None where there is no text but that of the task to resume."""
    constraints: Constraints
    options: Options
    read_config: ConfigReader
    """For the engine, so that it does not read again what was read for the notes."""
    notes: tuple[str, ...]
    """What the user should know about the configuration."""

    def check_text(self, command: str, resume: str | None) -> None:
        """ConfigError if there is neither a text nor a task to resume. Nothing has been created by then."""
        if resume is not None and self.options.follows:
            raise ConfigError("--follow starts a new task: leave out --resume.")
        if resume is not None or self.options.follows:
            find_store(self.root)
        if resume is not None:
            return
        if self.text is None:
            raise ConfigError(explain_text_options(command))

    def submit_to(self, engine: Engine, resume: str | None = None) -> Task:
        """The task to carry out: a new one, or the one to resume.

        What the boundaries of a new one mean, and which of them protect nothing, is said at once.
        """
        if resume is not None:
            return self._resume(engine, resume)
        options = with_followed(engine, self.options)
        assert self.text is not None
        return describe_boundaries(engine, engine.submit(self.text, self.constraints, options))

    def _resume(self, engine: Engine, task_id: str) -> Task:
        """The task that is named, if it has yet to end, or a new one that tries it again."""
        row = find_task(engine.store, task_id)
        name = row.task.id
        if row.state in RETRIED_STATES:
            again = engine.retry(name, self.constraints, self.options, self.text or "")
            return describe_boundaries(engine, again)
        if row.state == "PROPOSED":
            raise ConfigError(
                f"Task {name} is a proposal: headgate apply {name} writes it, "
                f"headgate abort {name} discards it."
            )
        if row.state == "SUCCESS":
            raise ConfigError(f"Task {name} has already ended (SUCCESS): start a new one with headgate run.")
        if self.text is not None:
            raise ConfigError(f"Task {name} has not ended and continues as submitted: leave out TEXT.")
        same = (
            {"benchmark": None, "protect_tests": None} if self.options.benchmark == row.task.benchmark else {}
        )
        if (self.options.model_copy(update=same), self.constraints) != (Options(), Constraints()):
            raise ConfigError(f"Task {name} continues as submitted: leave out the other options.")
        return engine.pin_again(name) if row.state == "QUEUED" else row.task


def describe_boundaries(engine: Engine, task: Task) -> Task:
    """Says at once what a new task's boundaries mean, and which of them protect nothing; returns the task."""
    for line in engine.describe_boundaries(task):
        tell_person(line)
    return task


def tell_person(line: str) -> None:
    """A line that whoever submits a task should read."""
    click.echo(printable(line), err=True)


def submission_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds TEXT and every option that describes a task, passed on as one `Submission`."""

    @wraps(function)
    def command(
        *,
        text: tuple[str, ...],
        file: Path | None,
        keep: tuple[str, ...],
        non_goal: tuple[str, ...],
        boundary: tuple[str, ...],
        flow: str | None,
        package: str | None,
        model: str | None,
        base_url: str | None,
        config: Path | None,
        dry_run: bool,
        follow: str | None,
        worktree: bool,
        commit: bool,
        repo: Path | None,
        **others: Any,
    ) -> Any:
        ctx = click.get_current_context()
        if len(text) - text.count("-") > 1:
            raise click.UsageError(f'Put the task\'s text in quotes: {ctx.command_path} "..."', ctx)
        given = None
        if text or file is not None:
            given = read_task_input(text, file, sys.stdin, str(ctx.info_name), tell_person)
        root = find_repo_to_act(repo)
        options = Options(
            flow=flow_argument(flow),
            package=package_argument(package, root),
            model=model,
            base_url=base_url,
            config=str(config.absolute()) if config else None,
            dry_run=dry_run,
            follows=follow or "",
            attached=given.attached if given else "",
            worktree=worktree,
            commit=commit,
        )
        read_config = ConfigReader(root, os.environ)
        notes = _notes(read_config, options, resuming=given is None)
        constraints = Constraints(keep=keep, non_goals=non_goal, boundaries=boundary)
        words = given.text if given else None
        return function(Submission(root, words, constraints, options, read_config, notes), **others)

    for add in reversed(_OPTIONS):
        command = add(command)
    return command


LAST = "last"


def with_followed(engine: Engine, options: Options) -> Options:
    """The options with the id of the task that is followed: `last` names the latest one that has ended."""
    if not options.follows:
        return options
    name = options.follows.lower()
    if name == LAST:
        ended = engine.store.latest_tasks(SETTLED_STATES, 1)
        if not ended:
            raise ConfigError("No task has ended yet: there is nothing to follow.")
        name = ended[0].task.id
    return options.model_copy(update={"follows": find_task(engine.store, name).task.id})


def follow_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--follow ID`."""
    return click.option(
        "--follow",
        metavar="ID",
        help="Follow up on an ended task: start from its request, notes and diff. last: the latest.",
    )(function)


def resume_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--resume ID`."""
    return click.option(
        "--resume",
        metavar="ID",
        help="Continue an interrupted or queued task, or retry one that ended without success.",
    )(function)


_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.argument("text", nargs=-1, metavar="[TEXT]"),
    click.option(
        "--file", "file", type=click.Path(path_type=Path), metavar="F", help="Read the task from a file."
    ),
    click.option("--keep", multiple=True, metavar="TEXT", help="Something to preserve. Repeatable."),
    click.option("--non-goal", multiple=True, metavar="TEXT", help="Something not to do. Repeatable."),
    click.option(
        "--boundary", multiple=True, metavar="GLOB", help="Paths that must not be written. Repeatable."
    ),
    click.option("--flow", metavar="FLOW", help="The flow, by name or file."),
    package_option,
    click.option("--dry-run", is_flag=True, help="Write nothing; propose the changes as a diff."),
    follow_option,
    click.option("--worktree", is_flag=True, help="Work in a git worktree of its own, made from HEAD."),
    click.option("--commit", is_flag=True, help="Commit a success there; only with --worktree."),
    model_options,
    config_option,
    repo_option,
)


def _notes(read_config: ConfigReader, options: Options, *, resuming: bool) -> tuple[str, ...]:
    try:
        return read_config(options).notes
    except ConfigError:
        if not resuming:
            raise
        return ()  # a task that goes on has its own; for one that is retried, the engine says what is wrong


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
def run_command(
    submission: Submission, resume: str | None, as_json: bool, is_try: bool, number: int | None
) -> None:
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


@click.command("submit")
@submission_options
@resume_option
@click.option("--no-start", is_flag=True, help="Only queue the task; the next run or submit starts the work.")
def submit_command(submission: Submission, resume: str | None, no_start: bool) -> None:
    """Queue a task and return at once.

    Prints the task's id alone; standard error says what can be done next. Tasks run in the background, one at
    a time, in the order in which they were submitted. TEXT and the options are those of headgate run. The
    configuration and the flow are fixed now: later changes to their files do not affect this task.

    If the environment fails a task, for example because the model server is down, the queue is paused and
    later tasks stay queued; headgate tasks shows the reason. A task that is submitted then stays queued, too.
    To continue, use submit --resume ID with a queued task or with the one that failed, or headgate run. A
    queued task that you name takes the configuration as it is now.
    """
    submission.check_text("submit", resume)
    engine = Engine.open(
        submission.root,
        start_worker=partial(start_worker, submission.root),
        read_config=submission.read_config,
    )
    engine.on_notice = tell_person
    try:
        for note in (*submission.notes, *engine.notes):
            click.echo(note, err=True)
        task = submission.submit_to(engine, resume)
        if no_start and resume and task.resumes != resume.lower():
            raise ConfigError(f"Task {task.id} is already queued: leave out --no-start.")
        for model, address in task.models:
            if address and not is_on_this_machine(address):
                click.echo(f"Task {task.id} will use {model} at {address}.", err=True)
        if task.package:
            click.echo(f"Task {task.id} will work on the package {task.package}.", err=True)
        say(task.id)
        if not no_start:
            pause = engine.wake_worker(try_again=resume is not None)
            if pause:
                click.echo(printable(pause.sentence()), err=True)
        waits = " It waits for the next headgate run or submit." if no_start else ""
        then = f"headgate watch {task.id} follows it; headgate cancel {task.id} cancels it.{waits}"
        click.echo(fold_lines(then, terminal_width(sys.stderr), 2), err=True)
    finally:
        engine.store.close()
