"""A command deletes `.headgate` while others wait in the queue, look, and want to submit."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from processes import call, ended, is_idle, line_with, reports, start, states, step, until

GONE = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo one >> order"
WAYS = {
    "clean": "git clean -fdxq -e new.txt -e order -e '*.yaml' -e '*.sh'",
    "removed": "rm -rf .headgate",
    "replaced": "rm -rf .headgate; mkdir .headgate; echo nonsense > .headgate/headgate.db",
}


@pytest.mark.parametrize("way", WAYS)
async def test_the_queue_survives(repo: Path, way: str) -> None:
    (repo / "zero.yaml").write_text(step("zero"))
    (repo / "two.yaml").write_text(step("two"))
    (repo / "three.yaml").write_text(step("three"))
    (repo / "gone.sh").write_text(f"{WAYS[way]}\n{GONE}\n")
    (repo / "one.yaml").write_text(
        "- calls: [{write_file: {path: new.txt, content: x}}]\n"
        "- calls: [{shell: {command: sh wait.sh}}, {shell: {command: sh gone.sh}}]\n"
        "- calls: [{stage_done: {stage: work, summary: Done.}}]\n  expect: {last: 'Restored: .headgate'}\n"
    )
    (repo / "wait.sh").write_text("touch ready; while [ ! -e begin ]; do sleep 0.02; done\n")
    assert (await call(repo, "run", "zero", "--model", "script:zero.yaml"))[0] == 0
    first = await start(repo, "run", "one", "--json", "--model", "script:one.yaml")
    await until((repo / "ready").exists)
    assert (await call(repo, "submit", "two", "--model", "script:two.yaml"))[1] == "t3\n"
    third = await start(repo, "run", "three", "--model", "script:three.yaml")
    await line_with(third.stderr, "Queued as t4: 2 tasks")
    watch = await start(repo, "watch", "t2")
    await line_with(watch.stdout, "Task t2 started")
    (repo / "begin").touch()
    await until((repo / "started").exists)
    if way in ("clean", "removed"):
        for words in (("tasks",), ("submit", "late"), ("diff", "t2")):
            code, out, err = await call(repo, *words)
            assert (code, out, "Headgate restores it when the command ends" in err) == (3, "", True), err
    (repo / "go").touch()
    out, err = await ended(first)
    assert first.returncode == 0, err
    report = json.loads(out.splitlines()[-1])
    assert {"new.txt", "order"} <= set(report["files_changed"])
    assert report["warnings"][0].startswith("Restored: .headgate")
    assert b"SUCCESS" in (await ended(watch))[0]
    assert (await ended(third), third.returncode)[1] == 0
    await until(lambda: is_idle(repo))
    assert states(repo) == dict.fromkeys(("t1", "t2", "t3", "t4"), "SUCCESS")
    assert (repo / "order").read_text().split() == ["zero", "one", "two", "three"]
    assert [line["task_id"] for line in reports(repo)] == ["t1", "t2", "t3", "t4"]
    assert (await call(repo, "submit", "--no-start", "five"))[1] == "t5\n"
    code, out, _ = await call(repo, "diff", "t2")
    assert (code, "+x" in out) == (0, True)


KILLED = """
echo x > tests/test_a.py; rm -r locked; chmod +x free.txt; echo x > .git/hooks/pre-commit
git clean -fdxq -e started; touch started; sleep 600
"""


class TestKilledBeforeTheStoreWasRestored:
    """The next process finds no store, and nothing says what the killed task was."""

    @pytest.mark.parametrize("damaged", [False, True])
    async def test_protected_files_are_restored(self, repo: Path, damaged: bool) -> None:
        (repo / "tests").mkdir()
        (repo / "locked").mkdir()
        (repo / "tests" / "test_a.py").write_text("original\n")
        (repo / "locked" / "b.txt").write_text("original b\n")
        (repo / "kill.sh").write_text(KILLED)
        (repo / "one.yaml").write_text("- calls: [{shell: {command: sh kill.sh}}]\n")
        (repo / "two.yaml").write_text(step("two"))
        (repo / "free.txt").write_text("free\n")
        agent = "task_flow_mode: flat\nprotect_tests: existing\nboundaries: [locked/**]\n"
        (repo / "agent.yaml").write_text(agent)
        await asyncio.to_thread(subprocess.run, ["git", "add", "-A"], cwd=repo, check=True)
        first = await start(repo, "run", "one", "--model", "script:one.yaml")
        await until((repo / "started").exists)
        first.kill()
        await ended(first)
        assert not (repo / ".headgate" / "headgate.db").exists()
        assert not (repo / "locked").exists()
        if damaged:
            (repo / ".headgate").mkdir()
            (repo / ".headgate" / "headgate.db").write_bytes(b"nonsense" * 1000)
        else:  # those who only look change nothing
            await call(repo, "tasks")
            assert (repo / "tests" / "test_a.py").read_text() == "x\n"
        (repo / "two.yaml").write_text(step("two"))
        code, _, err = await call(repo, "run", "two", "--model", "script:two.yaml")
        assert code == 0, err
        assert (repo / "tests" / "test_a.py").read_text() == "original\n"
        assert (repo / "locked" / "b.txt").read_text() == "original b\n"
        assert not (repo / ".git" / "hooks" / "pre-commit").exists()
        notes = [line for line in err.splitlines() if "killed" in line]
        assert len(notes) == 1, err
        assert "tests/test_a.py" in notes[0]
        assert "locked/b.txt" in notes[0]
        assert ".git/headgate/protected-lost-1" in notes[0]
        aside = repo / ".git" / "headgate" / "protected-lost-1"
        assert [path.read_text() for path in aside.rglob("*test_a.py*")] == ["x\n"]
        code, _, err = await call(repo, "submit", "--no-start", "three", "--model", "script:two.yaml")
        assert (code, "killed" in err) == (0, False)

    async def test_what_cannot_be_restored_is_kept(self, repo: Path) -> None:
        kept = repo / ".git" / "headgate" / "protected" / "t1" / "tests"
        kept.mkdir(parents=True)
        (kept / "records.jsonl").mkdir()
        (kept / "contents").write_text("the only copy")
        code, out, err = await call(repo, "submit", "--no-start", "one")
        assert (code, out) == (0, "t1\n")
        assert "their original content is kept in" in err
        kept = repo / ".git" / "headgate" / "protected-lost-1"
        assert [path.read_text() for path in kept.rglob("contents")] == ["the only copy"]
        assert not (repo / ".git" / "headgate" / "protected").exists()
