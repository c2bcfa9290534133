"""A task as the command line describes it: its text, its constraints, and the options of tasks."""

import os
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import click

from headgate.cli.printing import printable, tell
from headgate.cli.shared import (
    config_option,
    find_repo_to_act,
    flow_argument,
    model_options,
    package_argument,
    package_option,
    repo_option,
)
from headgate.cli.stored_tasks import find_store, find_task
from headgate.cli.task_text import explain_text_options, read_task_input
from headgate.core import SETTLED_STATES, Constraints, Options, Task
from headgate.engine import RETRIED_STATES, ConfigReader, Engine
from headgate.errors import ConfigError
from headgate.first_use import dataclass

LAST = "last"


@dataclass(frozen=True)
class Submission:
    """A task as it was given on the command line."""

    root: Path
    text: str
    """Empty where there is no text but that of the task to resume."""
    constraints: Constraints
    options: Options
    read_config: ConfigReader
    """For the engine, so that it does not read again what was read for the notes."""
    notes: tuple[str, ...]
    """What the user should know about the configuration."""

    resume: str | None = None
    """The task to go on with or to try again."""

    def submit_to(self, engine: Engine) -> Task:
        """The task to carry out: a new one, or the one to resume.

        What the boundaries of a new one mean, and which of them protect nothing, is said at once.
        """
        if self.resume is not None:
            return self._resume(engine, self.resume)
        options = with_followed(engine, self.options)
        return describe_boundaries(engine, engine.submit(self.text, self.constraints, options))

    def _resume(self, engine: Engine, task_id: str) -> Task:
        """The task that is named, if it has yet to end, or a new one that tries it again."""
        row = find_task(engine.store, task_id)
        name = row.task.id
        if row.state in RETRIED_STATES:
            again = engine.retry(name, self.constraints, self.options, self.text)
            return describe_boundaries(engine, again)
        if row.state == "PROPOSED":
            raise ConfigError(
                f"Task {name} is a proposal: headgate apply {name} writes it, "
                f"headgate abort {name} discards it."
            )
        if row.state == "SUCCESS":
            raise ConfigError(f"Task {name} has already ended (SUCCESS): start a new one with headgate run.")
        if self.text:
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
        tell(printable(line))
    return task


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


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_TEXT: tuple[Decorator, ...] = (
    click.argument("text", nargs=-1, metavar="[TEXT]"),
    click.option("--file", type=click.Path(path_type=Path), metavar="F", help="Read TEXT from a file."),
)
_FOLLOW = click.option(
    "--follow",
    metavar="ID",
    help="Follow up on an ended task: start from its request, notes and diff. last: the latest.",
)
_PLACE: tuple[Decorator, ...] = (model_options, config_option, repo_option)
QUESTION_OPTIONS: tuple[Decorator, ...] = (*_TEXT, _FOLLOW, *_PLACE)
TASK_OPTIONS: tuple[Decorator, ...] = (
    *_TEXT,
    click.option("--keep", multiple=True, metavar="TEXT", help="Something to preserve. Repeatable."),
    click.option("--non-goal", multiple=True, metavar="TEXT", help="Something not to do. Repeatable."),
    click.option(
        "--boundary", multiple=True, metavar="GLOB", help="Paths that must not be written. Repeatable."
    ),
    click.option("--flow", metavar="FLOW", help="The flow, by name or file."),
    package_option,
    click.option("--dry-run", is_flag=True, help="Write nothing; propose the changes as a diff."),
    _FOLLOW,
    click.option("--worktree", is_flag=True, help="Work in a git worktree of its own, made from HEAD."),
    click.option("--commit", is_flag=True, help="Commit a success there; only with --worktree."),
    *_PLACE,
    click.option(
        "--resume",
        metavar="ID",
        help="Continue an interrupted or queued task, or retry one that ended without success.",
    ),
)


def add_options(options: tuple[Decorator, ...]) -> Decorator:
    """A decorator for all of these, in this order in the help."""
    return lambda function: reduce(lambda made, add: add(made), reversed(options), function)


def read_submission(
    *,
    text: tuple[str, ...],
    file: Path | None,
    repo: Path | None,
    config: Path | None,
    flow: str | None,
    follow: str | None,
    keep: tuple[str, ...] = (),
    non_goal: tuple[str, ...] = (),
    boundary: tuple[str, ...] = (),
    package: str | None = None,
    resume: str | None = None,
    **options: Any,
) -> Submission:
    """The task of a command line: the values of its options, under their names."""
    ctx = click.get_current_context()
    if len(text) - text.count("-") > 1:
        raise click.UsageError(f'Put the text in quotes: {ctx.command_path} "..."', ctx)
    given = None
    if text or file is not None:
        given = read_task_input(text, file, sys.stdin, str(ctx.info_name), tell)
    if resume is not None and follow:
        raise ConfigError("--follow starts a new task: leave out --resume.")
    root = find_repo_to_act(repo)
    if resume is not None or follow:
        find_store(root)
    if resume is None and given is None:
        raise ConfigError(explain_text_options(str(ctx.info_name)))
    asked = Options(
        flow=flow_argument(flow),
        package=package_argument(package, root),
        config=str(config.absolute()) if config else None,
        follows=follow or "",
        attached=given.attached if given else "",
        **options,
    )
    read_config = ConfigReader(root, os.environ)
    try:
        notes = read_config(asked).notes
    except ConfigError:
        if given is not None:
            raise
        notes = ()  # a task that goes on has its own; for one that is retried, the engine says what is wrong
    constraints = Constraints(keep=keep, non_goals=non_goal, boundaries=boundary)
    return Submission(root, given.text if given else "", constraints, asked, read_config, notes, resume)
