"""Where tasks stand: the table, the queue's order, and the store's word against a simple model of both."""

import asyncio
import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.core.events import MessageAdded
from headgate.core.task import (
    FINAL_STATES,
    TRANSITIONS,
    ImpossibleTransition,
    Standing,
    Task,
    TaskState,
    check_transition,
)
from headgate.engine.database import MIGRATIONS
from headgate.engine.store import Draft, Store

STATES: tuple[TaskState, ...] = get_args(TaskState)
DRAFT = Draft("", 0, 1.0, MessageAdded(role="user", slug="x"), "content")


def queue(store: Store, text: str = "x") -> str:
    return store.add_task(lambda task_id: Task(id=task_id, text=text, goal=text), created=1.0).id


def standing(store: Store, task_id: str) -> tuple[str, int | None, bool] | None:
    row = store.task(task_id)
    return (row.state, row.position, row.applying) if row else None


async def bring_to(store: Store, state: TaskState) -> str:
    task_id = queue(store)
    if state != "QUEUED":
        await store.append(task_id, [DRAFT], "RUNNING")
    if state not in ("QUEUED", "RUNNING"):
        await store.append(task_id, [], state)
    return task_id


def test_every_standing_has_its_line_and_ends_have_none() -> None:
    assert {*STATES, "QUEUED_TO_APPLY", "GONE"} == set(TRANSITIONS)
    assert {old for old, after in TRANSITIONS.items() if not after} == {*FINAL_STATES, "GONE"}
    with pytest.raises(ImpossibleTransition, match="Task t1 cannot go from SUCCESS to RUNNING"):
        check_transition("t1", "SUCCESS", "RUNNING")


@pytest.mark.parametrize("old", STATES)
async def test_the_store_allows_what_the_table_allows_and_writes_nothing_else(
    tmp_path: Path, old: TaskState
) -> None:
    store = Store(tmp_path / "headgate.db")
    for new in STATES:
        task_id = await bring_to(store, old)
        aim: Standing = "QUEUED_TO_APPLY" if new == "QUEUED" else new
        before = (standing(store, task_id), store.events(task_id))
        if aim in TRANSITIONS[old] or old == new == "RUNNING":
            await store.append(task_id, [DRAFT], new)
            assert (standing(store, task_id) or ("",))[0] == new
        else:
            with pytest.raises(ImpossibleTransition):
                await store.append(task_id, [DRAFT], new)
            assert (standing(store, task_id), store.events(task_id)) == before
    store.close()


async def test_an_impossible_transition_does_not_harm_others_in_its_batch(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    good, bad = queue(store), queue(store)
    results = await asyncio.gather(
        store.append(good, [DRAFT], "RUNNING"),
        store.append(bad, [DRAFT], "SUCCESS"),
        store.append(good, [DRAFT]),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [list, ImpossibleTransition, list]
    assert ([event.task for event in store.events()], standing(store, bad)) == (
        [good, good],
        ("QUEUED", 1, False),
    )
    store.close()


async def test_a_proposal_joins_the_tail_and_cancelling_it_there_returns_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    proposal = await bring_to(store, "PROPOSED")
    first, second = queue(store), queue(store)
    await store.append(proposal, [], "QUEUED")
    assert [standing(store, task) for task in (first, second, proposal)] == [
        ("QUEUED", 1, False),
        ("QUEUED", 2, False),
        ("QUEUED", 3, True),
    ]
    assert [store.count_ahead(task) for task in (first, second, proposal)] == [0, 1, 2]
    assert store.cancel(proposal, 1.0) == "returned"
    assert standing(store, proposal) == ("PROPOSED", None, False)
    assert len(store.events(proposal)) == 1
    await store.append(proposal, [], "QUEUED")
    for task in (first, second):
        claimed = store.claim()
        assert claimed is not None
        assert claimed.id == task
        await store.append(task, [], "STUCK")
    claimed = store.claim()
    assert claimed is not None
    assert (claimed.id, standing(store, proposal)) == (proposal, ("RUNNING", None, True))
    store.close()


async def test_only_one_task_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    assert store.claim() is None
    queue(store)
    queue(store)
    assert store.claim() is not None
    with pytest.raises(ImpossibleTransition, match="t2 cannot start while t1 is RUNNING"):
        store.claim()
    store.close()


async def test_a_request_to_cancel_is_durable_and_ends_with_the_task(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "headgate.db"), Store(tmp_path / "headgate.db")
    task = await bring_to(store, "RUNNING")
    assert (store.is_cancelled(task), other.cancel(task, 1.0), other.cancel(task, 2.0)) == (
        False,
        "asked",
        "asked",
    )
    assert store.is_cancelled(task)
    await store.append(task, [], "CANCELLED")
    assert not store.is_cancelled(task)
    assert [other.cancel(name, 3.0) for name in (task, "t99", "nonsense")] == [
        "settled",
        "unknown",
        "unknown",
    ]
    store.close()
    other.close()


def test_tasks_of_the_first_schema_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        MIGRATIONS[0](db)
        db.execute("PRAGMA user_version = 1")
        for number, state in enumerate(("SUCCESS", "QUEUED", "QUEUED"), 1):
            spec = json.dumps({"id": f"t{number}", "text": "x", "goal": "x", "constraints": {}, "flow": None})
            db.execute("INSERT INTO tasks (state, created, spec) VALUES (?, 1, ?)", (state, spec))
    store = Store(path)
    queue(store)
    assert [(row.task.id, row.position) for row in store.tasks()] == [
        ("t1", None),
        ("t2", 1),
        ("t3", 2),
        ("t4", 3),
    ]
    store.close()


class QueueMachine(RuleBasedStateMachine):
    """Two connections do anything in any order; a list and a dictionary say what must come of it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="headgate-queue-")
        self.stores = [Store(Path(self.folder.name) / "headgate.db") for _ in range(2)]
        self.waiting: list[str] = []
        self.applying: set[str] = set()
        self.running: str | None = None
        self.asked = False
        self.settled: dict[str, TaskState] = {}
        self.gone: set[str] = set()
        self.number = 0
        self.loop = asyncio.new_event_loop()

    @initialize()
    def begin(self) -> None:
        assert self.stores[0].claim() is None

    @rule(which=st.integers(0, 1))
    def submit(self, which: int) -> None:
        self.number += 1
        assert queue(self.stores[which]) == f"t{self.number}"
        self.waiting.append(f"t{self.number}")

    @precondition(lambda self: self.running is None)
    @rule(which=st.integers(0, 1))
    def claim(self, which: int) -> None:
        claimed = self.stores[which].claim()
        assert (claimed.id if claimed else None) == (self.waiting[0] if self.waiting else None)
        self.running = self.waiting.pop(0) if self.waiting else None
        self.asked = False

    @precondition(lambda self: self.running is not None)
    @rule(which=st.integers(0, 1), state=st.sampled_from([*sorted(FINAL_STATES), "PROPOSED"]))
    def end(self, which: int, state: TaskState) -> None:
        assert self.running is not None
        self.append(which, self.running, state)
        self.settled[self.running] = state
        self.applying.discard(self.running)
        self.running = None

    def append(self, which: int, task: str, state: TaskState) -> None:
        self.loop.run_until_complete(self.stores[which].append(task, [DRAFT], state))

    @precondition(lambda self: self.number > 0)
    @rule(which=st.integers(0, 1), data=st.data())
    def cancel(self, which: int, data: st.DataObject) -> None:
        task = f"t{data.draw(st.integers(1, self.number))}"
        outcome = self.stores[which].cancel(task, 1.0)
        if task in self.waiting and task in self.applying:
            self.waiting.remove(task)
            self.applying.discard(task)
            self.settled[task] = "PROPOSED"
            assert outcome == "returned"
        elif task in self.waiting:
            self.waiting.remove(task)
            self.gone.add(task)
            assert outcome == "removed"
        elif task == self.running:
            self.asked = True
            assert outcome == "asked"
        else:
            assert outcome == ("unknown" if task in self.gone else "settled")

    @precondition(lambda self: "PROPOSED" in self.settled.values())
    @rule(which=st.integers(0, 1), apply=st.booleans())
    def decide_about_proposal(self, which: int, apply: bool) -> None:
        task = next(task for task, state in self.settled.items() if state == "PROPOSED")
        new: TaskState = "QUEUED" if apply else "CANCELLED"
        self.append(which, task, new)
        if apply:
            del self.settled[task]
            self.waiting.append(task)
            self.applying.add(task)
        else:
            self.settled[task] = "CANCELLED"

    @invariant()
    def the_store_agrees(self) -> None:
        expected: dict[str, tuple[str, int | None]] = {
            task: (state, None) for task, state in self.settled.items()
        }
        expected |= {task: ("QUEUED", place) for place, task in enumerate(self.waiting, 1)}
        if self.running:
            expected[self.running] = ("RUNNING", None)
            assert self.stores[0].is_cancelled(self.running) == self.asked
        for store in self.stores:
            found = {row.task.id: (row.state, row.position) for row in store.tasks()}
            assert found == expected
        assert {event.task for event in self.stores[0].events()}.isdisjoint(self.gone)

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.loop.close()
        self.folder.cleanup()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=30, stateful_step_count=25, derandomize=True, deadline=None)
