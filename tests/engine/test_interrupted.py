"""What is put in order after a crash, before anything else is needed, and how often that is tried."""

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from headgate.core import (
    Constraints,
    Message,
    Options,
    Reply,
    Request,
    TaskEnded,
    TaskReport,
    TaskReportInvalid,
    TaskResumed,
    ToolCall,
    Usage,
)
from headgate.engine import Engine
from headgate.errors import ConfigError, ModelError
from headgate.process import FileLock
from launcher import run_headgate

CRASH = "mkdir -p out; echo bad > migrations/1.sql; echo $$ > out/pid; kill -9 $PPID; sleep 300"
SCRIPT = f"""
- calls: [{{shell: {{command: {json.dumps(CRASH)}}}}}]
- text: Done.
"""


def headgate(repo: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "XDG_CONFIG_HOME")}
    kept |= {"HOME": str(repo.parent), **environment}
    return run_headgate(args, repo, kept)


def make_repository(path: Path, script: str = SCRIPT) -> Path:
    repo = path / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "migrations").mkdir()
    (repo / "migrations" / "1.sql").write_text("good\n")
    (repo / "script.yaml").write_text(script)
    (repo / "agent.yaml").write_text("task_flow_mode: flat\nmodel: script:script.yaml\n")
    return repo


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def set_pin(repo: Path, pin: str) -> str:
    """Changes what task t1 was submitted with; returns what that was."""
    with closing(sqlite3.connect(repo / ".headgate" / "headgate.db")) as db, db:
        before = db.execute("SELECT pin FROM tasks").fetchone()[0]
        db.execute("UPDATE tasks SET pin = ?", (pin,))
    return str(before)


class Refusing:
    """A model that cannot be used."""

    name = "refusing"

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        raise ModelError("no such model")


@pytest.mark.parametrize("case", ["cancel", "refusing", "no model", "unreadable pin"])
async def test_a_command_that_outlived_a_crash_is_ended_and_what_it_did_is_undone(
    tmp_path: Path, case: str
) -> None:
    repo = make_repository(tmp_path)
    run = headgate(repo, "run", "--boundary", "migrations/**", "Do it.")
    assert run.returncode == -9, run.stderr
    pid = int((repo / "out" / "pid").read_text())
    assert is_alive(pid)
    assert (repo / "migrations" / "1.sql").read_text() == "bad\n"
    models = {None: Refusing()} if case == "refusing" else {}
    if case == "no model":
        (repo / "script.yaml").unlink()
    if case == "unreadable pin":
        set_pin(repo, "{}")
    engine = Engine.open(repo, models=models)
    if case == "cancel":
        assert engine.cancel("t1") == "asked"
        await engine.settle_cancelled()
    else:
        await engine.drain()
    state = engine.store.tasks()[0].state
    resumed = [event.body for event in engine.store.events("t1") if isinstance(event.body, TaskResumed)]
    engine.store.close()
    assert state == ("CANCELLED" if case == "cancel" else "INFRA_ERROR")
    assert (repo / "migrations" / "1.sql").read_text() == "good\n"
    assert not is_alive(pid)
    # What the command had written is kept for people; what the files were is not.
    left = (repo / ".git" / "headgate" / "protected" / "t1").glob("*")
    assert [path.name for path in left] == ["aside"]
    assert ["1.sql" in one for body in resumed for one in body.restored] == [True] * (case != "cancel")


class Writer:
    """A model that writes one file, then is done."""

    name = "writer"

    def __init__(self, path: str) -> None:
        self.path = path

    async def reply(self, request: Request, on_delta: object = None) -> Reply:
        if any(message.role == "tool" for message in request.messages):
            return Reply(Message("assistant", "Done."), Usage(1, 1), "stop")
        call = ToolCall("c1", "write_file", json.dumps({"path": self.path, "content": "new\n"}))
        return Reply(Message("assistant", "", (call,)), Usage(1, 1), "stop")


async def propose(repo: Path, path: str = "new.txt") -> Engine:
    engine = Engine.open(repo, models={None: Writer(path)})
    task = engine.submit("Do it.", Constraints(), Options(dry_run=True))
    assert (await engine.run(task)).state == "PROPOSED"
    return engine


def test_a_flow_that_only_tries_answers_out_is_not_for_a_dry_run(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    (repo / "answers.yaml").write_text(
        "begin: verify\nstages:\n- id: a\n  prompt: Mend {path}.\n  candidates: {ask: file}\n"
    )
    engine = Engine.open(repo, models={None: Writer("new.txt")})
    with pytest.raises(ConfigError, match="a dry run runs none: choose another flow"):
        engine.submit("Do it.", Constraints(), Options(dry_run=True, flow="answers.yaml"))


async def test_a_proposal_outlives_what_keeps_it_from_being_applied(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    engine = await propose(repo)
    proposed = engine.diff("t1")
    (repo / "mine.txt").write_text("the user's own\n")
    pin = set_pin(repo, "{}")
    report = await engine.run(await engine.apply("t1"))
    assert (report.state, report.reason, report.conflicts) == ("PROPOSED", "environment", ())
    assert ("cannot read it" in report.summary, report.files_changed) == (True, ("new.txt",))
    set_pin(repo, pin)
    task = await engine.apply("t1")
    assert engine.diff("t1") == proposed
    engine.store.claim()
    assert engine.cancel("t1") == "asked"
    await engine.settle_cancelled()
    row = engine.store.task("t1")
    assert row
    assert row.state == "PROPOSED"
    assert (engine.diff("t1"), (repo / "new.txt").exists()) == (proposed, False)
    await engine.apply("t1")
    assert (await engine.run(task)).state == "SUCCESS"
    assert (engine.diff("t1"), (repo / "new.txt").read_text()) == (proposed, "new\n")
    engine.store.close()


GIT = """#!/bin/sh
case " $* " in *" config --list "*) kill -9 $PPID;; esac
exec {git} "$@"
"""


def test_crashes_before_the_first_event_are_counted(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    git = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(GIT.format(git=git))
    (tmp_path / "bin" / "git").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert headgate(repo, "submit", "--no-start", "Do it.").stdout == "t1\n"
    codes = [headgate(repo, "run", "--resume", "t1", PATH=path).returncode for _ in range(4)]
    assert codes == [-9, -9, -9, 3]
    report = json.loads((repo / ".headgate" / "task_reports.jsonl").read_text())
    assert (report["state"], report["reason"]) == ("INFRA_ERROR", "crash_loop")


async def test_a_crash_loop_before_anything_is_written_leaves_the_proposal(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    engine = await propose(repo)
    task = await engine.apply("t1")
    assert engine.store.claim() == task
    for _ in range(2):
        engine.store.count_attempt("t1")
    report = await engine.run(task)
    assert (report.state, report.reason, report.conflicts) == ("PROPOSED", "crash_loop", ())
    assert (await engine.run(await engine.apply("t1"))).state == "SUCCESS"
    engine.store.close()


async def test_opening_after_a_cancelled_task_leaves_the_lock_alone(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    engine = await propose(repo)
    await engine.abort("t1")
    engine.store.close()
    engine.folder.lock.unlink()
    Engine.open(repo).store.close()
    assert not engine.folder.lock.exists()


async def test_a_missing_report_is_written_while_another_process_works(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    engine = Engine.open(repo, models={None: Writer("a.txt")})
    assert (await engine.run(engine.submit("Do it.", Constraints()))).state == "SUCCESS"
    engine.store.close()
    [page] = (repo / ".headgate" / "context").iterdir()
    line, text = engine.folder.reports.read_text(), page.read_text()
    engine.folder.reports.write_text(line[:20])
    page.write_text("")
    lock = FileLock(engine.folder.lock)
    assert lock.try_acquire()
    Engine.open(repo).store.close()
    lock.release()
    assert (engine.folder.reports.read_text(), page.read_text()) == (line, text)
    assert list(page.parent.iterdir()) == [page]


async def test_a_running_dry_run_has_no_diff_yet_and_readers_leave_the_index_alone(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    seen: list[str] = []

    class Asking(Writer):
        async def reply(self, request: Request, on_delta: object = None) -> Reply:
            lock = repo / ".git" / "headgate" / "snapshot.index.lock"
            lock.touch()
            done = headgate(repo, "diff", "t1" if not seen else "t2")
            seen.append(done.stdout or done.stderr)
            assert lock.exists()
            lock.unlink()
            return await super().reply(request)

    engine = Engine.open(repo, models={None: Asking("new.txt")})
    await engine.run(engine.submit("Do it.", Constraints(), Options(dry_run=True)))
    del seen[1:]
    await engine.run(engine.submit("Do it.", Constraints()))
    engine.store.close()
    assert "there is no diff yet" in seen[0]
    assert "+new" in seen[-1]


async def test_what_git_ignores_is_in_the_diff_if_tools_wrote_it(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    (repo / ".gitignore").write_text("*.log\n")
    engine = Engine.open(repo, models={None: Writer("new.log")})
    report = await engine.run(engine.submit("Do it.", Constraints()))
    assert (report.files_changed, report.diffstat) == (("new.log",), ("new.log: +1 -0",))
    assert b"+++ b/new.log" in engine.diff("t1")
    engine.store.close()


async def test_abort_forgets_what_was_kept_for_the_model(tmp_path: Path) -> None:
    repo = make_repository(tmp_path)
    engine = await propose(repo)
    engine.folder.save_output("t1", "long")
    await engine.abort("t1")
    assert not (engine.folder.outputs / "t1").exists()
    engine.store.close()


async def test_a_report_that_is_none_is_said_in_the_log(tmp_path: Path) -> None:
    repo = make_repository(tmp_path, f"{SCRIPT}- text: Done.\n")
    assert headgate(repo, "run", "Do it.").returncode == -9
    with closing(sqlite3.connect(repo / ".headgate" / "headgate.db")) as database, database:
        # A log that lost what the task was about: no process can make a report of it that scripts can use.
        changed = database.execute(
            "UPDATE events SET body = json_set(body, '$.text', '') WHERE kind = 'task_started'"
        )
        assert changed.rowcount == 1
    engine = Engine.open(repo)
    await engine.drain()
    bodies = [event.body for event in engine.store.events("t1")]
    engine.store.close()
    told, invalid, ended = bodies[-3:]
    assert isinstance(told, TaskReport)
    assert (told.report["description"], told.report["status"]) == ("", "completed")
    assert invalid == TaskReportInvalid(codes=("empty:task",))
    assert isinstance(ended, TaskEnded)
    assert ended.state == "SUCCESS"
