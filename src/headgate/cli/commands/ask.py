"""`headgate ask`: a question about the code."""

import asyncio
import os
import sys
from pathlib import Path

import click

from headgate.cli.commands.start import follow_option, read_task_text, with_followed
from headgate.cli.follow import follow_task
from headgate.cli.shared import EXIT_CODES, config_option, find_repo_to_act, model_options, repo_option
from headgate.cli.stored_tasks import find_store
from headgate.core import Constraints, Options, Task
from headgate.engine import ConfigReader, Engine


@click.command("ask")
@click.argument("text", nargs=-1, metavar="[TEXT]")
@click.option(
    "--file", "file", type=click.Path(path_type=Path), metavar="F", help="Read the question from a file."
)
@follow_option
@model_options
@config_option
@repo_option
@click.option("--json", "as_json", is_flag=True, help="Print one event per line, then the report.")
def command(
    text: tuple[str, ...],
    file: Path | None,
    follow: str | None,
    model: str | None,
    base_url: str | None,
    config: Path | None,
    repo: Path | None,
    as_json: bool,
) -> None:
    """Ask a question about the code and print the answer.

    TEXT is the question; - reads it from standard input. The model can only read and search files: it changes
    no file and runs no command. Standard output contains only the answer; progress goes to standard error.
    headgate show prints the answer again, and --follow last asks on.

    A question is a task like any other: it waits for earlier tasks, and Ctrl-C cancels it.
    """
    ctx = click.get_current_context()
    if len(text) > 1:
        raise click.UsageError(f'Put the question in quotes: {ctx.command_path} "..."', ctx)
    question = read_task_text(text[0] if text else None, file, sys.stdin, str(ctx.info_name))
    root = find_repo_to_act(repo)
    options = Options(
        flow="ask",
        model=model,
        base_url=base_url,
        config=str(config.absolute()) if config else None,
        follows=follow or "",
    )
    if follow:
        find_store(root)
    read_config = ConfigReader(root, os.environ)
    notes = read_config(options).notes

    async def begin(engine: Engine) -> Task:
        return engine.submit(question, Constraints(), with_followed(engine, options))

    followed = asyncio.run(follow_task(root, begin, as_json, notes, read_config, answer_alone=True))
    sys.exit(EXIT_CODES[followed.report.state])
