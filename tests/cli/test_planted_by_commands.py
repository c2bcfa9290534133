"""A command plants something in Headgate's own folders while its task runs."""

from pathlib import Path

import pytest
import yaml
from command import headgate
from processes import ended, start, until

from headgate.log import Folder


@pytest.fixture
def own_repo(repo: Path) -> Path:
    own = repo.parent / "config" / "headgate"
    own.mkdir(parents=True)
    (own / "config.yaml").write_text("sandbox: off\n")
    return repo


def write_script(repo: Path, *commands: str) -> None:
    calls = [{"shell": {"command": command}} for command in commands]
    done = {"stage_done": {"stage": "work", "summary": "Done."}}
    (repo / "script.yaml").write_text(yaml.safe_dump({"replies": [{"calls": calls}, {"calls": [done]}]}))
    (repo / "agent.yaml").write_text("model: script:script.yaml\ntask_flow_mode: flat\n")


def test_a_trigger_ends_the_run_and_every_later_one(own_repo: Path) -> None:
    (own_repo / "plant.py").write_text(
        "import sqlite3\n"
        "db = sqlite3.connect('.headgate/headgate.db')\n"
        'db.execute("CREATE TRIGGER t AFTER INSERT ON events BEGIN"\n'
        "           \" UPDATE tasks SET state = 'SUCCESS'; END\")\n"
    )
    write_script(own_repo, "python3 plant.py", "echo again >> ran")
    for args in (("run", "Do it."), ("run", "More."), ("tasks",), ("show",)):
        run = headgate(own_repo, *args)
        assert (run.returncode, "SUCCESS" in run.stdout + run.stderr) == (3, False)
        assert "the trigger 't', which Headgate did not create" in run.stderr
        assert "Traceback" not in run.stderr
    assert not (own_repo / "ran").exists()


async def test_a_removed_lock_lets_nobody_else_work(own_repo: Path) -> None:
    (own_repo / "plant.sh").write_text(
        "rm -f .git/headgate/lock; touch started; while [ ! -e go ]; do sleep 0.02; done\n"
    )
    write_script(own_repo, "sh plant.sh", "echo once >> ran")
    first = await start(own_repo, "run", "Do it.")
    await until((own_repo / "started").exists)
    lock = Folder(own_repo).work_lock()
    assert not lock.path.exists()
    assert (lock.is_held(), lock.try_acquire()) == (True, False)
    (own_repo / "go").touch()
    _, err = await ended(first)
    assert first.returncode == 0, err
    assert lock.path.exists()
    assert (own_repo / "ran").read_text() == "once\n"
