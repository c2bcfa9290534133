"""A closed terminal is no cancellation: the task goes on, and so does the queue."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from processes import (
    GATED,
    HEADGATE,
    call,
    ended,
    is_idle,
    line_with,
    shows,
    start,
    states,
    step,
    terminal,
    until,
)

from headgate.process import FileLock

DONE = "- calls: [{stage_done: {stage: work, summary: It was interrupted.}}]\n"


def worker_of(repo: Path) -> int:
    return int(FileLock(repo / ".git" / "headgate" / "lock").holder())


def where(pid: int, descriptor: int) -> str:
    return str(Path(f"/proc/{pid}/fd/{descriptor}").readlink())


@pytest.mark.parametrize("through", ["directly", "by a shell"])
async def test_the_task_goes_on_when_the_terminal_is_closed(repo: Path, through: str) -> None:
    (repo / "script.yaml").write_text(GATED)
    (repo / "a.yaml").write_text(step("a"))
    words = [*HEADGATE, "run", "x"]
    if through == "by a shell":
        words = ["/bin/sh", "-c", f"{' '.join(words)}; echo over > over"]
    with terminal(repo, words) as (_, master):
        await asyncio.to_thread(shows, master, b"Task t1 started")
        await until((repo / "started").exists)
        assert (await call(repo, "submit", "y", "--model", "script:a.yaml"))[1] == "t2\n"
        worker = worker_of(repo)
        os.close(master)
        await until(lambda: [where(worker, number) for number in (0, 1, 2)] == ["/dev/null"] * 3)
        assert (states(repo), worker_of(repo)) == ({"t1": "RUNNING", "t2": "QUEUED"}, worker)
        watch = await start(repo, "watch", "t1")
        await line_with(watch.stdout, "Task t1 started")
        (repo / "go").touch()
        assert b"SUCCESS" in (await ended(watch))[0]
        await until(lambda: states(repo) == {"t1": "SUCCESS", "t2": "SUCCESS"} and is_idle(repo))
    assert (repo / "order").read_text().split() == ["gated", "a"]
    assert not (repo / "over").exists()  # the shell itself is gone


async def test_what_goes_to_a_file_still_does(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    words = [*HEADGATE, "run", "x"]
    with (repo.parent / "out").open("wb") as out, terminal(repo, words, stdout=out.fileno()) as (pid, master):
        await asyncio.to_thread(shows, master, b"Task t1 started")
        await until((repo / "started").exists)
        os.close(master)
        await until(lambda: where(pid, 0) == "/dev/null")
        (repo / "go").touch()
        await until(lambda: "Changed: " in (repo.parent / "out").read_text())
    assert states(repo) == {"t1": "SUCCESS"}


async def test_a_process_without_its_terminal_is_a_worker(repo: Path) -> None:
    """To end it cancels nothing; the next process goes on."""
    (repo / "script.yaml").write_text(GATED)
    with terminal(repo, [*HEADGATE, "run", "x"]) as (pid, master):
        await asyncio.to_thread(shows, master, b"Task t1 started")
        await until((repo / "started").exists)
        os.close(master)
        await until(lambda: where(pid, 0) == "/dev/null")
        os.kill(pid, signal.SIGTERM)
        await until(lambda: is_idle(repo))
    assert states(repo) == {"t1": "RUNNING"}
    (repo / "script.yaml").write_text(f"- text: Played before.\n{DONE}")
    assert (await call(repo, "run", "--resume", "t1"))[0] == 0


async def test_a_signal_without_a_terminal(repo: Path) -> None:
    """As a process under nohup gets it."""
    (repo / "script.yaml").write_text(GATED)
    run = await start(repo, "run", "x")
    await line_with(run.stderr, "Task t1 started")
    await until((repo / "started").exists)
    for _ in range(3):
        run.send_signal(signal.SIGHUP)
    (repo / "go").touch()
    out, _ = await ended(run)
    assert (run.returncode, b"Changed: " in out) == (0, True)
