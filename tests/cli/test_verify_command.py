"""`headgate verify` and `headgate doctor --checks`: the steps, now, without a task."""

import json
from pathlib import Path

import pytest
import yaml
from command import headgate

from headgate.cli.commands.doctor import examine
from headgate.log import Folder
from headgate.process import FileLock


def configure(repo: Path, *commands: str) -> None:
    steps = [{"name": f"s{number}", "command": command} for number, command in enumerate(commands, 1)]
    (repo / "agent.yaml").write_text(yaml.safe_dump({"verification": {"steps": steps}}))


def test_all_pass(repo: Path) -> None:
    configure(repo, "true", "echo hello")
    done = headgate(repo, "verify")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(" in ")[0] for line in lines[:2]] == ["s1: passed", "s2: passed"]
    assert lines[2] == "All steps passed."
    log = repo / lines[3].removeprefix("Log: ")
    assert log.read_text() == "$ true\n\n$ echo hello\nhello\n\n"
    assert not (repo / ".headgate" / "headgate.db").exists()


def test_every_step_is_run_and_a_failure_is_shown(repo: Path) -> None:
    configure(repo, "echo one; exit 4", "touch ran")
    done = headgate(repo, "verify")
    assert done.returncode == 1
    assert "s1: failed with exit code 4" in done.stdout
    assert "\n  | one\n" in done.stdout
    assert "1 of 2 steps failed." in done.stdout
    assert (repo / "ran").exists()


def test_a_step_that_cannot_be_run(repo: Path) -> None:
    configure(repo, "no-such-program-here")
    done = headgate(repo, "verify")
    assert done.returncode == 3
    said = 'Verification step "s1" cannot run: no-such-program-here was not found. Install it, or correct'
    assert f"{said} the command: no-such-program-here.\n" in done.stdout


def test_no_steps(repo: Path) -> None:
    done = headgate(repo, "verify")
    assert (done.returncode, done.stdout) == (2, "")
    advice = "add them under `verification:` in agent.yaml"
    assert f"No verification steps are configured: {advice}." in done.stderr
    assert f"no steps: results are reported as unverified; {advice}" in headgate(repo, "doctor").stdout
    (repo / "agent.yaml").unlink()
    advice = "headgate init looks for them and writes agent.yaml"
    assert f"No verification steps are configured: {advice}." in headgate(repo, "verify").stderr
    assert not (repo / ".headgate").exists()


def test_a_running_task_is_not_disturbed(repo: Path) -> None:
    configure(repo, "touch ran")
    folder = Folder(repo)
    folder.create()
    lock = FileLock(folder.lock)
    assert lock.try_acquire()
    done = headgate(repo, "verify")
    lock.release()
    assert done.returncode == 2
    assert "is running a task in this repository" in done.stderr
    assert not (repo / "ran").exists()


def test_json(repo: Path) -> None:
    configure(repo, "echo one; exit 4", "true")
    done = headgate(repo, "verify", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["passed"], found["broken"]) == (1, False, "")
    assert [(step["name"], step["passed"], step["tail"]) for step in found["steps"]] == [
        ("s1", False, "one"),
        ("s2", True, ""),
    ]
    assert (repo / found["log"]).is_file()
    manifest = json.loads((repo / found["log"]).with_name("manifest.json").read_text())
    assert (manifest["run_id"], manifest["passed"], manifest["skipped"]) == (found["run_id"], False, [])


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (("true", "exit 1"), [("check: s1", "ok", ""), ("check: s2", "warn", "")]),
        (("no-such-program-here",), [("check: s1", "fail", "environment")]),
    ],
)
async def test_doctor(repo: Path, commands: tuple[str, ...], expected: list[tuple[str, str, str]]) -> None:
    configure(repo, *commands)
    found = [finding async for finding in examine(repo, None, {}, {"PATH": "/usr/bin:/bin"}, checks=True)]
    steps = [finding for finding in found if finding.check.startswith("check: ")]
    assert [(finding.check, finding.status, finding.fault) for finding in steps] == expected


async def test_doctor_runs_nothing_unless_asked(repo: Path) -> None:
    configure(repo, "touch ran")
    found = [finding async for finding in examine(repo, None, {}, {"PATH": "/usr/bin:/bin"})]
    assert not [finding for finding in found if finding.check.startswith("check")]
    assert not (repo / "ran").exists()
