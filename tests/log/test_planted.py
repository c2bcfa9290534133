"""What a command may plant in Headgate's folder: objects in the store, links, pipes and second names."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headgate.core import MessageAdded, Task
from headgate.errors import StoreError
from headgate.log import Draft, Store
from headgate.regular_files import OwnFolder, PlantedFile, open_own, remove_tree

DRAFT = Draft("explore", 1, 2.0, MessageAdded(role="user", slug="task"))
PLANTED = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON events BEGIN UPDATE tasks SET state = 'SUCCESS'; END",
    "view": "CREATE VIEW results AS SELECT * FROM tasks",
    "table": "CREATE TABLE other (n)",
    "index": "CREATE INDEX other ON events (at)",
    "column": "ALTER TABLE tasks ADD COLUMN extra GENERATED ALWAYS AS (n) VIRTUAL",
    "view as a table": "ALTER TABLE control RENAME TO kept; CREATE VIEW control AS SELECT * FROM kept",
}


def queue(store: Store) -> Task:
    return store.add_task(lambda task_id: Task(id=task_id, text="do it", goal="do it"), created=1.0)


def plant(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(statement)


@pytest.mark.parametrize("statement", PLANTED.values(), ids=PLANTED)
async def test_objects_of_somebody_else_stop_every_write_and_every_opening(
    tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "headgate.db"
    store = Store(path)
    task = queue(store)
    await store.append(task.id, [DRAFT], "RUNNING")
    plant(path, statement)
    with pytest.raises(StoreError, match="Headgate did not create"):
        await store.append(task.id, [DRAFT], "STUCK")
    with pytest.raises(StoreError, match="Headgate did not create"):
        queue(store)
    store.close()
    with pytest.raises(StoreError, match=r"Headgate did not create: .* Move the file away"):
        Store(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT state FROM tasks").fetchall() == [("RUNNING",)]
        assert db.execute("SELECT COUNT(*) FROM events").fetchone() == (1,)


async def test_a_trigger_is_found_though_the_schema_looks_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    store = Store(path)
    task = queue(store)
    with closing(sqlite3.connect(path)) as db:
        version = db.execute("PRAGMA schema_version").fetchone()[0]
    plant(path, f"{PLANTED['trigger']}; PRAGMA schema_version = {version}")
    with pytest.raises(StoreError, match="Headgate did not create"):
        await store.append(task.id, [DRAFT], "RUNNING")
    store.close()


@pytest.mark.parametrize("part", ["", "-wal", "-shm", "-journal", ".users"])
@pytest.mark.parametrize("kind", ["pipe", "link", "hard link"])
def test_a_store_of_links_and_pipes_is_not_opened(tmp_path: Path, part: str, kind: str) -> None:
    path, outside = tmp_path / "headgate.db", tmp_path / "outside"
    outside.write_text("mine")
    put(tmp_path / f"headgate.db{part}", outside, kind)
    with pytest.raises(PlantedFile, match="never creates there: remove it"):
        Store(path)
    assert outside.read_text() == "mine"


def put(place: Path, outside: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(outside)
    else:
        place.hardlink_to(outside)


@pytest.mark.parametrize("kind", ["pipe", "link", "hard link"])
@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_TRUNC]
)
def test_own_files_are_regular_files(tmp_path: Path, kind: str, flags: int) -> None:
    outside, place = tmp_path / "outside", tmp_path / "file"
    outside.write_text("mine")
    put(place, outside, kind)
    if kind == "hard link" and flags == os.O_RDONLY:
        os.close(open_own(place, flags))  # reading it does no harm
    else:
        with pytest.raises(PlantedFile):
            open_own(place, flags)
    assert outside.read_text() == "mine"


def test_no_folder_on_the_way_is_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "own").symlink_to(outside)
    own = OwnFolder(tmp_path / "own")
    with pytest.raises(PlantedFile):
        own.make(tmp_path / "own" / "runs")
    with pytest.raises(PlantedFile):
        own.write(tmp_path / "own" / "file", b"x")
    assert not list(outside.iterdir())


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(0o755)
    (tmp_path / "link").symlink_to(target)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(NotADirectoryError):
            remove_tree("link", directory)
    finally:
        os.close(directory)
    assert target.stat().st_mode & 0o777 == 0o755
