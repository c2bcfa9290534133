"""`headgate undo`: takes back what a task changed."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import click

from headgate.cli.follow import start_worker
from headgate.cli.printing import say
from headgate.cli.shared import EXIT_FAILED, find_repo_to_act, repo_option
from headgate.cli.stored_tasks import find_store, find_task
from headgate.core import WHY_NOT_IN_DIFF, plain
from headgate.engine import Engine, Overlap, Undone, find_undoable
from headgate.errors import ConfigError
from headgate.log import Store


@click.command("undo")
@click.argument("task_id", metavar="[ID]", required=False)
@repo_option
def command(task_id: str | None, repo: Path | None) -> None:
    """Undo a task's changes. Without ID: the latest task that changed something.

    Headgate undoes exactly the changes of that task, and all of them or none. Your own edits stay, also
    those that you made while the task ran; what changed while a command of the task ran counts as the
    command's, and so does what a verification step changed. If you or a later task changed the same lines,
    no file is changed, the conflicting parts are listed, and the exit code is 1. Commits that the task made
    are not touched.

    headgate diff ID | git apply restores the changes; after that, they can be undone again.
    """
    root = find_store(find_repo_to_act(repo)).repo
    engine = Engine.open(root, start_worker=partial(start_worker, root))
    try:
        for note in engine.notes:
            click.echo(note, err=True)
        outcome = asyncio.run(engine.undo(find_named(engine.store, task_id)))
    finally:
        engine.store.close()
    lines = outcome.sentences() if isinstance(outcome, Overlap) else undone_lines(outcome)
    for line in lines:
        say(plain(line), hanging=2)
    if isinstance(outcome, Overlap):
        sys.exit(EXIT_FAILED)


def find_named(store: Store, task_id: str | None) -> str:
    """The task to undo: the one that is named, or the latest that there is something of."""
    if task_id is not None:
        return find_task(store, task_id).task.id
    find_task(store, None)  # says so if there has been no task at all
    row = find_undoable(store)
    if row is None:
        raise ConfigError("There is nothing to undo.")
    return row.task.id


def undone_lines(undone: Undone) -> list[str]:
    """What a person is told after it."""
    name = undone.task
    lines = [f"Task {name} was undone: {', '.join(undone.files)}."]
    if not undone.files:
        lines = [f"Task {name} was undone: its changes were no longer in the working tree."]
    if undone.shared:
        lines.append(f"Also changed by somebody else, whose lines were kept: {', '.join(undone.shared)}.")
    if undone.kept:
        lines.append(f"Not the task's own changes, and kept: {', '.join(undone.kept)}.")
    if undone.left:
        lines.append(f"Not undone ({WHY_NOT_IN_DIFF}, or a link): {', '.join(undone.left)}.")
    lines.append(f"headgate diff {name} | git apply restores the changes.")
    return lines
