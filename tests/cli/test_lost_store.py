"""A command deletes `.headgate` while others wait in the queue, look, and want to submit."""

import json
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
