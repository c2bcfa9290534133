"""Commands that only look: they leave no trace, and follow what is worth following."""

import json
from pathlib import Path

import pytest
from command import headgate
from processes import GATED, call, ended, is_idle, line_with, start, step, until

from headgate.cli.stored_tasks import NO_TASK_YET

LOOKING = {
    "tasks": (0, NO_TASK_YET),
    "tasks --json": (0, "[]\n"),
    "show": (2, ""),
    "report": (2, ""),
    "diff": (2, ""),
    "watch": (2, ""),
    "abort t1": (2, ""),
    "apply t1": (2, ""),
    "undo": (2, ""),
    "undo t1": (2, ""),
    "cancel t1": (2, ""),
    "run --resume t1": (2, ""),
    "submit --resume t1": (2, ""),
    "flows": (0, "staged"),
    "doctor": (0, "git"),
}
"""Each with its exit code and a part of what it prints; 2 always comes with the same sentence."""


def everything(repo: Path) -> dict[str, bytes | None]:
    """Every file and folder, git's own included."""
    return {
        path.relative_to(repo).as_posix(): path.read_bytes() if path.is_file() else None
        for path in repo.rglob("*")
    }


@pytest.mark.parametrize("words", LOOKING)
def test_looking_at_a_repository_without_tasks_writes_nothing(repo: Path, words: str) -> None:
    before = everything(repo)
    code, shown = LOOKING[words]
    done = headgate(repo, *words.split())
    assert (done.returncode, shown in done.stdout) == (code, True), done.stderr
    if code == 2:
        assert done.stderr == f"headgate: {NO_TASK_YET}\n"
    assert everything(repo) == before


async def test_a_diff_of_a_running_task_leaves_no_objects(repo: Path) -> None:
    (repo / "script.yaml").write_text(GATED)
    run = await start(repo, "run", "x")
    await until((repo / "started").exists)
    (repo / "mine.txt").write_text("mine\n")

    def objects() -> set[str]:
        folder = repo / ".git" / "headgate" / "objects"
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}

    before = objects()
    code, out, err = await call(repo, "diff")
    assert (code, "+mine" in out) == (0, True), err
    assert objects() == before
    (repo / "go").touch()
    await ended(run)


async def test_watch_without_an_id_follows_the_running_task(repo: Path) -> None:
    (repo / "gated.yaml").write_text(GATED)
    (repo / "a.yaml").write_text(step("a"))
    assert (await call(repo, "submit", "one", "--model", "script:gated.yaml"))[1] == "t1\n"
    assert (await call(repo, "submit", "two", "--model", "script:a.yaml"))[1] == "t2\n"
    await until((repo / "started").exists)
    report = json.loads((await call(repo, "report", "t2", "--json"))[1])
    assert (report["status"], report["state"]) == ("pending", "QUEUED")
    report = json.loads((await call(repo, "report", "t1", "--json"))[1])
    assert (report["status"], report["state"]) == ("in_progress", "RUNNING")
    watch = await start(repo, "watch")
    await line_with(watch.stdout, "Task t1 started")
    (repo / "go").touch()
    assert b"t2" not in (await ended(watch))[0]
    assert watch.returncode == 0
    await until(lambda: is_idle(repo))


async def test_watch_shows_phase_lines_where_they_are_asked_for(repo: Path) -> None:
    script = (repo / "script.yaml").read_text()
    (repo / "script.yaml").write_text("- calls: [{read_file: {path: agent.yaml}}]\n" + script)
    with (repo / "agent.yaml").open("a") as config:
        config.write("phase_control: {mode: rules}\nphase_log: stdout\n")
    assert (await call(repo, "submit", "Write it"))[1] == "t1\n"
    code, out, err = await call(repo, "watch")
    assert code == 0, err
    assert [line for line in out.splitlines() if line.startswith("phase: ")] == [
        "phase: context -> plan (rules: 1 file was read)",
        "phase: plan -> implement (rules: a file was written)",
    ]
    code, out, err = await call(repo, "watch", "--json")
    assert (code, "phase: context -> plan" in out, "phase: context -> plan" in err) == (0, False, True)
