"""The queue and the states against a plain model: random interleavings, and real processes that die."""

import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from headgate.core import (
    FINAL_STATES,
    SETTLED_STATES,
    ImpossibleTransition,
    Standing,
    TaskState,
)
from headgate.core.task import TRANSITIONS
from headgate.log import Folder, Store, changes
from headgate.log.database import MIGRATIONS

STATES: tuple[TaskState, ...] = get_args(TaskState)
MEMORY = Path("/dev/shm")


class Model:
    """What must be true: who waits, who runs, who has settled, and who never was."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.applying: set[int] = set()
        self.running: int | None = None
        self.settled: dict[int, TaskState] = {}
        self.gone: set[int] = set()
        self.last = 0
        self.taken: set[tuple[Standing, Standing]] = set()

    def join(self, number: int) -> None:
        assert number > self.last, "a number was used twice"
        self.last = number
        self.waiting.append(number)

    def standing(self, number: int) -> Standing:
        if number in self.waiting:
            return "QUEUED_TO_APPLY" if number in self.applying else "QUEUED"
        return "RUNNING" if number == self.running else self.settled.get(number, "GONE")

    def move(self, number: int, new: Standing) -> None:
        old = self.standing(number)
        assert new in TRANSITIONS[old], f"t{number} went from {old} to {new}"
        self.taken.add((old, new))
        if new == "RUNNING":
            assert self.running is None, f"t{number} and t{self.running} run at once"
            assert number == self.waiting[0], f"t{number} started before t{self.waiting[0]}"
            self.running = self.waiting.pop(0)
            return
        if old in ("QUEUED", "QUEUED_TO_APPLY"):
            self.waiting.remove(number)
        if old == "RUNNING":
            self.running = None
        self.applying.discard(number)
        self.settled.pop(number, None)
        if new == "QUEUED_TO_APPLY":
            self.waiting.append(number)
            self.applying.add(number)
        elif new == "GONE":
            self.gone.add(number)
        else:
            assert new != "QUEUED"
            self.settled[number] = new

    def rows(self) -> dict[str, tuple[str, int | None, bool]]:
        expected: dict[str, tuple[str, int | None, bool]] = {
            f"t{number}": (state, None, False) for number, state in self.settled.items()
        }
        for place, number in enumerate(self.waiting, 1):
            expected[f"t{number}"] = ("QUEUED", place, number in self.applying)
        if self.running is not None:
            expected[f"t{self.running}"] = ("RUNNING", None, self.running in self.applying)
        return expected


def rows_of(store: Store) -> dict[str, tuple[str, int | None, bool]]:
    return {row.task.id: (row.state, row.position, row.applying) for row in store.tasks()}


INTERLEAVINGS = 2_000
OPERATIONS = ("submit", "cancel", "claim", "end", "crash and resume", "apply or abort", "impossible")


def table(db: sqlite3.Connection) -> dict[str, tuple[str, int | None, bool]]:
    rows = db.execute(f"SELECT {changes.ROW} FROM tasks").fetchall()
    return {f"t{number}": (state, place, bool(applying)) for number, state, _, _, place, applying, _ in rows}


def act(db: sqlite3.Connection, model: Model, chance: random.Random, operation: str) -> None:
    """One transaction of some process, on the tables and on the model."""
    some = chance.randint(1, max(model.last, 1))
    match operation:
        case "submit":
            model.join(changes.join(db, 0.0))
        case "cancel":
            before = model.standing(some)
            changes.cancel(db, some, 0.0)
            if before in ("QUEUED", "QUEUED_TO_APPLY"):
                model.move(some, "GONE" if before == "QUEUED" else "PROPOSED")
        case "claim" if model.waiting and model.running is None:
            changes.move(db, model.waiting[0], "RUNNING")
            model.move(model.waiting[0], "RUNNING")
        case "end" if model.running is not None:
            state = chance.choice(sorted(SETTLED_STATES))
            changes.move(db, model.running, state)
            model.move(model.running, state)
        case "crash and resume" if model.running is not None:
            changes.count_attempt(db, model.running)
            changes.move(db, model.running, "RUNNING")
        case "apply or abort" if model.standing(some) == "PROPOSED":
            new = chance.choice(("QUEUED", "CANCELLED"))
            changes.move(db, some, new)
            model.move(some, "QUEUED_TO_APPLY" if new == "QUEUED" else "CANCELLED")
        case "impossible":
            old, state = model.standing(some), chance.choice(sorted(FINAL_STATES))
            if state not in TRANSITIONS[old]:
                with pytest.raises(ImpossibleTransition):
                    changes.move(db, some, state)
        case _:
            pass


def test_thousands_of_interleavings_of_transactions(
    record_property: Callable[[str, object], None],
) -> None:
    """What processes do to the queue are transactions: any order of them keeps the rules."""
    chance = random.Random(7)
    taken: set[tuple[Standing, Standing]] = set()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for migration in MIGRATIONS:
            migration(db)
        for _ in range(INTERLEAVINGS):
            db.execute("BEGIN")
            model = Model()
            for operation in chance.choices(OPERATIONS, weights=(4, 2, 4, 3, 1, 2, 1), k=25):
                act(db, model, chance, operation)
                assert table(db) == model.rows()
            taken |= model.taken
            db.execute("ROLLBACK")
    assert taken == {(old, new) for old, allowed in TRANSITIONS.items() for new in allowed}
    record_property("queue: interleavings of transactions", INTERLEAVINGS)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="headgate-workers-", dir=MEMORY if MEMORY.is_dir() else None
    ) as folder:
        yield Path(folder)


WITHOUT_AUDIT = f"""
DROP TRIGGER joined; DROP TRIGGER moved; DROP TRIGGER removed; DROP TABLE audit;
PRAGMA user_version = {len(MIGRATIONS)};
"""
"""Makes the store of `queue_workers.py` one that Headgate opens: it refuses unknown triggers."""


def replay(database: Path, folder: Path) -> Model:
    """Holds everything that happened, in the order of the commits, against the model, and the end as well."""
    model = Model()
    with closing(sqlite3.connect(database)) as db:
        steps = db.execute("SELECT n, old, new FROM audit ORDER BY step").fetchall()
        traces = {
            int(row[0].removeprefix("t"))
            for row in db.execute("SELECT task FROM events UNION ALL SELECT n || '' FROM control")
        }
        contents = db.execute(
            "SELECT COUNT(*) FROM bodies WHERE seq NOT IN (SELECT seq FROM events)"
        ).fetchone()
        db.executescript(WITHOUT_AUDIT)
    for number, old, new in steps:
        if old is None:
            model.join(number)
            continue
        assert model.standing(number).removesuffix("_TO_APPLY") == old
        model.move(number, "GONE" if new is None else "QUEUED_TO_APPLY" if new == "QUEUED" else new)
    store = Store(database)
    assert rows_of(store) == model.rows()
    store.close()
    assert traces.isdisjoint(model.gone)
    assert contents == (0,)
    submitted = dict(line.split(maxsplit=1) for line in (folder / "submitted").read_text().splitlines())
    known = {f"t{number}" for number in range(1, model.last + 1)}
    assert known - {f"t{number}" for number in model.gone} == set(model.rows())  # none is lost
    assert set(submitted) <= known
    removed = (folder / "removed").read_text().split() if (folder / "removed").exists() else []
    assert {int(task[1:]) for task in removed} <= model.gone
    data = b"".join(
        file.read_bytes()
        for file in database.parent.rglob("*")
        if file.is_file() and file.name != "submitted"
    )
    # A process that was killed while it removed one may have left bytes of it; one that said so has not.
    left = [task for task in removed if task in submitted and submitted[task].encode() in data]
    assert left == []
    print(f"{len(steps)} changes of state by processes, {len(known)} tasks, {len(model.gone)} removed")
    return model


PATIENCE = 900
"""Seconds after which processes that get nowhere are given up."""


def run_workers(kind: str, folder: Path, seed: int, kills: int) -> None:
    program = Path(__file__).with_name("queue_workers.py")
    command = [sys.executable, str(program), kind, str(folder), str(seed), str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("seed", range(2))
def test_processes_that_are_killed_at_any_moment_keep_to_the_model(folder: Path, seed: int) -> None:
    kills = 25
    run_workers("store", folder, seed, kills)
    model = replay(folder / "headgate.db", folder)
    print(f"{kills} processes killed")
    assert {
        ("QUEUED", "GONE"),
        ("PROPOSED", "QUEUED_TO_APPLY"),
        ("QUEUED_TO_APPLY", "RUNNING"),
    } <= model.taken


def test_engines_that_are_killed_at_any_moment_keep_to_the_model(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "script.yaml").write_text("- text: Done.\n")
    (folder / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:script.yaml\n")
    kills = 8
    run_workers("engine", folder, 1, kills)
    model = replay(Folder(folder).database, folder)
    print(f"{kills} engines killed")
    assert (model.waiting, model.running) == ([], None)
    assert set(model.settled.values()) <= {"SUCCESS", "CANCELLED", "INFRA_ERROR"}
