"""What `run` and `submit` share: a task's text, its constraints and the options that hold for it."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, Any

import click

from headgate.cli.options import (
    config_option,
    find_repo_to_act,
    flow_argument,
    model_options,
    package_argument,
    package_option,
    repo_option,
)
from headgate.cli.show.live import printable
from headgate.cli.stored_tasks import find_store, find_task
from headgate.core import Constraints, Options, Task
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
        if resume is not None:
            find_store(self.root)
        elif self.text is None:
            raise ConfigError(explain_text_options(command))

    def submit_to(self, engine: Engine, resume: str | None = None) -> Task:
        """The task to carry out: a new one, or the one to resume.

        What the boundaries of a new one mean, and which of them protect nothing, is said at once.
        """
        if resume is not None:
            return self._resume(engine, resume)
        assert self.text is not None
        return describe_boundaries(engine, engine.submit(self.text, self.constraints, self.options))

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
        click.echo(printable(line), err=True)
    return task


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
        repo: Path | None,
        **others: Any,
    ) -> Any:
        ctx = click.get_current_context()
        if len(text) > 1:
            raise click.UsageError(f'Put the task\'s text in quotes: {ctx.command_path} "..."', ctx)
        absent = not text and file is None
        given = text[0] if text else None
        task_text = None if absent else read_task_text(given, file, sys.stdin, str(ctx.info_name))
        root = find_repo_to_act(repo)
        options = Options(
            flow=flow_argument(flow),
            package=package_argument(package, root),
            model=model,
            base_url=base_url,
            config=str(config.absolute()) if config else None,
            dry_run=dry_run,
        )
        read_config = ConfigReader(root, os.environ)
        notes = _notes(read_config, options, resuming=task_text is None)
        constraints = Constraints(keep=keep, non_goals=non_goal, boundaries=boundary)
        return function(Submission(root, task_text, constraints, options, read_config, notes), **others)

    for add in reversed(_OPTIONS):
        command = add(command)
    return command


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


def explain_text_options(command: str) -> str:
    """What is wrong with a command line that has no task, or two."""
    return f'Give the text in one way: headgate {command} "...", {command} - (standard input) or --file F.'


def read_task_text(text: str | None, file: Path | None, stdin: IO[str], command: str) -> str:
    """The task's text, from wherever it is."""
    if (text is None) == (file is None):
        raise ConfigError(explain_text_options(command))
    try:
        if file is not None:
            return file.read_text(encoding="utf-8")
        given = stdin.read() if text == "-" else text or ""
        given.encode()
    except UnicodeError:
        source = file or ("Standard input" if text == "-" else "The task")
        raise ConfigError(f"{source} is not UTF-8 text.") from None
    except OSError as error:
        raise ConfigError(f"Cannot read {file}: {error.strerror}.") from None
    return given
