"""What of a damaged store is kept: every task that can be read, with the events and contents that can.

A task that was under way and whose log has a hole is not carried on as if it were whole: it is ended.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from headgate.core.events import Event, TaskEnded, TaskStarted
from headgate.core.task import FINAL_STATES, Task, TaskState
from headgate.engine.store.database import (
    STATES,
    RowDamaged,
    RowUnknown,
    connect,
    decode_event,
    decode_task,
    migrate,
    store_errors,
)
from headgate.engine.store.pages import Pages, Value

REASON = "store_damaged"
_TABLES = ("tasks", "events", "bodies", "control", "sqlite_sequence")
PLAUSIBLE = 1_000_000
"""A counter that is further ahead of what was found than this is itself damaged."""


@dataclass(frozen=True, slots=True)
class Salvage:
    """What came of it."""

    kept: int
    lost: int
    """At most so many tasks could not be read: those cancelled in the queue cannot be told from them."""
    ended: tuple[str, ...]
    """Tasks that were under way and had to be ended."""


@dataclass
class _Kept:
    number: int
    task: Task
    state: TaskState | None
    created: float
    spec: str
    others: tuple[Value, ...] = ()
    """The columns after `spec`."""
    events: list[Event] = field(default_factory=list)

    @property
    def applying(self) -> bool:
        return len(self.others) > 1 and self.others[1] == 1

    @property
    def place(self) -> int:
        place = self.others[0] if self.others else None
        return place if isinstance(place, int) else self.number


class _Findings:
    """The rows of a damaged file by table, and what is known to be missing."""

    def __init__(self, source: Path) -> None:
        pages = Pages(source)
        self.tables: dict[str, dict[int, tuple[Value, ...]]] = {name: {} for name in _TABLES}
        self.complete = dict.fromkeys(_TABLES, False)
        self.stray: set[tuple[str, int]] = set()
        lost: list[tuple[int, tuple[Value, ...]]] = []
        for name, root in pages.schema().items():
            rows = pages.read_table(root)
            if name not in _TABLES:
                continue
            self.complete[name] = rows.complete
            for key, values in rows.found:
                if _table_of(values) == name and key not in self.tables[name]:
                    self.tables[name][key] = values
                else:
                    self.complete[name] = False
                    lost.append((key, values))
        for key, values in (*lost, *pages.stray_rows()):
            if (name := _table_of(values)) and key not in self.tables[name]:
                self.complete[name] = False
                self.tables[name][key] = values
                self.stray.add((name, key))
        self.counters = {
            values[0]: values[1]
            for values in self.tables["sqlite_sequence"].values()
            if isinstance(values[1], int)
        }
        self.events = self._read_events()
        self.last_event = self._counter("events", self.events)
        numbers = sorted(event.seq for event in self.events.values())
        self.gaps = [after - 1 for before, after in pairwise([0, *numbers]) if after > before + 1]
        if self.last_event > max(numbers, default=0) or not (
            self.complete["events"] or "events" in self.counters
        ):
            self.gaps.append(self.last_event + 1)

    def _read_events(self) -> dict[int, Event]:
        events = {}
        for seq, values in self.tables["events"].items():
            try:
                events[seq] = decode_event((seq, *values[1:]))
            except (RowDamaged, RowUnknown):
                self.complete["events"] = False
        return events

    def _counter(self, name: str, found: Iterable[int]) -> int:
        most = max(found, default=0)
        counter = self.counters.get(name, 0)
        return counter if most <= counter <= most + PLAUSIBLE else most

    def read_tasks(self) -> dict[int, _Kept]:
        tasks = {}
        for number, values in self.tables["tasks"].items():
            try:
                _, state, created, spec = values[:4]
                known: Any = state if state in STATES else None
                task = decode_task(number, known or "STUCK", 0, spec)
            except (RowDamaged, RowUnknown):
                self.complete["tasks"] = False
                continue
            at = float(created) if isinstance(created, int | float) else 0.0
            tasks[number] = _Kept(number, task, known, at, str(spec), values[4:])
        for event in self.events.values():
            number = _task_number(event.task)
            if number and number not in tasks and isinstance(event.body, TaskStarted):
                self.complete["tasks"] = False
                tasks[number] = _rebuild(number, event, event.body)
        for seq in sorted(self.events):
            if kept := tasks.get(_task_number(self.events[seq].task)):
                kept.events.append(self.events[seq])
        return tasks

    def last_task(self, tasks: Iterable[int], known: int) -> int:
        named = (_task_number(event.task) for event in self.events.values())
        return max(self._counter("tasks", {*tasks, *named, *self.tables["tasks"]}), known)

    def is_whole(self, kept: _Kept) -> bool:
        """Whether nothing can be missing of a task's log."""
        if not kept.events:
            return not self.gaps
        first = kept.events[0]
        return (
            isinstance(first.body, TaskStarted)
            and self.complete["bodies"]
            and all(gap < first.seq for gap in self.gaps)
        )


def salvage(source: Path, target: Path, known: int, now: float) -> Salvage:
    """Writes what can be read of a damaged store into a new one. `known`: the last id seen elsewhere."""
    findings = _Findings(source)
    tasks = findings.read_tasks()
    last_task = findings.last_task(tasks, known)
    last_event, ended = findings.last_event, []
    running = [kept.number for kept in tasks.values() if kept.state == "RUNNING"]
    for kept in sorted(tasks.values(), key=lambda each: each.number):
        old = kept.state
        kept.state = _honest_state(kept, findings.is_whole(kept) and kept.number not in running[1:])
        has_end = any(
            isinstance(event.body, TaskEnded) and event.body.state == kept.state for event in kept.events
        )
        if kept.state in FINAL_STATES and not has_end and (old != kept.state or not findings.is_whole(kept)):
            last_event += 1
            kept.events.append(_ending(last_event, kept, now))
            if old != kept.state:
                ended.append(kept.task.id)
    _write(target, findings, tasks, {"tasks": last_task, "events": last_event})
    lost = 0 if findings.complete["tasks"] else last_task - len(tasks)
    return Salvage(len(tasks), lost, tuple(ended))


def _honest_state(kept: _Kept, whole: bool) -> TaskState:
    """Where a task stands now: what was under way with a hole in its log has ended."""
    if kept.state in FINAL_STATES or (kept.state == "QUEUED" and not kept.applying):
        return kept.state
    if kept.state is None:
        ends = [event.body.state for event in kept.events if isinstance(event.body, TaskEnded)]
        return ends[-1] if ends and ends[-1] in FINAL_STATES else "INFRA_ERROR"
    return kept.state if whole else "INFRA_ERROR"


def _ending(seq: int, kept: _Kept, now: float) -> Event:
    assert kept.state is not None
    summary = "The store was damaged and part of this task's log is lost. Its changes are still in the tree."
    body = TaskEnded(state=kept.state, verified=False, reason=REASON, summary=summary, files_changed=())
    return Event(seq, kept.task.id, "", 0, now, body)


def _rebuild(number: int, event: Event, body: TaskStarted) -> _Kept:
    """A task whose row is lost, from the first event of its log."""
    task = Task(id=event.task, text=body.text, goal=body.goal, constraints=body.constraints)
    return _Kept(number, task, None, event.at, task.model_dump_json())


def _write(target: Path, findings: _Findings, tasks: dict[int, _Kept], counters: dict[str, int]) -> None:
    with store_errors(target), closing(connect(target)) as db, db:
        migrate(db, target)
        columns = [row[1] for row in db.execute("PRAGMA table_info(tasks)")]
        queued = sorted((kept.place, number) for number, kept in tasks.items() if kept.state == "QUEUED")
        places = {number: place for place, (_, number) in enumerate(queued, 1)}
        for number, kept in tasks.items():
            applying = kept.applying and kept.state in ("QUEUED", "RUNNING")
            values: list[Value] = [
                number,
                kept.state,
                kept.created,
                kept.spec,
                places.get(number),
                int(applying),
            ]
            values += kept.others[2 : len(columns) - 4]
            names, marks = ", ".join(columns[: len(values)]), ", ".join("?" * len(values))
            db.execute(f"INSERT INTO tasks ({names}) VALUES ({marks})", values)
            for event in kept.events:
                body = event.body.model_dump_json(exclude_defaults=True, exclude={"kind"})
                row = (event.seq, event.task, event.path, event.turn, event.at, event.kind, body)
                db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                content = findings.tables["bodies"].get(event.seq)
                # A stray one of a task that has ended may be a deleted one that was found again.
                deleted = kept.state in FINAL_STATES and ("bodies", event.seq) in findings.stray
                if content and not deleted:
                    db.execute("INSERT INTO bodies VALUES (?, ?)", (event.seq, content[1]))
            request = findings.tables["control"].get(number)
            if request and kept.state == "RUNNING":
                db.execute("INSERT INTO control VALUES (?, ?, ?)", (number, *request[1:]))
        db.execute("DELETE FROM sqlite_sequence")
        db.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", counters.items())


def _table_of(values: tuple[Value, ...]) -> str:
    """The table that a row belongs to, by its shape; nothing if it fits none."""
    if len(values) == 2 and values[0] in ("tasks", "events") and isinstance(values[1], int):
        return "sqlite_sequence"
    if len(values) < 2 or values[0] is not None:
        return ""
    match values[1:]:
        case (str(),):
            return "bodies"
        case (str(), int() | float()):
            return "control"
        case (str(), str(), int(), int() | float(), str(), str()):
            return "events"
        case (_, _, str(spec), *_) if spec.startswith("{"):
            return "tasks"
        case _:
            return ""


def _task_number(task_id: str) -> int:
    digits = task_id.removeprefix("t")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else 0
