"""What is said of a task that was interrupted, waits, is a proposal, or tries another one again."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from processes import call, ended, line_with, start, until

from headgate.cli.main import main
from headgate.cli.setup_checks import check_store
from headgate.core import Constraints, Options
from headgate.engine import Engine
from headgate.process import FileLock

Typed = Callable[..., tuple[int | str | None, str, str]]


@pytest.fixture
def typed(repo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Types `headgate ...` in the repository; the process is this one."""
    for name in ("HEADGATE_MODEL", "HEADGATE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def type_it(*args: str) -> tuple[int | str | None, str, str]:
        with chdir(repo), pytest.raises(SystemExit) as caught:
            main(list(args))
        return caught.value.code, *capsys.readouterr()

    return type_it


@pytest.fixture
def engine(repo: Path) -> Iterator[Engine]:
    engine = Engine.open(repo)
    yield engine
    engine.store.close()


def submit(engine: Engine, text: str, **options: str) -> str:
    return engine.submit(text, Constraints(), Options(model="script:script.yaml", **options)).id


def test_an_interrupted_task(repo: Path, engine: Engine, typed: Typed) -> None:
    submit(engine, "Write it")
    engine.store.claim()  # and the process is gone
    hint = "headgate run --resume t1 continues it; headgate cancel t1 ends it."
    code, out, _ = typed("tasks")
    assert (code, out.splitlines()) == (0, ["t1  INTERRUPTED  now  Write it", f"t1 was interrupted: {hint}"])
    listed = {"id": "t1", "state": "RUNNING", "text": "Write it", "position": None, "interrupted": True}
    assert json.loads(typed("tasks", "--json")[1]) == [listed]
    assert typed("show")[1].splitlines() == ["t1  INTERRUPTED  Write it", "", hint]
    shown = json.loads(typed("show", "--json")[1])
    assert (shown["state"], shown["interrupted"]) == ("RUNNING", True)
    assert typed("report")[1].splitlines() == ["Task t1 has not ended: it was INTERRUPTED.", hint]
    lock = FileLock(repo / ".git" / "headgate" / "lock")
    assert lock.try_acquire()
    assert typed("tasks")[1] == "t1  RUNNING  now  Write it\n"
    lock.release()
    engine.cancel("t1")
    dying = "It was being cancelled: the next headgate run, submit or cancel ends it."
    assert typed("show")[1].splitlines()[-1] == dying
    for command in ("show", "report"):
        assert typed(command, "")[::2] == (2, 'headgate: There is no task "": the latest is t1.\n')
    assert typed("run", "--resume", "")[0] == 2


def test_the_only_task_needs_no_id(repo: Path, engine: Engine, typed: Typed) -> None:
    (repo / "script.yaml").write_text(
        "- calls: [{write_file: {path: new.txt, content: x}}]\n- calls: [{stage_done: {summary: done}}]\n"
    )
    for command, kind in (("apply", "proposal"), ("abort", "proposal"), ("cancel", "running or queued task")):
        submit(engine, "first") if command == "apply" else None
        engine.cancel("t1")
        assert typed(command)[::2] == (2, f"headgate: There is no {kind}.\n"), command
    assert typed("run", "--dry-run", "--flow", "flat", "one")[0] == 0
    assert typed("run", "--dry-run", "--flow", "flat", "two")[0] == 0
    assert typed("apply")[::2] == (2, "headgate: Name one: there are several, t2, t3.\n")
    assert typed("abort", "t2")[0] == 0
    assert typed("apply")[0] == 0
    assert (repo / "new.txt").read_text() == "x"
    submit(engine, "queued")
    assert typed("cancel")[:2] == (0, "Task t4 was removed from the queue.\n")


def test_what_tries_another_task_again(repo: Path, engine: Engine, typed: Typed) -> None:
    (repo / "script.yaml").write_text("- calls: [{write_file: {path: new.txt, content: x}}]\n")
    code, out, err = typed("run", "Write it")
    assert code == 3
    assert "INFRA_ERROR: the script has no reply to the request" in err
    assert out.splitlines()[-1] == "headgate run --resume t1 tries again and starts from this report."
    code, _, err = typed("run", "--resume", "t1")
    assert "Task t2 started: flat flow, script:script.yaml; retry of t1" in err
    assert typed("tasks")[1].splitlines()[1] == "t2  INFRA_ERROR  now  (retry of t1) Write it"
    assert "Retry of t1." in typed("show")[1].splitlines()
    report = typed("report")[1]
    assert "Retry of t1." in report.splitlines()
    assert ".." not in report.replace("...", "")
    code, out, _ = typed("watch")
    assert (code, out.splitlines()[-1].startswith("headgate run --resume t2 tries again")) == (3, True)


def test_a_cancelled_task_s_report(repo: Path, engine: Engine, typed: Typed) -> None:
    (repo / "script.yaml").write_text("- text: There is nothing to do.\n- text: Nothing.\n")
    code, out, err = typed("run", "--dry-run", "Look")
    assert (code, out) == (0, "")
    assert err.splitlines()[-2:] == ["No change is proposed.", "headgate abort t1 discards it."]
    assert typed("cancel", "t1") == (
        2,
        "",
        "headgate: Task t1 is a proposal: headgate abort t1 discards it.\n",
    )
    assert typed("abort", "t1")[0] == 0
    assert "CANCELLED: the proposal was discarded" in typed("show")[1]
    report = typed("report")[1]
    assert report.splitlines()[:3] == ["# CANCELLED: Look", "", "Cancelled."]
    assert ("| requests | 2 |" in report, "## work" in report) == (True, False)


async def test_a_proposal_that_is_refused_and_then_cancelled_in_the_queue(repo: Path) -> None:
    code, out, err = await call(repo, "run", "--dry-run", "Write it")
    assert (code, "+hello" in out) == (0, True)
    last = (
        "headgate diff t1 shows it; headgate apply t1 writes and verifies it; headgate abort t1 discards it."
    )
    assert err.splitlines()[-1] == last
    (repo / "new.txt").write_text("mine\n")
    code, out, _ = await call(repo, "apply", "t1")
    assert (code, "new.txt: already exists" in out) == (1, True)
    assert "A new headgate run --dry-run starts from the current tree." in out
    lock = FileLock(repo / ".git" / "headgate" / "lock")
    assert lock.try_acquire()
    waiting = await start(repo, "apply", "t1")
    await line_with(waiting.stderr, "is working in this repository")
    await call(repo, "cancel", "t1")
    told = (await ended(waiting))[0].decode()
    assert (waiting.returncode, told) == (130, "Task t1 left the queue and is a proposal again.\n")
    lock.release()
    (repo / "new.txt").write_text("hello\n")
    code, _, err = await call(repo, "apply", "t1")
    assert (code, "are already in the working tree: nothing to write" in err) == (0, True)


async def test_watching_a_queued_task(repo: Path, engine: Engine) -> None:
    submit(engine, "one")
    submit(engine, "two")
    lock = FileLock(repo / ".git" / "headgate" / "lock")
    assert lock.try_acquire()
    watch = await start(repo, "watch", "t2")
    await line_with(watch.stdout, "Queued: 1 before this one")
    watch.send_signal(signal.SIGINT)
    _, err = await ended(watch)
    assert (watch.returncode, err) == (130, b"Task t2 continues; headgate cancel t2 ends it.\n")
    lock.release()


async def test_a_damaged_store_is_told_of(repo: Path, engine: Engine) -> None:
    submit(engine, "one")
    engine.store.close()
    database = repo / ".headgate" / "headgate.db"
    await until(lambda: not Path(f"{database}-wal").exists())
    database.write_bytes(b"nonsense" * 1000)
    code, _, err = await call(repo, "tasks")
    assert (code, "damaged" in err) == (0, True)
    (finding,) = check_store(repo)
    assert (finding.check, finding.status) == ("store", "note")
    assert ".headgate/headgate.db.damaged-" in finding.detail
