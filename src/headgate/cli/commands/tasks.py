"""`headgate tasks`: every task, where it stands and how old it is."""

import sys
import time
from pathlib import Path
from typing import Any

import click
import orjson

from headgate.cli.options import find_repo, repo_option
from headgate.cli.show.live import printable, say
from headgate.cli.show.wrapping import shorten_line, terminal_width
from headgate.cli.stored_tasks import NO_TASK_YET, find_interruption, open_store, pause_sentence
from headgate.store import Folder, TaskRow

MIN_TEXT_CHARS = 20


@click.command("tasks")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of {id, state, text, position}.")
@repo_option
def command(as_json: bool, repo: Path | None) -> None:
    """List the tasks with their states, queue positions and ages.

    The most recent task is last. A queued task's number is its position in the queue. INTERRUPTED means that
    the process that ran the task is gone; in JSON the state is RUNNING, with "interrupted": true. If the
    queue is paused because the environment failed a task, the reason and the command to continue follow; with
    --json, on standard error.
    """
    rows, interrupted, paused = _all_tasks(find_repo(repo))
    if as_json:
        if paused:
            click.echo(paused, err=True)
        listed = [_as_json(row, row.task.id in interrupted) for row in rows]
        say(orjson.dumps(listed, option=orjson.OPT_INDENT_2).decode())
        return
    if not rows:
        say(NO_TASK_YET)
    heads = [
        (row.task.id, _state(row, row.task.id in interrupted), age(time.time() - row.created)) for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    total = terminal_width(sys.stdout)
    left = None if total is None else max(total - sum(widths) - 2 * len(widths), MIN_TEXT_CHARS)
    for head, row in zip(heads, rows, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(head, widths, strict=True)]
        say("  ".join([*cells, shorten_line(_title(row), left)]).rstrip())
    for name, hint in interrupted.items():
        say(f"{name} was interrupted: {hint}", hanging=2)
    if paused:
        say(paused, hanging=2)


def _all_tasks(root: Path) -> tuple[list[TaskRow], dict[str, str], str]:
    """Every task; what can be done about those whose process is gone, by id; why the queue is paused."""
    folder = Folder(root)
    folder.check_deleted()
    if not folder.database.exists():
        return [], {}, ""
    with open_store(root) as store:
        rows = store.tasks()
        found = {row.task.id: find_interruption(store, folder, row) for row in rows}
        return rows, {name: hint for name, hint in found.items() if hint}, pause_sentence(store, folder)


def _as_json(row: TaskRow, interrupted: bool) -> dict[str, Any]:
    shown = {"id": row.task.id, "state": row.state, "text": row.task.text, "position": row.position}
    extra = {"interrupted": interrupted, "resumes": row.task.resumes}
    return shown | {name: value for name, value in extra.items() if value}


def _state(row: TaskRow, interrupted: bool) -> str:
    if interrupted:
        return "INTERRUPTED"
    return f"{row.state} {row.position}" if row.position else row.state


def _title(row: TaskRow) -> str:
    again = f"(retry of {row.task.resumes}) " if row.task.resumes else ""
    return again + printable(row.task.text.strip().splitlines()[0])


def age(seconds: float) -> str:
    """`now`, `5 min`, `3 h`, `12 d`."""
    minutes = max(int(seconds), 0) // 60
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"
