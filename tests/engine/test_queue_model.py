"""The queue and the states against a plain model: random interleavings, and real processes that die."""

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar, get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headgate.core import (
    FINAL_STATES,
    SETTLED_STATES,
    ImpossibleTransition,
    MessageAdded,
    Standing,
    Task,
    TaskState,
)
from headgate.core.task import TRANSITIONS
from headgate.log import Draft, Folder, Store, changes
from headgate.log.database import MIGRATIONS

STATES: tuple[TaskState, ...] = get_args(TaskState)
STORES = 3
ENDS = st.sampled_from((*sorted(FINAL_STATES), "PROPOSED", "PROPOSED", "PROPOSED"))
MEMORY = Path("/dev/shm")
DRAFT = Draft("", 0, 1.0, MessageAdded(role="user", slug="x"), "content")


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


class QueueMachine(RuleBasedStateMachine):
    """Several connections do anything in any order."""

    steps: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(
            prefix="headgate-queue-", dir=MEMORY if MEMORY.is_dir() else None
        )
        self.path = Path(self.folder.name) / "headgate.db"
        self.stores = [Store(self.path) for _ in range(STORES)]
        # Kept open till the end: closing a file gives up every lock that this process has on it.
        parts = [self.path, self.path.with_name("headgate.db-wal")]
        self.files = [os.open(part, os.O_RDONLY) for part in parts]
        self.model = Model()
        self.asked = False
        self.loop = asyncio.new_event_loop()
        self.steps["interleavings"] += 1

    def append(self, which: int, number: int, state: TaskState | None) -> None:
        self.loop.run_until_complete(self.stores[which].append(f"t{number}", [DRAFT], state))

    def some_task(self, data: st.DataObject) -> int:
        return data.draw(st.integers(1, self.model.last))

    @rule(which=st.integers(0, STORES - 1), length=st.sampled_from((1, 300, 3000)))
    def submit(self, which: int, length: int) -> None:
        self.steps["submit"] += 1
        text = f"secret{self.model.last + 1:06}" * length
        added = self.stores[which].add_task(
            lambda task_id: Task(id=task_id, text=text, goal="g"), created=1.0
        )
        self.model.join(int(added.id[1:]))

    @initialize(count=st.integers(2, 4))
    def begin(self, count: int) -> None:
        for which in range(count):
            self.submit(which % STORES, 1)
        self.carry_out(0, "PROPOSED")

    @precondition(lambda self: self.model.running is None and self.model.waiting)
    @rule(which=st.integers(0, STORES - 1), state=ENDS)
    def carry_out(self, which: int, state: TaskState) -> None:
        self.claim(which)
        self.end((which + 1) % STORES, state)

    @rule(which=st.integers(0, STORES - 1))
    def claim(self, which: int) -> None:
        self.steps["claim"] += 1
        if self.model.running is not None and self.model.waiting:
            with pytest.raises(ImpossibleTransition):
                self.stores[which].claim()
            return
        claimed = self.stores[which].claim()
        assert (claimed and claimed.id) == (f"t{self.model.waiting[0]}" if self.model.waiting else None)
        if claimed:
            self.model.move(int(claimed.id[1:]), "RUNNING")
            self.asked = False

    @precondition(lambda self: self.model.running is not None)
    @rule(which=st.integers(0, STORES - 1), state=ENDS)
    def end(self, which: int, state: TaskState) -> None:
        self.steps["end"] += 1
        assert self.model.running is not None
        self.append(which, self.model.running, state)
        self.model.move(self.model.running, state)

    @precondition(lambda self: self.model.last > 0)
    @rule(which=st.integers(0, STORES - 1), data=st.data())
    def cancel(self, which: int, data: st.DataObject) -> None:
        self.steps["cancel"] += 1
        number = self.some_task(data)
        outcome = self.stores[which].cancel(f"t{number}", 1.0)
        match self.model.standing(number):
            case "QUEUED":
                self.model.move(number, "GONE")
                assert outcome == "removed"
            case "QUEUED_TO_APPLY":
                self.model.move(number, "PROPOSED")
                assert outcome == "returned"
            case "RUNNING":
                self.asked = True
                assert outcome == "asked"
            case old:
                assert outcome == ("unknown" if old == "GONE" else "settled")

    @precondition(lambda self: "PROPOSED" in self.model.settled.values())
    @rule(
        which=st.integers(0, STORES - 1),
        data=st.data(),
        state=st.sampled_from(("QUEUED", "QUEUED", "CANCELLED")),
    )
    def apply_or_abort(self, which: int, data: st.DataObject, state: TaskState) -> None:
        self.steps["apply or abort"] += 1
        proposals = sorted(task for task, state in self.model.settled.items() if state == "PROPOSED")
        number = data.draw(st.sampled_from(proposals))
        self.append(which, number, state)
        self.model.move(number, "QUEUED_TO_APPLY" if state == "QUEUED" else "CANCELLED")

    @precondition(lambda self: self.model.last > 0)
    @rule(which=st.integers(0, STORES - 1), data=st.data(), state=st.sampled_from(STATES))
    def try_the_impossible(self, which: int, data: st.DataObject, state: TaskState) -> None:
        number = self.some_task(data)
        old, new = self.model.standing(number), "QUEUED_TO_APPLY" if state == "QUEUED" else state
        if new not in TRANSITIONS[old] and not (old == new == "RUNNING"):
            self.steps["impossible"] += 1
            with pytest.raises(ImpossibleTransition):
                self.append(which, number, state)

    @rule(which=st.integers(0, STORES - 1))
    def crash_and_resume(self, which: int) -> None:
        """A process is gone; another one takes up what it ran. (Killed for real: in the test below.)"""
        self.steps["crash and resume"] += 1
        fresh = Store(self.path)
        self.stores[which].close()
        self.stores[which] = fresh
        if self.model.running is not None:
            row = fresh.running()
            assert row is not None
            assert row.task.id == f"t{self.model.running}"
            self.append(which, self.model.running, "RUNNING")

    @invariant()
    def every_store_agrees(self) -> None:
        expected = self.model.rows()
        for store in self.stores:
            assert rows_of(store) == expected
        if self.model.running is not None:
            assert self.stores[0].is_cancelled(f"t{self.model.running}") == self.asked
        assert {int(event.task[1:]) for event in self.stores[0].events()}.isdisjoint(self.model.gone)

    @invariant()
    def no_byte_of_a_cancelled_one_is_left(self) -> None:
        data = b"".join(os.pread(file, os.fstat(file).st_size, 0) for file in self.files)
        assert [number for number in self.model.gone if f"secret{number:06}".encode() in data] == []

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        for file in self.files:
            os.close(file)
        self.loop.close()
        self.folder.cleanup()


KINDS = (
    "interleavings",
    "submit",
    "claim",
    "end",
    "cancel",
    "apply or abort",
    "impossible",
    "crash and resume",
)


def test_random_interleavings_of_several_connections(
    record_property: Callable[[str, object], None],
) -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(max_examples=25, stateful_step_count=40, derandomize=True, deadline=None),
    )
    steps = QueueMachine.steps
    assert all(steps[kind] for kind in KINDS), steps
    record_property("queue: interleavings of several connections", steps.pop("interleavings"))
    record_property("queue: steps in them", steps.total())


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
