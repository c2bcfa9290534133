"""Damaged stores, damaged for real: set aside as they are, a new one is started, no traceback."""

import asyncio
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import MessageAdded, Task
from headgate.errors import StoreError
from headgate.log import Draft, Store

PAGE = 8192
TASKS = [f"t{number}" for number in range(1, 31)]
ADDED = "added after the damage"


def add(store: Store, text: str) -> str:
    return store.add_task(lambda task_id: Task(id=task_id, text=text, goal="g"), created=1.5).id


async def fill(store: Store) -> None:
    """Tasks with enough text and events for trees of several levels."""
    for number, task in enumerate(TASKS):
        assert add(store, f"task {number} " * 200) == task
        for turn in range(8):
            body = MessageAdded(role="user", slug=f"s{turn}")
            await store.append(task, [Draft("work", turn, 2.5, body, f"said {turn} " * 90)])


@cache
def make_sound() -> bytes:
    with tempfile.TemporaryDirectory(prefix="headgate-sound-") as folder:
        path = Path(folder) / "headgate.db"
        store = Store(path)
        asyncio.run(fill(store))
        store.close()
        assert list(path.parent.glob("*-wal")) == []
        return path.read_bytes()


@pytest.fixture
def sound() -> bytes:
    return make_sound()


def read_all(store: Store) -> list[str]:
    """Reads everything that anybody reads; returns the tasks' ids."""
    for look in (store.head, store.running, store.latest, store.events):
        look()
    tasks = [row.task.id for row in store.tasks()]
    for task in tasks:
        store.task(task)
        store.events(task)
        store.contents(task)
        store.count_ahead(task)
        store.is_cancelled(task)
    return tasks


def set_aside(path: Path) -> list[Path]:
    found = path.parent.glob("headgate.db.damaged-*")
    return sorted(file for file in found if not file.name.endswith(("-wal", "-shm")))


def check(damaged: bytes, folder: Path) -> str:
    """What comes of a damaged store: it is `sound` enough to work, `set aside`, or `named` in an error."""
    path = folder / "headgate.db"
    path.write_bytes(damaged)
    before = []
    try:
        store = Store(path)
        notes = store.notes
        try:
            before = read_all(store)
            add(store, ADDED)
        finally:
            store.close()
    except StoreError as error:
        # A newer Headgate might have written what is well-formed and still not understood.
        said = str(error)
        named = any(words in said for words in ("move it away", "Move the file away", "upgrade"))
        return "named" if named else said
    aside = set_aside(path)
    if not aside:
        assert set(before) <= set(TASKS)
        return "sound"
    assert [file.read_bytes() for file in aside] == [damaged]
    assert f"moved aside as {aside[0].name}" in notes[0]
    assert before == []
    return "set aside"


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    seed, kinds = (
        draw(st.integers(0, 2**32)),
        draw(st.lists(st.sampled_from("fzgtcp"), min_size=1, max_size=4)),
    )

    def damage(data: bytes) -> bytes:
        choose, new = random.Random(seed), bytearray(data)
        for kind in kinds:
            place = choose.randrange(len(new))
            page = place // PAGE * PAGE
            match kind:
                case "f":
                    new[place] ^= 1 << choose.randrange(8)
                case "z":
                    new[page : page + PAGE] = bytes(len(new[page : page + PAGE]))
                case "g":
                    length = choose.choice((4, 512, 4096))
                    new[place : place + length] = choose.randbytes(len(new[place : place + length]))
                case "t":
                    del new[max(place, PAGE) :]
                case "c":  # the beginning of a page, where what it is and what it holds is written
                    new[page + choose.randrange(12) if page + 12 < len(new) else place] = choose.randrange(
                        256
                    )
                case "p":
                    new[page : page + PAGE] = data[PAGE * 4 : PAGE * 4 + len(new[page : page + PAGE])]
        return bytes(new)

    return damage


@settings(max_examples=40, derandomize=True, deadline=None)
@given(damage=damages())
def test_no_damage_ends_in_a_traceback(damage: Callable[[bytes], bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="headgate-damage-") as folder:
        assert check(damage(make_sound()), Path(folder)) in ("sound", "set aside", "named")


@pytest.mark.parametrize(
    "content",
    [
        b"this is not a database, whatever its name says" * 100,
        b"SQLite format 3\0" + b"\xff" * 5000,
        b"\0" * 3 * PAGE,
        b"nonsense",
    ],
)
def test_what_never_was_a_store_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "headgate.db"
    path.write_bytes(content)
    store = Store(path)
    [aside] = set_aside(path)
    assert aside.read_bytes() == content
    assert store.notes == (
        f"{path} was damaged and was moved aside as {aside.name}. A new one was started; the tasks in the old"
        f" one are not in it. To read them: sqlite3 {aside} .recover | sqlite3 recovered.db",
    )
    assert store.tasks() == []
    store.close()
    again = Store(path)
    assert again.notes == ()
    again.close()


def test_damage_met_while_working_is_named(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    data = bytearray(sound)
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    path.write_bytes(data)
    store = Store(path)
    assert store.notes == ()  # opening does not read the whole file
    with pytest.raises(StoreError, match=r"headgate.db is damaged \(.*\): move it away and run again"):
        read_all(store)
    store.close()


def test_a_damaged_file_that_others_use_is_left(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    path.write_bytes(sound)
    store = Store(path)
    path.write_bytes(b"\xff" * len(sound))
    with pytest.raises(StoreError, match="other Headgate processes are using it"):
        Store(path)
    assert set_aside(path) == []
    store.close()


def test_ids_go_on_after_those_in_the_reports(tmp_path: Path) -> None:
    (tmp_path / "task_reports.jsonl").write_text('{"task_id":"t41","x":1}\n{"task_id":"t7"}\n')
    store = Store(tmp_path / "headgate.db")
    assert [add(store, "x"), add(store, "y")] == ["t42", "t43"]
    store.close()


OPEN = """
import sys
from pathlib import Path
from headgate.log.store import Store
store = Store(Path(sys.argv[1]))
print(len(store.tasks()), bool(store.notes), flush=True)
sys.stdin.read()
"""


def test_of_several_processes_one_sets_it_aside_and_all_go_on(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    path.write_bytes(b"\xff" * 200 + sound[200:])
    command = [sys.executable, "-c", OPEN, str(path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    lines = []
    for process in processes:
        assert process.stdout is not None
        lines.append(process.stdout.readline().split())
    for process in processes:
        process.communicate("")
    assert sorted(lines) == [["0", "False"], ["0", "False"], ["0", "True"]]
    assert len(set_aside(path)) == 1
