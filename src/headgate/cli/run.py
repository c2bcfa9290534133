"""`headgate run`: one task, from its text to its report."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import IO

import click
import orjson

from headgate.cli.live import Progress, say
from headgate.cli.options import config_option, find_repo, flow_argument, model_options, repo_option
from headgate.config.load import Loaded, load_config
from headgate.core.events import Event
from headgate.core.report import Report
from headgate.core.task import Constraints, TaskState
from headgate.engine.bus import Bus
from headgate.engine.engine import Engine
from headgate.errors import ConfigError

EXIT_CODES: dict[TaskState, int] = {
    "SUCCESS": 0,
    "PROPOSED": 0,
    "STUCK": 1,
    "INFRA_ERROR": 3,
    "CANCELLED": 130,
}


@click.command("run")
@click.argument("text", required=False)
@click.option(
    "--file", "file", type=click.Path(path_type=Path), metavar="F", help="Read the task from a file."
)
@click.option("--keep", multiple=True, metavar="TEXT", help="Something to preserve. Repeatable.")
@click.option("--non-goal", multiple=True, metavar="TEXT", help="Something not to do. Repeatable.")
@click.option("--boundary", multiple=True, metavar="GLOB", help="A path not to write. Repeatable.")
@click.option("--flow", metavar="FLOW", help="A flow by name or file.")
@click.option(
    "--json", "as_json", is_flag=True, help="One event per line on standard output, the report last."
)
@model_options
@config_option
@repo_option
def command(
    text: str | None,
    file: Path | None,
    keep: tuple[str, ...],
    non_goal: tuple[str, ...],
    boundary: tuple[str, ...],
    flow: str | None,
    as_json: bool,
    model: str | None,
    base_url: str | None,
    config: Path | None,
    repo: Path | None,
) -> None:
    """Run a task and wait for its end.

    TEXT says in plain words what is to be done; - reads it from standard input. Sections headed
    Constraints:, Non-goals: and Boundaries: bind the task, as the options of the same names do.
    """
    task_text = read_text(text, file, sys.stdin)
    root = find_repo(repo)
    flags = {"model": model, "base_url": base_url, "flow": flow_argument(flow)}
    loaded = load_config(root, config_file=config, environ=os.environ, flags=flags)
    constraints = Constraints(keep=keep, non_goals=non_goal, boundaries=boundary)
    report = asyncio.run(run_task(root, loaded, task_text, constraints, as_json))
    sys.exit(EXIT_CODES[report.state])


def read_text(text: str | None, file: Path | None, stdin: IO[str]) -> str:
    """The task's text, from wherever it is."""
    if (text is None) == (file is None):
        raise ConfigError(
            'Say what is to be done, once: headgate run "...", run - (standard input) or --file F.'
        )
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


async def run_task(root: Path, loaded: Loaded, text: str, constraints: Constraints, as_json: bool) -> Report:
    """Runs one task in this process and shows it."""
    cancel_on_signals()
    progress = Progress()
    bus = Bus([progress.hear, *([print_event] if as_json else [])], [progress.feel])
    for note in loaded.notes:
        progress.print_line(note, 0)
    engine = Engine.open(root, loaded, bus)
    try:
        task = engine.submit(text, constraints)
        with progress:
            report = await engine.run(
                task,
                lambda holder: progress.print_line(f"Waiting: process {holder} works in this repository", 0),
            )
    finally:
        engine.store.close()
    if as_json:
        say(orjson.dumps({"kind": "report", **report.model_dump(mode="json")}).decode())
    else:
        print_summary(report)
    return report


def cancel_on_signals() -> None:
    """A closed terminal and a polite kill cancel the task, as Ctrl-C does; commands it runs end with it."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def print_event(event: Event) -> None:
    say(orjson.dumps(event.as_json()).decode())


def print_summary(report: Report) -> None:
    """What a person wants to know at the end."""
    say()
    for line in report.summary.splitlines():
        say(line)
    look = "git status and git diff show the changes; " if report.files_changed else ""
    say(f"{look}headgate show {report.task_id} tells how it went.")
