"""Finding a stored task, and whether anybody works on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import headgate.features  # noqa: F401 - makes the events of features known
from headgate.cli.printing import tell
from headgate.core import TaskState
from headgate.errors import ConfigError
from headgate.log import Folder, Store, TaskRow, find_pause

NO_TASK_YET = 'This repository has no tasks yet: start one with "headgate run".'


def has_store(folder: Folder) -> bool:
    """Whether a repository has had a task. Nothing is created."""
    folder.check_deleted()
    return folder.database.exists()


def find_store(repo: Path) -> Folder:
    """The folder of a repository that has had a task. ConfigError otherwise, and nothing is created."""
    folder = Folder(repo)
    if not has_store(folder):
        raise ConfigError(NO_TASK_YET)
    folder.check_committed()
    return folder


@contextmanager
def open_store(repo: Path) -> Iterator[Store]:
    """The repository's store, for reading. A repository without one has had no task yet."""
    folder = find_store(repo)
    store = Store(folder.database)
    try:
        for note in store.notes:
            tell(note)
        yield store
    finally:
        store.close()


def find_task(store: Store, task_id: str | None) -> TaskRow:
    """A task by its id; the latest one if none is named."""
    latest = store.latest()
    if latest is None:
        raise ConfigError(NO_TASK_YET)
    row = latest if task_id is None else store.task(task_id.lower())
    if row is None:
        raise ConfigError(f'There is no task "{task_id}": the latest is {latest.task.id}.')
    return row


def find_only(store: Store, task_id: str | None, states: tuple[TaskState, ...], kind: str) -> TaskRow:
    """A task by its id; if none is named, the only one in these states, which people call a `kind`."""
    if task_id is not None:
        return find_task(store, task_id)
    found = [row for row in store.tasks() if row.state in states]
    if not found:
        raise ConfigError(f"There is no {kind}.")
    if len(found) > 1:
        raise ConfigError(f"Name one: there are several, {', '.join(row.task.id for row in found)}.")
    return found[0]


def find_current(store: Store) -> TaskRow:
    """The task that is running, or else the first in the queue, or else the latest."""
    return store.running() or store.head() or find_task(store, None)


def find_interruption(store: Store, folder: Folder, row: TaskRow) -> str:
    """What can be done about a task whose process is gone; nothing if it is not.

    It is gone if the task is RUNNING and nobody holds the lock.
    """
    if row.state != "RUNNING" or folder.work_lock().is_held():
        return ""
    # It may have ended, and its process with it, since the row was read.
    now = store.task(row.task.id)
    return interrupted_hint(store, row.task.id) if now and now.state == "RUNNING" else ""


def interrupted_hint(store: Store, task_id: str) -> str:
    """The commands for a task whose process is gone."""
    if store.is_cancelled(task_id):
        return "It was being cancelled: the next headgate run, submit or cancel ends it."
    return f"headgate run --resume {task_id} continues it; headgate cancel {task_id} ends it."


def pause_sentence(store: Store, folder: Folder) -> str:
    """Why the queue is paused and what goes on with it; nothing if it is not paused."""
    if folder.work_lock().is_held():
        return ""
    pause = find_pause(store)
    return pause.sentence() if pause else ""


def tasks_ahead(store: Store, task_id: str) -> list[str]:
    """The ids of the tasks that have to end before a queued one starts, in that order."""
    rows = store.tasks()
    own = next((row.position for row in rows if row.task.id == task_id), None)
    running = [row.task.id for row in rows if row.state == "RUNNING" and row.task.id != task_id]
    before = sorted(
        (row.position, row.task.id) for row in rows if row.position and own and row.position < own
    )
    return running + [name for _, name in before]
