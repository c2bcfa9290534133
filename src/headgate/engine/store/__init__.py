"""The database file: tasks, events, their contents, and the queue."""

from headgate.engine.store.queue import CancelOutcome
from headgate.engine.store.store import Draft, Store, TaskRow

__all__ = ["CancelOutcome", "Draft", "Store", "TaskRow"]
