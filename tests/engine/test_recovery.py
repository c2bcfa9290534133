"""Damaged stores, damaged for real: what can be read comes back, the rest is set aside, no traceback."""

import asyncio
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.events import Event, MessageAdded, TaskEnded, TaskStarted
from headgate.core.flow import Flow, Stage
from headgate.core.state import fold
from headgate.core.task import FINAL_STATES, Constraints, Task, TaskState
from headgate.engine.store.store import Draft, Store, TaskRow
from headgate.errors import StoreError

PAGE = 8192
ADDED = "added after the damage"
STARTED = TaskStarted(
    text="x",
    goal="x",
    constraints=Constraints(),
    flow=Flow(name="flat", stages=(Stage(id="work"),)),
    model="m",
    tools=(),
    baseline="",
    config={},
)


@dataclass(frozen=True)
class Original:
    """A sound store: its bytes, what it says, and which pages each task's row takes."""

    data: bytes
    rows: dict[str, TaskRow]
    events: dict[int, Event]
    contents: dict[str, dict[int, str]]
    pages: dict[str, set[int]]
    counter_page: int
    last_id: int


async def fill(store: Store) -> None:
    """Tasks in every state, short and long, with enough events for trees of several levels."""

    def add(number: int) -> str:
        token = f"token{number:03} "
        text = token * (1200 if number % 5 == 0 else 60)
        return store.add_task(
            lambda task_id: Task(id=task_id, text=text, goal="g"), created=float(number) + 0.5, pin=token
        ).id

    async def work(task: str, turns: int, state: TaskState | None) -> None:
        await store.append(task, [Draft("", 0, 1.5, STARTED)], "RUNNING")
        for turn in range(turns):
            draft = Draft("work", turn, 2.5, MessageAdded(role="user", slug=f"s{turn}"), f"said {turn} " * 90)
            await store.append(task, [draft])
        if state in FINAL_STATES:
            ended = TaskEnded(state=state, verified=False, reason="r", summary="s", files_changed=())
            await store.append(task, [Draft("", 0, 3.5, ended)], state, keep_bodies=state == "STUCK")
        elif state:
            await store.append(task, [], state)

    ends: list[TaskState] = ["SUCCESS", "STUCK", "CANCELLED", "INFRA_ERROR", "PROPOSED", "PROPOSED"]
    for number, state in enumerate(ends * 2, 1):
        await work(add(number), 15, state)
    await store.append("t6", [], "QUEUED")
    for number in range(13, 21):
        add(number)
    store.cancel("t14", 1.0)
    await work(add(21), 40, None)
    add(22)
    add(23)
    store.cancel("t23", 1.0)


async def fill_more(store: Store) -> None:
    """What a process that is then killed leaves in the write-ahead log."""
    text = "token024 " * 500
    for _ in range(2):
        store.add_task(lambda task_id: Task(id=task_id, text=text, goal="g"), created=1.0)
    for turn in range(20):
        draft = Draft("work", turn, 2.5, MessageAdded(role="user", slug=f"m{turn}"), "more " * 300)
        await store.append("t21", [draft])


def read(path: Path, data: bytes) -> Original:
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_sequence'"
        counter_page = db.execute(query).fetchone()[0] - 1
    store = Store(path)
    rows = {row.task.id: row for row in store.tasks()}
    pages = {
        task: {
            page
            for page in range(len(data) // PAGE)
            if f"token{int(task[1:]):03}".encode() in data[page * PAGE : page * PAGE + PAGE]
        }
        for task in rows
    }
    contents = {task: store.contents(task) for task in rows}
    events = {event.seq: event for event in store.events()}
    store.close()
    return Original(data, rows, events, contents, pages, counter_page, 23)


@cache
def make_original() -> Original:
    with tempfile.TemporaryDirectory(prefix="headgate-original-") as folder:
        path = Path(folder) / "headgate.db"
        store = Store(path)
        asyncio.run(fill(store))
        store.close()
        assert [file.name for file in path.parent.glob("*-wal")] == []
        return read(path, path.read_bytes())


@pytest.fixture
def original() -> Original:
    return make_original()


def read_all(store: Store) -> None:
    """Everything that anybody reads."""
    rows = store.tasks()
    for look in (store.head, store.running, store.latest, store.events):
        look()
    for row in rows:
        store.task(row.task.id)
        store.events(row.task.id)
        store.contents(row.task.id)
        store.count_ahead(row.task.id)
        store.is_cancelled(row.task.id)


def open_again(path: Path) -> tuple[Store | None, list[str]]:
    """The store as the third start at the latest finds it, with one more task, and what was said."""
    said: list[str] = []
    for _ in range(3):
        try:
            store = Store(path)
        except StoreError as error:
            said.append(str(error))
            continue
        if store.recovery:
            said.append(store.recovery.note)
        try:
            read_all(store)
            store.add_task(lambda task_id: Task(id=task_id, text=ADDED, goal=ADDED), 9.0)
        except StoreError as error:
            said.append(str(error))
            store.close()
            continue
        return store, said
    return None, said


def known_rows(store: Store) -> dict[str, TaskRow]:
    return {row.task.id: row for row in store.tasks() if row.task.text != ADDED}


def set_aside(path: Path) -> list[Path]:
    return sorted(
        file for file in path.parent.glob("headgate.db.damaged-*") if not file.name.endswith(("-wal", "-shm"))
    )


def check(original: Original, damaged: bytes, path: Path, exact: bool) -> int:
    """Opens a damaged store and holds it against what was there; returns how many tasks it has."""
    path.write_bytes(damaged)
    hit = {
        page
        for page in range(len(original.data) // PAGE)
        if original.data[page * PAGE : page * PAGE + PAGE] != damaged[page * PAGE : page * PAGE + PAGE]
    }
    untouched = {task for task, pages in original.pages.items() if not pages & hit}
    store, said = open_again(path)
    if store and not said and not untouched <= set(known_rows(store)):
        # A page that leads to fewer rows than before looks sound to whoever only reads; a full check sees it.
        store.close()
        path.write_bytes(damaged)
        path.with_name("headgate.db.check").touch()
        store, said = open_again(path)
    aside = set_aside(path)
    if store is None:
        # Well-formed and still not understood; a newer Headgate might have written it. Nothing is touched.
        assert not exact
        assert "upgrade it, or move the file aside" in said[-1]
        return 0
    rows = known_rows(store)
    [added] = [row.task.id for row in store.tasks() if row.task.text == ADDED]
    assert [file.read_bytes() for file in aside] == ([damaged] if aside else [])
    assert bool(aside) == any("was moved aside as headgate.db.damaged-" in text for text in said)
    assert not list(path.parent.glob("*.check")) + list(path.parent.glob("*.new*"))
    assert untouched <= set(rows) <= set(original.rows)
    for task in untouched:
        old, new = original.rows[task], rows[task]
        assert (new.task, new.created) == (old.task, old.created)
        assert store.pin(task) == ("" if old.state in FINAL_STATES else f"token{int(task[1:]):03} ")
        if old.state in FINAL_STATES or (old.state == "QUEUED" and not old.applying):
            assert new.state == old.state
        elif new.state == "INFRA_ERROR":
            assert aside
            state = fold(store.events(task))
            assert (state.status, state.reason) == ("INFRA_ERROR", "store_damaged")
        else:
            assert (new.state, new.applying) == (old.state, old.applying)
            if exact:  # it can go on, so everything of it must be there
                assert store.events(task) == [e for e in original.events.values() if e.task == task]
                assert store.contents(task) == original.contents[task]
    waiting = [task for task in original.rows if task in untouched and rows[task].position]
    for order in (original.rows, rows):
        ranked = sorted(waiting, key=lambda task: order[task].position or 0)
        assert ranked == sorted(waiting, key=lambda task: original.rows[task].position or 0)
    if exact:
        known = {event for event in store.events() if original.events.get(event.seq) != event}
        assert all(isinstance(e.body, TaskEnded) and e.body.reason == "store_damaged" for e in known)
    least = (
        original.last_id if original.counter_page not in hit else max([int(t[1:]) for t in rows], default=0)
    )
    assert int(added[1:]) > least
    assert sum(row.state == "RUNNING" for row in store.tasks()) <= 1
    store.close()
    return len(rows)


def test_each_page_zeroed_in_turn_costs_only_what_was_on_it(original: Original, tmp_path: Path) -> None:
    pages = len(original.data) // PAGE
    kept = []
    for page in range(pages):
        damaged = bytearray(original.data)
        damaged[page * PAGE : page * PAGE + PAGE] = bytes(PAGE)
        folder = tmp_path / str(page)
        folder.mkdir()
        kept.append(check(original, bytes(damaged), folder / "headgate.db", exact=True))
    print(f"{pages} pages zeroed in turn: {min(kept)} to {max(kept)} of {len(original.rows)} tasks recovered")
    assert max(kept) == len(original.rows)


def test_each_place_of_truncation(original: Original, tmp_path: Path) -> None:
    for number, size in enumerate(
        (1, 99, 100, PAGE - 1, PAGE, 3 * PAGE + 5, 20 * PAGE, len(original.data) - 1)
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(original, original.data[:size], folder / "headgate.db", exact=True)


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


@settings(max_examples=120, derandomize=True, deadline=None)
@given(damage=damages())
def test_no_damage_ends_in_a_traceback_or_costs_a_task_on_other_pages(
    damage: Callable[[bytes], bytes],
) -> None:
    original = make_original()
    with tempfile.TemporaryDirectory(prefix="headgate-damage-") as folder:
        check(original, damage(original.data), Path(folder) / "headgate.db", exact=False)


@pytest.mark.parametrize(
    "content",
    [
        b"this is not a database, whatever its name says" * 100,
        b"SQLite format 3\0" + b"\xff" * 5000,
        b"\0" * 3 * PAGE,
        b"x",
    ],
)
def test_what_never_was_a_store_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "headgate.db"
    path.write_bytes(content)
    store = Store(path)
    assert store.recovery is not None
    [aside] = set_aside(path)
    assert aside.read_bytes() == content
    assert (
        store.recovery.note
        == f"{path} was damaged and was moved aside as {aside.name}. No tasks were recovered."
    )
    assert store.tasks() == []
    store.close()
    again = Store(path)
    assert again.recovery is None
    again.close()


def test_damage_met_while_working_is_named_and_mended_at_the_next_start(
    original: Original, tmp_path: Path
) -> None:
    path = tmp_path / "headgate.db"
    page = next(iter(original.pages["t10"] - original.pages["t9"]))
    data = bytearray(original.data)
    data[page * PAGE : page * PAGE + PAGE] = bytes(PAGE)
    path.write_bytes(data)
    store = Store(path)
    assert store.recovery is None  # opening does not read the whole file
    with pytest.raises(
        StoreError, match=r"is damaged \(.*\): run again to move it aside and recover its tasks"
    ):
        read_all(store)
    with pytest.raises(StoreError, match="other Headgate processes are using it"):
        Store(path)
    assert (path.read_bytes(), set_aside(path)) == (bytes(data), [])
    store.close()
    mended = Store(path)
    assert mended.recovery is not None
    assert "could not be read" in mended.recovery.note
    read_all(mended)
    mended.close()


def test_a_false_alarm_changes_nothing(original: Original, tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    path.write_bytes(original.data)
    path.with_name("headgate.db.check").touch()
    store = Store(path)
    assert (store.recovery, {row.task.id: row for row in store.tasks()}) == (None, original.rows)
    assert not path.with_name("headgate.db.check").exists()
    store.close()
    assert set_aside(path) == []


def test_a_task_without_its_row_comes_back_from_its_log(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    store = Store(path)
    asyncio.run(fill(store))
    store.close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE tasks SET spec = '{' WHERE n IN (1, 5)")
        db.execute("UPDATE tasks SET state = '?' WHERE n IN (2, 13)")
    opened, said = open_again(path)
    assert opened is not None
    rows = known_rows(opened)
    assert [rows[task].state for task in ("t1", "t2", "t5", "t13")] == [
        "SUCCESS",
        "STUCK",
        "INFRA_ERROR",
        "INFRA_ERROR",
    ]
    assert (rows["t1"].task.text, "t5" in said[-1], "t13" in said[-1]) == ("x", True, True)
    assert set(opened.contents("t2")) == set(range(19, 34))
    opened.close()


def test_ids_go_on_after_those_in_the_reports(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    path.write_bytes(b"")
    (tmp_path / "task_reports.jsonl").write_text('{"task_id":"t41","x":1}\n{"task_id":"t7"}\n')
    store = Store(path)
    assert store.add_task(lambda task_id: Task(id=task_id, text="x", goal="x"), 1.0).id == "t42"
    store.close()


CRASH = """
import asyncio, os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_recovery import fill, fill_more
from headgate.engine.store import Store
store = Store(Path(sys.argv[1]))
asyncio.run(fill(store))
asyncio.run(fill_more(store))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as a killed process leaves it: with most of it in the write-ahead log."""
    path = tmp_path_factory.mktemp("crashed") / "headgate.db"
    command = [sys.executable, "-c", CRASH, str(path), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert path.with_name("headgate.db-wal").stat().st_size > PAGE
    return path.parent


def copy_crashed(crashed: Path, target: Path) -> Path:
    shutil.copytree(crashed, target)
    return target / "headgate.db"


@pytest.mark.parametrize("damage", ["nothing", "db header", "db empty", "db gone", "all of db", "shm"])
def test_the_write_ahead_log_makes_good_what_it_holds(
    original: Original, crashed: Path, tmp_path: Path, damage: str
) -> None:
    path = copy_crashed(crashed, tmp_path / "copy")
    data = path.read_bytes()
    match damage:
        case "db header":
            path.write_bytes(b"\xff" * 100 + data[100:])
        case "db empty":
            path.write_bytes(b"")
        case "db gone":
            path.unlink()
        case "all of db":
            path.write_bytes(b"\xff" * len(data))
        case "shm":
            path.with_name("headgate.db-shm").write_bytes(b"\xff" * 32768)
        case _:
            pass
    store, said = open_again(path)
    assert store is not None
    rows = known_rows(store)
    everything = {*original.rows, "t24", "t25"}
    if damage in ("nothing", "shm"):
        assert (set(rows), rows["t21"].state, said) == (everything, "RUNNING", [])
    elif damage == "db header":
        assert (set(rows), rows["t21"].state) == (everything, "RUNNING")
    else:
        assert {"t24", "t25"} <= set(rows) <= everything
        assert "was moved aside as headgate.db.damaged-" in said[-1]
        assert not {row.state for row in rows.values()} & {"RUNNING", "PROPOSED"}
    store.close()


def test_a_lost_or_damaged_write_ahead_log_loses_what_it_held_and_no_more(
    crashed: Path, tmp_path: Path
) -> None:
    path = copy_crashed(crashed, tmp_path / "lost")
    wal = path.with_name("headgate.db-wal")
    log = wal.read_bytes()
    found = []
    for number, content in enumerate(
        (None, b"", log[: len(log) // 2], b"\xff" * len(log), log[:32] + b"\xff" + log[33:])
    ):
        path = copy_crashed(crashed, tmp_path / str(number))
        wal = path.with_name("headgate.db-wal")
        wal.unlink()
        if content is not None:
            wal.write_bytes(content)
        store, _ = open_again(path)
        assert store is not None
        found.append(len(known_rows(store)))
        store.close()
    assert found[2] >= found[0] == found[1]


@pytest.mark.parametrize("step", ["planned", "log moved", "both moved", "swapped"])
def test_a_recovery_that_was_cut_short_is_finished(original: Original, tmp_path: Path, step: str) -> None:
    """The files as a crash leaves them at each step, made out of those of a recovery that went through."""
    path, aside = tmp_path / "headgate.db", tmp_path / "headgate.db.damaged-20260101T000000Z"
    damaged = b"\xff" * 200 + original.data[200:]
    path.write_bytes(damaged)
    Store(path).close()
    [first] = set_aside(path)
    first.unlink()
    sound = path.read_bytes()
    plan = {"aside": aside.name, "note": "It was damaged.", "ended": ["t21"]}
    path.with_name("headgate.db.check").write_bytes(orjson.dumps(plan))
    if step != "swapped":
        path.rename(path.with_name("headgate.db.new"))
        (aside if step == "both moved" else path).write_bytes(damaged)
        name = "headgate.db-wal" if step == "planned" else f"{aside.name}-wal"
        path.with_name(name).write_bytes(b"log")
    store = Store(path)
    assert store.recovery is not None
    assert (store.recovery.note, store.recovery.ended) == ("It was damaged.", ("t21",))
    assert {row.task.id for row in store.tasks()} == set(original.rows)
    store.close()
    assert path.read_bytes()[100:] == sound[100:]
    if step != "swapped":
        assert (aside.read_bytes(), path.with_name(f"{aside.name}-wal").read_bytes()) == (damaged, b"log")
    assert {file.name for file in tmp_path.iterdir() if not file.name.startswith(aside.name)} == {
        "headgate.db",
        "headgate.db.users",
    }


OPEN = """
import sys
from pathlib import Path
from headgate.engine.store import Store
store = Store(Path(sys.argv[1]))
print(len(store.tasks()), bool(store.recovery), flush=True)
sys.stdin.read()
"""


def test_of_several_processes_one_recovers_and_all_go_on(original: Original, tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    path.write_bytes(b"\xff" * 200 + original.data[200:])
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
    tasks = str(len(original.rows))
    assert sorted(lines) == [[tasks, "False"], [tasks, "False"], [tasks, "True"]]
    assert len(set_aside(path)) == 1
