"""A disk that is full while the store commits: said in a sentence, nothing lost, nothing half written."""

import asyncio
import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from headgate.core import MessageAdded, Task
from headgate.errors import StoreError
from headgate.log import Draft, Store
from launcher import run_headgate, run_python

SCRIPT = """
- calls: [{read_file: {path: big.txt}}]
- calls: [{read_file: {path: big.txt, start_line: 2}}]
- calls: [{read_file: {path: big.txt, start_line: 3}}]
- text: Read it.
"""

FILL = """
import asyncio, sys
from pathlib import Path
from test_store_full_disk import fill
asyncio.run(fill(Path(sys.argv[1])))
"""

LIMITED = """
import resource, sys
from headgate.cli.main import main
most, *args = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
main(args)
"""
"""Runs a command that can make no file larger than that."""


async def fill(path: Path) -> None:
    """Appends until no file may grow any more, then until it may again; prints what was acknowledged."""
    store = Store(path)
    task = store.add_task(lambda task_id: Task(id=task_id, text="x", goal="x"), 1.0)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for number, limit in enumerate((200_000, hard)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        for turn in range(100):
            draft = Draft("", turn, 1.0, MessageAdded(role="user", slug=f"{number}-{turn}"), "y" * 5000)
            try:
                [event] = await store.append(task.id, [draft], "RUNNING")
            except StoreError as error:
                print(f"refused {error}", flush=True)
                break
            print(f"kept {event.seq} {number}-{turn}", flush=True)
    store.close()


def test_what_was_acknowledged_is_there_and_the_rest_is_not(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = run_python(["-c", FILL, str(path)], tmp_path, environment)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("refused")] == [
        f"refused cannot write {path}: disk I/O error; free some space and run again"
    ]
    store = Store(path)
    slugs = [(event.seq, event.body.slug) for event in store.events() if isinstance(event.body, MessageAdded)]
    assert [f"kept {seq} {slug}" for seq, slug in slugs] == [
        line for line in lines if line.startswith("kept")
    ]
    assert (store.notes, len(store.contents("t1")), len(slugs) > 100) == ((), len(slugs), True)
    store.close()


@pytest.mark.parametrize("limit", [70_000, 110_000, 150_000, 200_000])
def test_a_task_on_a_full_disk_exits_3_and_goes_on_when_there_is_space(tmp_path: Path, limit: int) -> None:
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "big.txt").write_text("".join(f"line {number} {'x' * 60}\n" for number in range(400)))
    (repo / "script.yaml").write_text(SCRIPT)
    (repo / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:script.yaml\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"],
    }

    def headgate(*args: str) -> subprocess.CompletedProcess[str]:
        return run_headgate(args, repo, environment)

    full = run_python(["-c", LIMITED, str(limit), "run", "Read big.txt."], repo, environment)
    last = full.stderr.splitlines()[-1]
    assert (full.returncode, last) == (
        3,
        f"headgate: cannot write {repo}/.headgate/headgate.db: disk I/O error; free some space and run again",
    )
    tasks = json.loads(headgate("tasks", "--json").stdout)
    assert [(task["id"], task["state"]) for task in tasks] in ([], [("t1", "QUEUED")], [("t1", "RUNNING")])
    if tasks:
        assert headgate("run", "--resume", "t1").returncode == 0


CANCEL = """
import resource, sys
from pathlib import Path
from headgate.log.store import Store
store = Store(Path(sys.argv[1]))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
print(store.cancel("t2", 1.0), [row.task.id for row in store.tasks()])
store.close()
"""


async def queue_two(path: Path) -> None:
    store = Store(path)
    for _ in range(2):
        store.add_task(lambda task_id: Task(id=task_id, text="x", goal="x"), 1.0)
    long = Draft("", 0, 1.0, MessageAdded(role="user", slug="long"), "y" * 500_000)
    await store.append("t1", [long])
    store.close()


def test_a_cancelled_task_is_gone_even_if_there_is_no_room_to_clear_up(tmp_path: Path) -> None:
    path = tmp_path / "headgate.db"
    asyncio.run(queue_two(path))
    done = run_python(["-c", CANCEL, str(path)], tmp_path, os.environ)
    assert (done.stdout, done.stderr) == ("removed ['t1']\n", "")
