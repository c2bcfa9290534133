"""Cancelling, with real processes: from elsewhere, with Ctrl-C, and when there is nobody left to ask."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from processes import (
    GATED,
    SLEEPER,
    call,
    ended,
    files,
    is_dead,
    is_idle,
    line_with,
    pid_of,
    reports,
    rows,
    start,
    states,
    step,
    until,
)

SCRIPTS = {
    "model request": ("- {text: late, delay: 600}\n", ""),
    "shell command": (f"- calls: [{{shell: {{command: '{SLEEPER}'}}}}]\n", ""),
    "verification": ("- text: Done.\n", f"verification: {{steps: [{{name: t, command: '{SLEEPER}'}}]}}\n"),
}
KINDS = {"model request": "tool_finished", "shell command": "tool_started", "verification": "verify_started"}


def write_script(repo: Path, during: str) -> None:
    script, config = SCRIPTS[during]
    write = "- calls: [{write_file: {path: new.txt, content: x}}]\n"
    (repo / "script.yaml").write_text(write + script)
    with (repo / "agent.yaml").open("a") as file:
        file.write(f"scouts: off\n{config}")


@pytest.mark.parametrize("during", SCRIPTS)
async def test_a_running_task_is_cancelled_from_another_process(repo: Path, during: str) -> None:
    write_script(repo, during)
    (repo / "a.yaml").write_text(step("a"))
    run = await start(repo, "run", "--json", "x")
    await line_with(run.stdout, f'"kind":"{KINDS[during]}"')
    if during != "model request":
        await until(lambda: pid_of(repo))
    following = await start(repo, "run", "y", "--model", "script:a.yaml")
    await line_with(following.stderr, "Queued as t2: 1 task")
    code, out, err = await call(repo, "cancel", "t1")
    assert (code, out) == (0, "Task t1 was cancelled. Its changes so far stay in the working tree.\n"), err
    pid = pid_of(repo)
    assert pid is None or is_dead(pid)
    out, err = await ended(run)
    assert run.returncode == 130, err
    assert json.loads(out.splitlines()[-1])["state"] == "CANCELLED"
    assert b"Traceback" not in err
    await ended(following)
    assert following.returncode == 0
    assert (repo / "new.txt").read_text() == "x"
    assert states(repo) == {"t1": "CANCELLED", "t2": "SUCCESS"}
    assert rows(repo)["control"] == []
    assert [report["task_id"] for report in reports(repo)] == ["t2"]
    assert {name for name in files(repo) if name.startswith(("context/", "stuck", "outputs/"))} == {
        "context/context_001.md"
    }
    if during == "model request":
        again = await call(repo, "cancel", "t1")
        assert (again[0], again[1], again[2]) == (2, "", "headgate: Task t1 has already ended: CANCELLED.\n")
        unknown = await call(repo, "cancel", "t9")
        assert (unknown[0], 'There is no task "t9"' in unknown[2]) == (2, True)


async def test_a_task_whose_process_is_gone_is_cancelled_at_once(repo: Path) -> None:
    write_script(repo, "model request")
    run = await start(repo, "run", "--json", "x")
    await line_with(run.stdout, '"kind":"tool_finished"')
    run.send_signal(signal.SIGKILL)
    await ended(run)
    code, out, err = await call(repo, "cancel", "t1")
    assert (code, out) == (0, "Task t1 was cancelled. Its changes so far stay in the working tree.\n"), err
    assert (states(repo), reports(repo)) == ({"t1": "CANCELLED"}, [])


async def test_ctrl_c_cancels_a_task_that_another_process_runs(repo: Path) -> None:
    (repo / "gated.yaml").write_text(GATED)
    write_script(repo, "shell command")
    first = await start(repo, "run", "x", "--model", "script:gated.yaml")
    await until((repo / "started").exists)
    follower = await start(repo, "run", "y")
    await line_with(follower.stderr, "Queued as t2: 1 task")
    (repo / "go").touch()
    await ended(first)
    await until(lambda: pid_of(repo))  # a worker runs it now
    follower.send_signal(signal.SIGINT)
    await ended(follower)
    assert (first.returncode, follower.returncode) == (0, 130)
    pid = pid_of(repo)
    assert pid is not None
    assert is_dead(pid)
    assert states(repo) == {"t1": "SUCCESS", "t2": "CANCELLED"}
    await until(lambda: is_idle(repo))


async def test_a_second_ctrl_c_quits_at_once_and_the_store_is_sound(repo: Path) -> None:
    deaf = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    (repo / "script.yaml").write_text(f'- calls: [{{shell: {{command: "{deaf}"}}}}]\n')
    (repo / "a.yaml").write_text(step("a"))
    run = await start(repo, "run", "x")
    await until(lambda: pid_of(repo))
    run.send_signal(signal.SIGINT)
    await line_with(run.stderr, "Cancelling task t1; its changes so far stay.")
    run.send_signal(signal.SIGINT)
    _, err = await ended(run)
    last = b"Quit at once. The next headgate run, submit or cancel ends task t1 as cancelled.\n"
    assert (run.returncode, err) == (130, last)
    pid = pid_of(repo)
    assert pid is not None
    await until(lambda: is_dead(pid))
    with closing(sqlite3.connect(repo / ".headgate" / "headgate.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    code, _, err_of_next = await call(repo, "run", "y", "--model", "script:a.yaml")
    assert code == 0
    assert "Task t1 was being cancelled: ending it" in err_of_next
    assert "taken up again" not in err_of_next
    assert states(repo) == {"t1": "CANCELLED", "t2": "SUCCESS"}
    assert [report["task_id"] for report in reports(repo)] == ["t2"]
