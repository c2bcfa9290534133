"""Where tasks stand: the table of transitions and the queue's order."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from headgate.core import (
    FINAL_STATES,
    Event,
    ImpossibleTransition,
    MessageAdded,
    Standing,
    Task,
    TaskState,
    check_transition,
)
from headgate.core.task import TRANSITIONS
from headgate.log import Draft, Store, find_pause
from headgate.log.database import MIGRATIONS

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
    assert (store.count_ahead(proposal), store.count_ahead(queue(store))) == (0, 1)
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


class LongLog(Store):
    """One in which nobody may look for an event by its kind."""

    def last_event(self, *kinds: str) -> Event | None:
        raise AssertionError("this would look through all that the running task has done")


async def test_whether_the_queue_is_paused_takes_no_longer_in_a_long_task(tmp_path: Path) -> None:
    with closing(LongLog(tmp_path / "store.db")) as store:
        assert find_pause(store) is None
        await bring_to(store, "RUNNING")
        queue(store)
        assert find_pause(store) is None


async def test_the_latest_tasks_in_some_states(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "store.db")) as store:
        for state in ("SUCCESS", "STUCK", "SUCCESS", "PROPOSED", "QUEUED"):
            await bring_to(store, state)

        def listed(*states: TaskState, **part: int) -> list[str]:
            return [row.task.id for row in store.latest_tasks(states, **part)]

        assert listed("SUCCESS", "STUCK") == ["t3", "t2", "t1"]
        assert listed("SUCCESS", "STUCK", most=1, skipped=1) == ["t2"]
        assert listed("QUEUED", "PROPOSED") == ["t5", "t4"]
        assert listed("RUNNING") == []


def test_a_task_is_tried_again_by_those_that_say_so(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "store.db")) as store:
        queue(store)
        for resumes in ("t1", "t11", "", "t1"):
            store.add_task(
                lambda task_id, resumes=resumes: Task(id=task_id, text="t1", goal="x", resumes=resumes), 1.0
            )
        assert [row.task.id for row in store.retries("t1")] == ["t5", "t2"]
