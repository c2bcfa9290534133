"""Lines that people say to tasks: kept until they are read, and never longer than the task."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headgate.core import MOST_WAITING, Line, PersonSpoke, Task, TaskEnded
from headgate.errors import ConfigError
from headgate.log import Bus, Draft, LineWaits, Store, TaskLog

ENDED = TaskEnded(state="SUCCESS", verified=False, reason="done", summary="", files_changed=())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "headgate.db")) as made:
        yield made


def add(store: Store) -> str:
    return store.add_task(lambda name: Task(id=name, text="x", goal="x"), 0.0).id


def spoke(line: Line) -> Draft:
    return Draft("work", 1, 0.0, PersonSpoke(text=line.text, number=line.number))


def all_lines(store: Store) -> int:
    with closing(sqlite3.connect(store.path)) as db:
        return int(db.execute("SELECT COUNT(*) FROM said").fetchone()[0])


async def test_lines_wait_in_order_until_their_events_are_committed(store: Store, tmp_path: Path) -> None:
    one, two = add(store), add(store)
    with closing(Store(store.path)) as other:
        assert other.say(one, "first", 1.0)
        assert other.say(two, "for another", 1.0)
        assert other.say("T1".lower(), "second", 2.0)
    store.claim()
    first, second = store.lines(one)
    assert (first.text, second.text, first.number < second.number) == ("first", "second", True)
    await store.append(one, [spoke(first)])
    assert store.lines(one) == [second]
    assert [line.text for line in store.lines(two)] == ["for another"]


@pytest.mark.parametrize("name", ["t9", "", "x", "t1x", "t" + "9" * 30])
def test_nobody_hears_a_line_for_no_task(store: Store, name: str) -> None:
    add(store)
    assert not store.say(name, "hello", 0.0)
    assert all_lines(store) == 0


async def test_an_ended_task_hears_nothing_and_leaves_no_line(store: Store) -> None:
    task = add(store)
    store.claim()
    assert store.say(task, "hello", 0.0)
    await store.append(task, [Draft("", 0, 0.0, ENDED)], "SUCCESS")
    assert not store.say(task, "again", 0.0)
    assert all_lines(store) == 0


def test_a_task_removed_from_the_queue_leaves_no_line(store: Store) -> None:
    task = add(store)
    assert store.say(task, "a secret word", 0.0)
    assert store.cancel(task, 0.0) == "removed"
    assert all_lines(store) == 0
    assert b"a secret word" not in store.path.read_bytes()


async def test_a_proposal_keeps_what_was_said_while_it_ran(store: Store) -> None:
    task = add(store)
    store.claim()
    assert store.say(task, "hello", 0.0)
    await store.append(task, [], "PROPOSED")
    assert not store.say(task, "again", 0.0)
    await store.append(task, [], "QUEUED")
    assert store.say(task, "once more", 0.0)
    assert [line.text for line in store.lines(task)] == ["hello", "once more"]


def test_only_so_many_lines_wait(store: Store) -> None:
    task = add(store)
    for number in range(MOST_WAITING):
        assert store.say(task, str(number), 0.0)
    with pytest.raises(ConfigError, match="50 lines wait for task t1"):
        store.say(task, "one too many", 0.0)
    assert store.say(add(store), "to another", 0.0)


async def test_a_task_does_not_end_over_a_line_that_it_does_not_know(store: Store) -> None:
    task = add(store)
    store.claim()
    log = TaskLog(store, Bus(), Task(id=task, text="x", goal="x"), lambda: 0.0)
    log.record("work", 1, PersonSpoke(text="earlier", number=99))
    store.say(task, "late", 0.0)
    with pytest.raises(LineWaits):
        await log.commit_state("SUCCESS", ENDED, last_line=0)
    assert (store.events(task), store.running() is not None) == ([], True)
    [line] = store.lines(task)
    await log.commit_state("SUCCESS", ENDED, last_line=line.number)
    assert [event.kind for event in store.events(task)] == ["person_spoke", "task_ended"]


async def test_concurrent_ends_and_lines_lose_nothing(store: Store) -> None:
    """Whatever comes first, a line is either refused or known to the end."""
    for _ in range(20):
        task = add(store)
        store.claim()
        ending = asyncio.ensure_future(store.append(task, [Draft("", 0, 0.0, ENDED)], "SUCCESS", last_line=0))
        said = await asyncio.to_thread(store.say, task, "hello", 0.0)
        [result] = await asyncio.gather(ending, return_exceptions=True)
        assert isinstance(result, LineWaits) == said
        if said:
            last = store.lines(task)[-1].number
            await store.append(task, [Draft("", 0, 0.0, ENDED)], "SUCCESS", last_line=last)
