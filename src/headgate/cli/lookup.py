"""Finding a stored task for the commands that look back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from headgate.engine.folder import Folder
from headgate.engine.store import Store, TaskRow
from headgate.errors import ConfigError


@contextmanager
def open_store(repo: Path) -> Iterator[Store]:
    """The repository's store, for reading. A repository without one has had no task yet."""
    folder = Folder(repo)
    if not folder.database.exists():
        raise ConfigError(f'{repo} has had no task yet: start one with "headgate run".')
    store = Store(folder.database)
    try:
        for note in store.notes:
            click.echo(note, err=True)
        yield store
    finally:
        store.close()


def find_task(store: Store, task_id: str | None) -> TaskRow:
    """A task by its id; the latest one if none is named."""
    latest = store.latest()
    if latest is None:
        raise ConfigError('This repository has had no task yet: start one with "headgate run".')
    row = store.task(task_id.lower()) if task_id else latest
    if row is None:
        raise ConfigError(f'There is no task "{task_id}": the latest is {latest.task.id}.')
    return row
