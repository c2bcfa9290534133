"""`headgate tasks`: every task, where it stands and how old it is."""

import time
from pathlib import Path

import click
import orjson

from headgate.cli.live import printable, say
from headgate.cli.options import find_repo, repo_option
from headgate.engine.folder import Folder
from headgate.engine.store import Store, TaskRow

TEXT_CHARS = 80


@click.command("tasks")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of {id, state, text, position}.")
@repo_option
def command(as_json: bool, repo: Path | None) -> None:
    """List the tasks: states, places in the queue, ages.

    The most recent is the last. A queued task's number is its place in the queue.
    """
    rows = _all_tasks(find_repo(repo))
    if as_json:
        listed = [
            {"id": row.task.id, "state": row.state, "text": row.task.text, "position": row.position}
            for row in rows
        ]
        say(orjson.dumps(listed, option=orjson.OPT_INDENT_2).decode())
        return
    if not rows:
        say("No tasks yet.")
    columns = [(row.task.id, _state(row), age(time.time() - row.created), _title(row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    for line in columns:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        say("  ".join(cells).rstrip())


def _all_tasks(root: Path) -> list[TaskRow]:
    database = Folder(root).database
    if not database.exists():
        return []
    store = Store(database)
    try:
        return store.tasks()
    finally:
        store.close()


def _state(row: TaskRow) -> str:
    return f"{row.state} {row.position}" if row.position else row.state


def _title(row: TaskRow) -> str:
    line = printable(row.task.text.strip().splitlines()[0])
    return line if len(line) <= TEXT_CHARS else f"{line[: TEXT_CHARS - 3]}..."


def age(seconds: float) -> str:
    """`now`, `5 min`, `3 h`, `12 d`."""
    minutes = max(int(seconds), 0) // 60
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"
