"""What `run` and `submit` share: a task's text, its constraints and the options that hold for it."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, Any

import click

from headgate.cli.live import printable
from headgate.cli.options import config_option, find_repo, flow_argument, model_options, repo_option
from headgate.core.task import Constraints, Options, Task
from headgate.engine.engine import Engine, load_options
from headgate.errors import ConfigError


@dataclass(frozen=True)
class Submission:
    """A task as it was given on the command line."""

    root: Path
    text: str | None
    """None where another task's is to be used."""
    constraints: Constraints
    options: Options
    notes: tuple[str, ...]
    """What the user should know about the configuration."""

    def submit_to(self, engine: Engine) -> Task:
        assert self.text is not None
        return describe_boundaries(engine, engine.submit(self.text, self.constraints, self.options))


def describe_boundaries(engine: Engine, task: Task) -> Task:
    """Says at once what a new task's boundaries mean, and which of them protect nothing; returns the task."""
    for line in engine.describe_boundaries(task):
        click.echo(printable(line), err=True)
    return task


def submission_options(*, text_required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds TEXT and every option that describes a task, passed on as one `Submission`."""

    def add_all(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(
            *,
            text: tuple[str, ...],
            file: Path | None,
            keep: tuple[str, ...],
            non_goal: tuple[str, ...],
            boundary: tuple[str, ...],
            flow: str | None,
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
            absent = not text and file is None and not text_required
            given = text[0] if text else None
            task_text = None if absent else read_text(given, file, sys.stdin, str(ctx.info_name))
            root = find_repo(repo)
            options = Options(
                flow=flow_argument(flow),
                model=model,
                base_url=base_url,
                config=str(config.absolute()) if config else None,
                dry_run=dry_run,
            )
            notes = load_options(root, options, os.environ).notes
            constraints = Constraints(keep=keep, non_goals=non_goal, boundaries=boundary)
            return function(Submission(root, task_text, constraints, options, notes), **others)

        for add in reversed(_OPTIONS):
            command = add(command)
        return command

    return add_all


_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.argument("text", nargs=-1, metavar="[TEXT]"),
    click.option(
        "--file", "file", type=click.Path(path_type=Path), metavar="F", help="Read the task from a file."
    ),
    click.option("--keep", multiple=True, metavar="TEXT", help="Something to preserve. Repeatable."),
    click.option("--non-goal", multiple=True, metavar="TEXT", help="Something not to do. Repeatable."),
    click.option("--boundary", multiple=True, metavar="GLOB", help="Paths not to write. Repeatable."),
    click.option("--flow", metavar="FLOW", help="A flow by name or file."),
    click.option("--dry-run", is_flag=True, help="Write nothing: propose the changes as a diff."),
    model_options,
    config_option,
    repo_option,
)


def say_once(command: str) -> str:
    """What is wrong with a command line that has no task, or two."""
    return (
        f'Say what is to be done, once: headgate {command} "...", {command} - (standard input) or --file F.'
    )


def read_text(text: str | None, file: Path | None, stdin: IO[str], command: str) -> str:
    """The task's text, from wherever it is."""
    if (text is None) == (file is None):
        raise ConfigError(say_once(command))
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
