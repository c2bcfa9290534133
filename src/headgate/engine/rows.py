"""What the store's rows mean: tasks and events out of columns."""

from typing import Any, get_args

import orjson
from pydantic import ValidationError

from headgate.core.events import BODY, Event
from headgate.core.task import Task, TaskState
from headgate.engine.database import RowDamaged, RowUnknown

STATES: frozenset[TaskState] = frozenset(get_args(TaskState))


def decode_task(number: Any, state: Any, created: Any, spec: Any) -> Task:
    """The task in a row of `tasks`."""
    if state not in STATES or not isinstance(created, float | int):
        raise RowDamaged(f"task t{number} is in no known state")
    try:
        task = Task.model_validate(_load(spec, f"task t{number}"))
    except ValidationError as error:
        raise RowUnknown(f"task t{number}") from error
    if task.id != f"t{number}":
        raise RowDamaged(f"task t{number} has another id")
    return task


def decode_event(row: tuple[Any, ...]) -> Event:
    """The event in a row of `events`, its number first."""
    seq, task, path, turn, at, kind, body = row
    if not (isinstance(task, str) and isinstance(path, str) and isinstance(turn, int)):
        raise RowDamaged(f"event {seq} has values of a wrong type")
    if not (isinstance(at, float | int) and isinstance(kind, str)):
        raise RowDamaged(f"event {seq} has values of a wrong type")
    fields = _load(body, f"event {seq}")
    try:
        return Event(seq, task, path, turn, at, BODY.validate_python({**fields, "kind": kind}))
    except ValidationError as error:
        raise RowUnknown(f"event {seq}") from error


def _load(text: Any, subject: str) -> dict[str, Any]:
    try:
        fields = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError) as error:
        raise RowDamaged(f"{subject} is not JSON") from error
    if not isinstance(fields, dict):
        raise RowDamaged(f"{subject} has no fields")
    return fields
