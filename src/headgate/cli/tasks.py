"""Finding a stored task for the commands that look back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.core.state import State, fold
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
        yield store
    finally:
        store.close()


def find_task(store: Store, task_id: str) -> TaskRow:
    row = store.task(task_id)
    if row is None:
        latest = store.tasks()
        known = f"the latest is {latest[-1].task.id}" if latest else "there are none"
        raise ConfigError(f'There is no task "{task_id}": {known}.')
    return row


def state_of(store: Store, row: TaskRow) -> State:
    """The task's state; a task that has not started is known by its row alone."""
    state = fold(store.events(row.task.id))
    if not state.text:
        state.task, state.text, state.goal = row.task.id, row.task.text, row.task.goal
        state.constraints = row.task.constraints
    return state
