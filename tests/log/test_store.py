"""The store, on real files, with real threads and processes."""

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest

from headgate.core import (
    Constraints,
    Event,
    Flow,
    MessageAdded,
    PlanItem,
    PlanWritten,
    Stage,
    Task,
    TaskStarted,
    TaskState,
    ToolFinished,
    VerifyStarted,
)
from headgate.errors import StoreError
from headgate.log import Bus, Draft, Store, TaskLog
from headgate.log.database import MIGRATIONS
from headgate.regular_files import PlantedFile


def queue(store: Store, text: str = "do it") -> Task:
    return store.add_task(lambda task_id: Task(id=task_id, text=text, goal=text), created=1.0)


def added(slug: str, content: str | None = None) -> Draft:
    return Draft("explore", 1, 2.0, MessageAdded(role="user", slug=slug), content)


def started(*, keeps: bool) -> Draft:
    settings = {"keep_conversations": keeps}
    flow = Flow(name="short", stages=(Stage(id="work"),))
    what = {"text": "do it", "goal": "do it", "constraints": Constraints(), "flow": flow, "config": settings}
    return Draft("", 0, 1.0, TaskStarted(**what, model="m", tools=(), baseline=""))


async def test_what_was_appended_is_there_for_everyone(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    store, other = Store(path), Store(path)
    task = queue(store)
    plan = PlanWritten(version=1, items=(PlanItem(id="1", description="mend it"),))
    finished = ToolFinished(call="c", name="ls", ok=False, error="denied")
    entries = [added("task", "hello"), Draft("plan", 2, 3.0, plan), Draft("plan", 2, 3.5, finished)]
    events = await store.append(task.id, entries, "RUNNING")
    assert events == [
        Event(1, task.id, "explore", 1, 2.0, MessageAdded(role="user", slug="task")),
        Event(2, task.id, "plan", 2, 3.0, plan),
        Event(3, task.id, "plan", 2, 3.5, finished),
    ]
    assert other.events(task.id) == events
    assert other.events(after=2) == events[2:]
    assert other.contents(task.id) == {1: "hello"}
    row = other.task(task.id)
    assert row is not None
    assert (row.task, row.state) == (task, "RUNNING")
    store.close()
    other.close()


async def test_the_end_of_a_task_deletes_its_conversation_and_no_event(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    first, second = queue(store), queue(store)
    await store.append(first.id, [added("a", "secret plan")], "RUNNING")
    await store.append(second.id, [added("b", "kept")])
    await store.append(first.id, [added("end")], "SUCCESS", keep_bodies=False)
    assert store.contents(first.id) == {}
    assert store.contents(second.id) == {2: "kept"}
    assert [event.seq for event in store.events(first.id)] == [1, 3]
    store.close()


async def test_of_stuck_tasks_the_last_ten_conversations_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    tasks = [queue(store) for _ in range(13)]
    for number, task in enumerate(tasks):
        await store.append(task.id, [started(keeps=number == 1), added("task", task.id)], "RUNNING")
        ending: TaskState = "CANCELLED" if number == 5 else "STUCK"
        await store.append(task.id, [added("end")], ending, keep_bodies=number == 1)
    kept = [task.id for task in tasks if list(store.contents(task.id).values()) == [task.id]]
    # The first is older than the last ten; the second says that it keeps its own; the sixth was cancelled.
    assert kept == [f"t{number}" for number in (2, 3, 4, 5, *range(7, 14))]
    assert [event.body.kind for event in store.events("t1")] == ["task_started", *["message_added"] * 2]
    store.close()


async def test_concurrent_runs_share_the_writer_and_keep_their_order(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    tasks = [queue(store) for _ in range(5)]

    async def work(task: Task) -> None:
        for number in range(20):
            await store.append(task.id, [added(f"{number}")])

    await asyncio.gather(*map(work, tasks))
    for task in tasks:
        slugs = [event.body.slug for event in store.events(task.id) if isinstance(event.body, MessageAdded)]
        assert slugs == [str(number) for number in range(20)]
    assert [event.seq for event in store.events()] == list(range(1, 101))
    store.close()


async def test_another_process_s_events_can_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    store = Store(path)
    task = queue(store)
    await store.append(task.id, [added("before")])
    writer = f"""
import asyncio
from pathlib import Path
from headgate.core import MessageAdded
from headgate.log import Draft, Store
store = Store(Path({str(path)!r}))
async def write():
    for slug in "abc":
        await store.append({task.id!r}, [Draft("", 0, 1.0, MessageAdded(role="user", slug=slug))])
asyncio.run(write())
store.close()
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", writer)
    seen = []
    async for event in store.follow(task.id, after=1, every=0.01):
        assert isinstance(event.body, MessageAdded)
        seen.append((event.seq, event.body.slug))
        if len(seen) == 3:
            break
    assert await process.wait() == 0
    assert seen == [(2, "a"), (3, "b"), (4, "c")]
    store.close()


async def test_a_cancelled_append_is_committed_all_the_same(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    task = queue(store)
    store.append(task.id, [added("x")]).cancel()
    await store.append(task.id, [added("y")])
    assert len(store.events(task.id)) == 2
    store.close()


async def test_a_cancelled_commit_is_heard_all_the_same(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    heard: list[Event] = []
    log = TaskLog(store, Bus([heard.append]), queue(store), lambda: 1.0)
    log.record("", 0, MessageAdded(role="user", slug="x"))
    committing = asyncio.create_task(log.commit())
    await asyncio.sleep(0)
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    assert heard == store.events()
    assert log.state.last_seq == 1
    store.close()


async def test_what_cannot_be_encoded_is_refused_and_nothing_hangs(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    task = queue(store)
    with pytest.raises(ValueError, match="surrogates"):
        await store.append(task.id, [added("\ud800")])
    with pytest.raises(StoreError):
        await store.append(task.id, [added("fine", "\ud800")])
    assert len(await store.append(task.id, [added("fine")])) == 1
    store.close()


def test_ids_are_not_used_twice_and_nonsense_is_no_task(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    assert [queue(store).id, queue(store).id] == ["t1", "t2"]
    assert [
        store.task(name) for name in ("t3", "x", "", "t", "t²", "t" + "9" * 30, "t1; DROP TABLE tasks")
    ] == [None] * 7
    store.close()


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(StoreError, match="newer Headgate"):
        Store(path)


def test_a_task_that_an_older_version_stored_is_read(tmp_path: Path) -> None:
    """It names neither its models nor its steps."""
    store = Store(tmp_path / "headgate.db")
    store.add_task(lambda task_id: Task(id=task_id, text="x", goal="x"), 1.0)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE tasks SET spec = json_remove(spec, '$.models', '$.steps')")
        (spec,) = db.execute("SELECT spec FROM tasks").fetchone()
    db.close()
    assert not [name for name in ("models", "steps") if name in spec]
    assert [row.task for row in store.tasks()] == [Task(id="t1", text="x", goal="x")]
    store.close()


def test_a_directory_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "headgate.db").mkdir()
    with pytest.raises(PlantedFile, match="is a folder"):
        Store(tmp_path / "headgate.db")


async def test_the_runs_that_failed_tasks_name_are_known(tmp_path: Path) -> None:
    store = Store(tmp_path / "headgate.db")
    states: tuple[TaskState, ...] = ("STUCK", "INFRA_ERROR", "SUCCESS")
    for number, state in enumerate(states, 1):
        task = store.add_task(lambda task_id: Task(id=task_id, text="x", goal="x"), 1.0)
        store.claim()
        started = Draft("", 0, 1.0, VerifyStarted(run_id=f"run_{number}", steps=()))
        await store.append(task.id, [started], state)
    assert store.failed_runs() == {"run_1", "run_2"}
    store.close()
