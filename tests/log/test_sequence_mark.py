"""A log of SQLite that was cut or zeroed after a crash: nothing runs twice and no task vanishes silently."""

import os
from pathlib import Path

import pytest

from headgate.core import MessageAdded, Task, ToolStarted
from headgate.errors import StoreError
from headgate.log import Draft, Store
from headgate.regular_files import PlantedFile
from launcher import run_python

COMMAND = Draft("work", 1, 2.0, ToolStarted(call="c", name="shell", category="run", target="make"))
OTHER = Draft("work", 1, 2.0, MessageAdded(role="user", slug="task"))
CRASHED = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_sequence_mark import COMMAND, OTHER, queue
from headgate.log import Store
async def main():
    store = Store(Path(sys.argv[1]) / "own" / "headgate.db", Path(sys.argv[1]) / "safe" / "sequence")
    task = queue(store)
    await store.append(task.id, [OTHER], "RUNNING")
    await store.append(task.id, [COMMAND])
    os._exit(0)
asyncio.run(main())
"""


def queue(store: Store) -> Task:
    return store.add_task(lambda task_id: Task(id=task_id, text="do it", goal="do it"), created=1.0)


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """The folder of a store whose process died while a command ran, its log not yet in the database."""
    for name in ("own", "safe"):
        (tmp_path / name).mkdir()
    done = run_python(["-c", CRASHED, str(tmp_path), str(Path(__file__).parent)], tmp_path, os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    return tmp_path


def reopen(folder: Path) -> Store:
    return Store(folder / "own" / "headgate.db", folder / "safe" / "sequence")


def test_a_whole_log_is_read(crashed: Path) -> None:
    store = reopen(crashed)
    assert len(store.events("t1")) == 2
    store.close()


@pytest.mark.parametrize("keep", [0, 32, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("zeroed", [False, True])
def test_a_log_that_lost_its_end_is_refused(crashed: Path, keep: float, zeroed: bool) -> None:
    log = crashed / "own" / "headgate.db-wal"
    data = log.read_bytes()
    kept = data[: int(keep * len(data)) if keep < 1 else int(keep)]
    log.write_bytes(kept + b"\0" * (len(data) - len(kept)) * zeroed)
    for _ in range(2):
        with pytest.raises(StoreError, match="has lost its latest entries"):
            reopen(crashed)
    (crashed / "safe" / "sequence").unlink()
    reopen(crashed).close()


def test_a_log_that_was_removed_is_refused(crashed: Path) -> None:
    (crashed / "own" / "headgate.db-wal").unlink()
    with pytest.raises(StoreError, match="has lost its latest entries"):
        reopen(crashed)


def test_a_store_that_was_removed_starts_anew(crashed: Path) -> None:
    for path in (crashed / "own").iterdir():
        path.unlink()
    store = reopen(crashed)
    assert store.tasks() == []
    queue(store)
    store.close()
    reopen(crashed).close()


def test_a_mark_of_nonsense_or_a_pipe_is_named(crashed: Path) -> None:
    mark = crashed / "safe" / "sequence"
    mark.write_text("7")
    with pytest.raises(StoreError, match="is not what Headgate wrote"):
        reopen(crashed)
    mark.unlink()
    os.mkfifo(mark)
    with pytest.raises(PlantedFile):
        reopen(crashed)
