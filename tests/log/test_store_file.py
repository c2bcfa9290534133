"""A store whose file is deleted or replaced while it is open."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core import MessageAdded, Task
from headgate.log import Draft, Store

DRAFT = Draft("", 0, 1.0, MessageAdded(role="user", slug="x"), "content")


def add(store: Store, text: str) -> str:
    return store.add_task(lambda task_id: Task(id=task_id, text=text, goal="g"), 1.0).id


def texts(store: Store) -> list[str]:
    return [row.task.text for row in store.tasks()]


LOSSES: dict[str, Callable[[Path], object]] = {
    "the file": Path.unlink,
    "the folder": lambda path: shutil.rmtree(path.parent),
    "replaced": lambda path: (path.unlink(), path.write_text("nonsense")),
    "replaced by a folder": lambda path: (path.unlink(), (path / "inner").mkdir(parents=True)),
}


@pytest.mark.parametrize("what", LOSSES)
async def test_who_has_it_open_puts_it_back_and_others_follow(tmp_path: Path, what: str) -> None:
    path = tmp_path / "folder" / "headgate.db"
    path.parent.mkdir()
    owner, follower = Store(path), Store(path)
    owner.owned = True
    assert [add(owner, "one"), add(follower, "two")] == ["t1", "t2"]
    assert owner.cancel("t2", 1.0) == "removed"
    await owner.append("t1", [DRAFT], "RUNNING")
    LOSSES[what](path)
    assert owner.is_lost()
    assert add(follower, "three") == "t3"  # into what both have open
    await owner.append("t1", [DRAFT])
    path.parent.mkdir(exist_ok=True)
    owner.recreate()
    assert not owner.is_lost()
    assert texts(owner) == texts(follower) == ["one", "three"]
    assert add(follower, "four") == "t4"
    (event,) = await owner.append("t1", [DRAFT])
    assert (event.seq, [each.seq for each in follower.events("t1")]) == (3, [1, 2, 3])
    owner.close()
    follower.close()
    last = Store(path)
    assert texts(last) == ["one", "three", "four"]
    last.close()


async def test_an_owner_never_takes_another_store_for_its_own(tmp_path: Path) -> None:
    path, other = tmp_path / "headgate.db", tmp_path / "other.db"
    owner, alien = Store(path), Store(other)
    owner.owned = True
    add(owner, "mine")
    add(alien, "not mine")
    alien.close()
    other.replace(path)
    assert texts(owner) == ["mine"]
    owner.recreate()
    assert texts(owner) == ["mine"]
    owner.close()
