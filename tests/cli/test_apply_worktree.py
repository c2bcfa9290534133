"""`headgate apply` of what a task did in its worktree, as people type it."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from command import headgate


def configure(file: Path, command: str) -> None:
    steps = [{"name": "check", "command": command}]
    settings = {"task_flow_mode": "flat", "model": "script:script.yaml", "verification": {"steps": steps}}
    file.write_text(yaml.safe_dump(settings))


@pytest.fixture
def committed(repo: Path) -> Path:
    """A repository whose own check always fails, and another configuration, whose check looks at files."""
    configure(repo / "agent.yaml", "exit 7")
    configure(repo.parent / "own.yaml", "test -e new.txt && test ! -e mine.txt")
    who = ("-c", "user.name=p", "-c", "user.email=p@example.org")
    subprocess.run(["git", "-C", str(repo), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(repo), *who, "commit", "-qm", "start"], check=True)
    done = headgate(repo, "run", "--worktree", "--config", "../own.yaml", "Write new.txt")
    assert done.returncode == 0, done.stdout + done.stderr
    return repo


def test_the_check_of_the_task_passes(committed: Path) -> None:
    done = headgate(committed, "apply")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Task t1 was applied to your own tree: new.txt."
    assert lines[2].startswith("check: passed in ")
    assert lines[3] == "The step passed."
    assert (committed / lines[4].removeprefix("Log: ")).is_file()
    assert "Its changes are in your own tree, and verified there." in headgate(committed, "show", "t1").stdout


def test_a_failure_is_exit_code_1_and_the_changes_stay(committed: Path) -> None:
    (committed / "mine.txt").write_text("mine\n")
    done = headgate(committed, "apply", "t1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "check: failed with exit code 1" in done.stdout
    assert "1 of 1 step failed." in done.stdout
    assert (committed / "new.txt").exists()
    shown = headgate(committed, "show", "t1").stdout
    assert "Its changes are in your own tree, but verification failed there: step" in shown
    assert "Verification failed in your own tree: step" in shown
    report = json.loads(headgate(committed, "report", "t1", "--json").stdout)
    assert (report["state"], report["merged"], report["merge_verified"]) == ("SUCCESS", True, False)
    assert headgate(committed, "undo", "t1").returncode == 0
    assert "verification failed there" not in headgate(committed, "show", "t1").stdout


def test_what_was_discarded_is_refused_with_exit_code_2(committed: Path) -> None:
    assert headgate(committed, "abort", "t1").returncode == 0
    done = headgate(committed, "apply", "t1")
    assert (done.returncode, done.stdout) == (2, "")
    told = "Task t1 was discarded: headgate diff t1 | git apply writes its changes to your own tree."
    assert told in " ".join(done.stderr.split())
    assert not (committed / "new.txt").exists()
    shown = " ".join(headgate(committed, "show", "t1").stdout.split())
    assert told in shown
    assert "headgate apply" not in shown
    diff = headgate(committed, "diff", "t1").stdout
    subprocess.run(["git", "-C", str(committed), "apply"], input=diff, text=True, check=True)
    assert (committed / "new.txt").exists()


def test_a_step_that_cannot_be_run_is_exit_code_3(committed: Path) -> None:
    sandbox = committed.parent / "config" / "headgate" / "config.yaml"
    sandbox.write_text("sandbox: off\napprovals: never\n")
    (committed / "tool").write_text("#!/nonexistent/interpreter\n")
    configure(committed.parent / "own.yaml", "if test -e mine.txt; then no-such-program-here; fi")
    done = headgate(committed, "run", "--worktree", "--config", "../own.yaml", "Write new.txt")
    assert done.returncode == 0, done.stdout + done.stderr
    (committed / "mine.txt").write_text("mine\n")
    done = headgate(committed, "apply", "t2")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no-such-program-here is not installed." in done.stdout
    assert (committed / "new.txt").exists()
