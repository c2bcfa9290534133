"""The queue, with real processes: first in, first out, one at a time, nothing left lying."""

import asyncio
import json
import os
import random
import signal
from functools import partial
from pathlib import Path

import pytest
from processes import (
    GATED,
    HEADGATE,
    PATIENCE,
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
    shows,
    start,
    states,
    step,
    terminal,
    until,
)

from headgate.cli.worker import start_worker
from headgate.core import Constraints, Options
from headgate.engine import Engine
from headgate.process import FileLock


@pytest.fixture
def queue_repo(repo: Path) -> Path:
    (repo / "gated.yaml").write_text(GATED)
    for word in "abcde":
        (repo / f"{word}.yaml").write_text(step(word))
    return repo


def order(repo: Path) -> list[str]:
    path = repo / "order"
    return path.read_text().split() if path.exists() else []


def listed(out: str) -> list[tuple[str, str, int | None]]:
    return [(task["id"], task["state"], task["position"]) for task in json.loads(out)]


async def test_two_runs_at_once_run_one_after_the_other(queue_repo: Path) -> None:
    first = await start(queue_repo, "run", "one", "--model", "script:gated.yaml")
    await until((queue_repo / "started").exists)
    second = await start(queue_repo, "run", "two", "--json", "--model", "script:a.yaml")
    third = await start(queue_repo, "run", "three", "--model", "script:gone.yaml")
    assert await third.wait() == 2  # said at once, not when its turn comes
    await line_with(second.stderr, "Queued as t2: 1 task before it (t1)")
    (queue_repo / "go").touch()
    out, err = await ended(second)
    await ended(first)
    assert (first.returncode, second.returncode) == (0, 0)
    assert order(queue_repo) == ["gated", "a"]
    lines = [json.loads(line) for line in out.splitlines()]
    shown = json.loads((await call(queue_repo, "show", "t2", "--json"))[1])
    assert lines[:-1] == shown["events"]
    assert (lines[0]["kind"], lines[-2]["kind"]) == ("task_started", "task_ended")
    assert {"kind": "report", **shown["report"]} == lines[-1]
    assert b"SUCCESS" in err
    await until(lambda: is_idle(queue_repo))


async def test_the_live_line_of_a_task_that_waited_is_that_of_any_other(queue_repo: Path) -> None:
    """Whichever process carries it out."""
    second = GATED.replace("started", "started2").replace("-e go ", "-e go2 ")
    (queue_repo / "second.yaml").write_text(second)
    assert (await call(queue_repo, "submit", "one", "--model", "script:gated.yaml"))[1] == "t1\n"
    words = [*HEADGATE, "run", "two", "--model", "script:second.yaml"]
    with terminal(queue_repo, words) as (_, master):
        async with asyncio.timeout(PATIENCE):
            await asyncio.to_thread(shows, master, b" Queued: 1 before this one")
            (queue_repo / "go").touch()
            await asyncio.to_thread(shows, master, b" WORK turn 1/")
            (queue_repo / "go2").touch()
            await asyncio.to_thread(shows, master, b"SUCCESS")
        os.close(master)
    await until(lambda: is_idle(queue_repo))


async def test_five_submits_first_in_first_out_whoever_runs_them(queue_repo: Path, tmp_path: Path) -> None:
    """The first submit's worker runs them all, each with the options it was submitted with."""
    other = tmp_path / "other.yaml"
    other.write_text("task_flow_mode: flat\nmodel: script:d.yaml\nkeep_conversations: true\n")
    options = [("--model", f"script:{name}.yaml") for name in ("gated", "a", "b", "c")]
    ids = []
    for words in (*options, ("--config", "../other.yaml")):
        code, out, err = await call(queue_repo, "submit", "Line one\nline two", *words)
        name = out.strip()
        assert (code, err) == (0, f"headgate watch {name} follows it; headgate cancel {name} cancels it.\n")
        ids.append(out)
    assert ids == [f"t{number}\n" for number in range(1, 6)]
    await until((queue_repo / "started").exists)

    positions = [("t1", "RUNNING", None), *((f"t{n}", "QUEUED", n - 1) for n in range(2, 6))]
    assert listed((await call(queue_repo, "tasks", "--json"))[1]) == positions
    people = (await call(queue_repo, "tasks"))[1].splitlines()
    assert people[1] == "t2  QUEUED 1  now  Line one"

    kept = files(queue_repo)
    code, out, _ = await call(queue_repo, "cancel", "t3")
    assert (code, out) == (0, "Task t3 was removed from the queue.\n")
    assert files(queue_repo) == kept
    assert "t3" not in str(rows(queue_repo))
    assert [row[0] for row in rows(queue_repo)["tasks"]] == [1, 2, 4, 5]
    after = [("t1", "RUNNING", None), ("t2", "QUEUED", 1), ("t4", "QUEUED", 2), ("t5", "QUEUED", 3)]
    assert listed((await call(queue_repo, "tasks", "--json"))[1]) == after

    (queue_repo / "go").touch()
    await until(lambda: set(states(queue_repo).values()) == {"SUCCESS"} and is_idle(queue_repo))
    assert order(queue_repo) == ["gated", "a", "c", "d"]
    assert (queue_repo / ".headgate" / "worker.log").read_text() == ""
    assert rows(queue_repo)["bodies"] != []  # the last one's own configuration keeps them
    assert [report["task_id"] for report in reports(queue_repo)] == ["t1", "t2", "t4", "t5"]


async def test_a_queued_task_that_is_cancelled_leaves_no_byte(repo: Path) -> None:
    text = "a very secret plan that must not stay"
    assert (await call(repo, "submit", "--no-start", "first"))[0] == 0
    before = rows(repo)
    assert (await call(repo, "submit", "--no-start", text))[1] == "t2\n"
    assert (await call(repo, "cancel", "t2"))[0] == 0
    assert rows(repo) == before
    everything = b"".join(path.read_bytes() for path in (repo / ".headgate").rglob("*") if path.is_file())
    assert text.encode() not in everything


async def test_no_start_starts_nothing_and_the_next_run_does_it_all_in_order(queue_repo: Path) -> None:
    assert (await call(queue_repo, "submit", "--no-start", "x", "--model", "script:a.yaml"))[1] == "t1\n"
    (queue_repo / "short.yaml").write_text(step("b").splitlines()[0])
    assert (await call(queue_repo, "submit", "--no-start", "y", "--model", "script:short.yaml"))[1] == "t2\n"
    assert (is_idle(queue_repo), states(queue_repo)) == (True, {"t1": "QUEUED", "t2": "QUEUED"})
    assert "worker.log" not in files(queue_repo)
    watch = await call(queue_repo, "watch", "t1")
    nobody = "No process is working: headgate submit --resume t1 starts the work."
    assert (watch[0], watch[1].splitlines()) == (3, ["Task t1 is queued.", nobody])
    code, _, err = await call(queue_repo, "run", "z", "--model", "script:c.yaml")
    assert code == 0, err
    assert "Queued as t3: 2 tasks before it (t1, t2)" in err
    assert order(queue_repo) == ["a", "b", "c"]
    assert states(queue_repo) == {"t1": "SUCCESS", "t2": "INFRA_ERROR", "t3": "SUCCESS"}


async def test_run_returns_its_own_task_s_exit_code_and_passes_the_lock_on(queue_repo: Path) -> None:
    (queue_repo / "short.yaml").write_text(step("b").splitlines()[0])
    first = await start(queue_repo, "run", "one", "--model", "script:gated.yaml")
    await until((queue_repo / "started").exists)
    second = await start(queue_repo, "run", "two", "--model", "script:short.yaml")
    await line_with(second.stderr, "Queued as t2: 1 task")
    assert (await call(queue_repo, "submit", "three", "--model", "script:c.yaml"))[1] == "t3\n"
    removed = await start(queue_repo, "run", "four", "--json", "--model", "script:d.yaml")
    await line_with(removed.stderr, "Queued as t4: 3 tasks before it (t1, t2, t3)")
    assert (await call(queue_repo, "cancel", "t4"))[0] == 0
    out, _ = await ended(removed)
    report = json.loads(out)
    assert (removed.returncode, report["state"]) == (130, "CANCELLED")
    assert (report["reason"], report["summary"]) == ("cancelled", "")
    (queue_repo / "go").touch()
    await ended(first)
    await ended(second)
    assert (first.returncode, second.returncode) == (0, 3)
    await until(lambda: states(queue_repo)["t3"] == "SUCCESS" and is_idle(queue_repo))
    assert order(queue_repo) == ["gated", "b", "c"]


async def test_who_waits_takes_over_when_the_holder_is_killed(queue_repo: Path) -> None:
    (queue_repo / "slow.yaml").write_text(
        "- calls: [{write_file: {path: half.txt, content: x}}]\n- {text: late, delay: 600}\n"
    )
    first = await start(queue_repo, "run", "one", "--model", "script:slow.yaml")
    await until((queue_repo / "half.txt").exists)
    second = await start(queue_repo, "run", "two", "--model", "script:a.yaml")
    await line_with(second.stderr, "Queued as t2: 1 task")
    (queue_repo / "slow.yaml").write_text("- text: Played before.\n- text: I had written half.txt.\n")
    first.send_signal(signal.SIGKILL)
    await ended(first)
    _, err = await ended(second)
    assert second.returncode == 0
    lines = [line.partition("] ")[2] for line in err.decode().splitlines()]
    resumed = lines.index("Task t1 resumed where it was interrupted")
    told = lines.index("Task t1 ended: SUCCESS.")
    started = next(at for at, line in enumerate(lines) if line.startswith("Task t2 started: "))
    assert resumed < told < started
    assert states(queue_repo) == {"t1": "SUCCESS", "t2": "SUCCESS"}
    assert [report["task_id"] for report in reports(queue_repo)] == ["t1", "t2"]
    assert reports(queue_repo)[0]["files_changed"] == ["half.txt", "slow.yaml"]
    assert order(queue_repo) == ["a"]


async def test_a_worker_that_is_ended_leaves_its_task_to_the_next_one(queue_repo: Path) -> None:
    (queue_repo / "slow.yaml").write_text(f"- calls: [{{shell: {{command: '{SLEEPER}'}}}}]\n- text: x\n")
    assert (await call(queue_repo, "submit", "one", "--model", "script:slow.yaml"))[0] == 0
    await until(lambda: pid_of(queue_repo))
    worker = int(FileLock(queue_repo / ".git" / "headgate" / "lock").holder())
    os.kill(worker, signal.SIGTERM)
    await until(lambda: is_idle(queue_repo) and is_dead(pid_of(queue_repo)))
    assert states(queue_repo) == {"t1": "RUNNING"}
    (queue_repo / "slow.yaml").write_text(
        "- text: Played before.\n- calls: [{stage_done: {stage: work, summary: It was interrupted.}}]\n"
    )
    assert (await call(queue_repo, "submit", "two", "--model", "script:a.yaml"))[1] == "t2\n"
    await until(lambda: states(queue_repo) == {"t1": "SUCCESS", "t2": "SUCCESS"} and is_idle(queue_repo))
    shown = json.loads((await call(queue_repo, "show", "t1", "--json"))[1])
    assert [event["kind"] for event in shown["events"]].count("task_resumed") == 1


async def test_no_task_is_stranded_by_quick_submits(
    queue_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submits at every moment of a worker's life, its end above all."""
    for name in ("HEADGATE_MODEL", "HEADGATE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    engine = Engine.open(queue_repo, start_worker=partial(start_worker, queue_repo))
    dice = random.Random(7)
    count = 16
    try:
        for _ in range(count):
            engine.submit("x", Constraints(), Options(model="script:a.yaml"))
            engine.wake_worker()
            await until(lambda: dice.random() < 0.4 or is_idle(queue_repo))
        await until(lambda: is_idle(queue_repo) and not engine.store.head())
        assert list(states(queue_repo).values()) == ["SUCCESS"] * count
    finally:
        engine.store.close()
    assert order(queue_repo) == ["a"] * count
    assert [report["task_id"] for report in reports(queue_repo)] == [f"t{n + 1}" for n in range(count)]
