"""`Engine.undo` takes back what a task changed, and nothing that anybody else did."""

import asyncio
from pathlib import Path

import pytest
from undo_cases import (
    LINES,
    WAITING_CHECK,
    Bench,
    edit,
    make_bench,
    person_at_check,
    shell,
    steps,
    write,
)

from headgate.core import EditsNoticed, RewriteStarted, TaskStarted, fold
from headgate.engine import Overlap, Undone
from headgate.errors import ConfigError
from headgate.log import Draft, build_report


async def undo(bench: Bench, task: str = "t1") -> Undone:
    outcome = await bench.engine.undo(task)
    assert isinstance(outcome, Undone), outcome
    return outcome


async def conflicts(bench: Bench, task: str = "t1") -> Overlap:
    before = bench.files()
    outcome = await bench.engine.undo(task)
    assert isinstance(outcome, Overlap), outcome
    assert bench.files() == before
    assert not any(isinstance(event.body, RewriteStarted) for event in bench.engine.store.events(task))
    return outcome


async def test_everything_that_tools_and_commands_did_is_taken_back(any_bench: Bench) -> None:
    bench = any_bench
    (bench.repo / "odd\udcff.bin").write_bytes(b"\0old")
    before = bench.files()
    await bench.run(
        edit("a.txt", "line 3\n", "LINE 3\n"),
        write("made/deep/new.txt", "new\n"),
        shell("rm gone.sh; chmod +x a.txt; printf 'x' > made/odd; printf '\\0new' > odd*.bin"),
        shell("mkdir other && mv .gitignore other/moved && : > other/empty"),
        edit("a.txt", "line 20\n", "LINE 20\n"),
    )
    assert bench.files() != before
    done = await undo(bench)
    assert bench.files() == before
    assert (done.kept, done.left) == ((), ())
    assert {"a.txt", "gone.sh", "made/deep/new.txt"} <= set(done.files)
    report = build_report(fold(bench.engine.store.events("t1")))
    assert (report.undone, report.state) == (True, "SUCCESS")
    assert bench.engine.store.tasks()[0].undone
    assert not bench.engine.store.contents("t1")


async def test_a_person_s_edits_stay_wherever_they_were_made(bench: Bench) -> None:
    bench.put("before.txt", "mine\n")
    await bench.run(
        edit("a.txt", "line 3\n", "LINE 3\n"),
        lambda: bench.put("notes.md", "mine\n"),
        lambda: bench.put("a.txt", bench.text("a.txt").replace("line 12\n", "my line 12\n")),
        edit("a.txt", "line 20\n", "LINE 20\n"),
        lambda: bench.put("gone.sh", "#!/bin/bash\n"),
        shell("echo more >> a.txt"),
        lambda: bench.put("last.txt", "mine\n"),
    )
    bench.put("a.txt", "my first line\n" + bench.text("a.txt"))
    done = await undo(bench)
    assert bench.text("a.txt") == "my first line\n" + LINES.replace("line 12\n", "my line 12\n")
    assert (done.files, done.shared) == (("a.txt",), ("a.txt",))
    assert done.kept == ("gone.sh", "last.txt", "notes.md")
    assert [bench.text(name) for name in (*done.kept, "before.txt")] == ["#!/bin/bash\n", *["mine\n"] * 3]


async def test_what_a_formatter_and_a_generator_do_as_a_check_is_taken_back(tmp_path: Path) -> None:
    formats = "sed -i s/LINE/Line/ a.txt"
    generates = "grep -c Line a.txt > count.txt; rm -f old.txt; chmod +x gone.txt"
    bench = make_bench(tmp_path, steps(formats, generates))
    for name in ("count.txt", "old.txt", "gone.txt"):
        bench.put(name, "old\n")
    before = bench.files()
    report = await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"))
    assert (report.state, bench.text("a.txt")) == ("SUCCESS", LINES.replace("line 3\n", "Line 3\n"))
    assert report.files_changed == ("a.txt", "count.txt", "gone.txt", "old.txt")
    assert not any(isinstance(event.body, EditsNoticed) for event in bench.engine.store.events("t1"))
    diff = bench.engine.diff("t1").decode()
    assert ("+Line 3" in diff, "LINE" in diff, "-old" in diff) == (True, False, True)
    await undo(bench)
    bench.engine.store.close()
    assert bench.files() == before


async def test_what_changes_while_a_check_runs_is_the_check_s_doing(tmp_path: Path) -> None:
    formats = "sed -i s/LINE/Line/ a.txt"
    bench = make_bench(tmp_path, steps(f"echo ran >> count.log; {formats}; {WAITING_CHECK}"))
    bench.put("notes.md", "old\n")
    before = bench.files()
    with person_at_check(bench.repo, lambda: bench.put("notes.md", "mine\n")):
        report = await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"))
    done = await undo(bench)
    bench.engine.store.close()
    assert (report.files_changed, report.shared) == (("a.txt", "notes.md"), ())
    assert done.files == ("a.txt", "notes.md")
    assert {name: found for name, found in bench.files().items() if not name.endswith(".log")} == before
    assert bench.text("count.log") == "ran\n"  # no step was run again to find out who did it


async def test_what_a_check_made_that_was_cancelled_is_nobody_else_s(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, steps("touch made.txt; sleep 60"))
    running = asyncio.create_task(bench.run(edit("a.txt", "line 3\n", "LINE 3\n")))
    while not (bench.repo / "made.txt").exists():
        await asyncio.sleep(0.02)
    bench.engine.cancel("t1")
    assert (await running).state == "CANCELLED"
    assert not any(isinstance(event.body, EditsNoticed) for event in bench.engine.store.events("t1"))
    bench.engine.store.close()


async def test_a_cache_that_a_check_rewrites_is_no_change_of_the_task(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, steps("date +%s%N > __pycache__/a.pyc"))
    bench.put("__pycache__/a.pyc", "old\n")
    report = await bench.run(write("new.txt", "new\n"))
    assert report.files_changed == ("new.txt",)
    assert b"pyc" not in bench.engine.diff("t1")
    assert (await undo(bench)).files == ("new.txt",)
    bench.engine.store.close()
    assert bench.text("__pycache__/a.pyc") != "old\n"


async def test_lines_that_somebody_changed_since_are_a_conflict_and_nothing_is_written(bench: Bench) -> None:
    await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), write("new.txt", "new\n"))
    bench.put("a.txt", bench.text("a.txt").replace("LINE 3\n", "mine\n"))
    assert (await conflicts(bench)).problems == ("a.txt: has changed at the same place, near line 3",)
    bench.put("a.txt", bench.text("a.txt").replace("mine\n", "LINE 3\n"))
    bench.put("new.txt", "new\nmore\n")
    assert "new.txt: has changed, and would be deleted" in (await conflicts(bench)).problems[0]
    bench.put("new.txt", "new\n")
    await undo(bench)
    assert bench.text("a.txt") == LINES


async def test_a_later_task_is_named(bench: Bench) -> None:
    await bench.run(edit("a.txt", "line 3\n", "second\n"))
    await bench.run(write("other.txt", "x\n"))
    await bench.run(edit("a.txt", "second\n", "third\n"))
    found = await conflicts(bench)
    assert found.later == ("t3",)
    assert "undo t3 first" in found.sentences()[-1]
    await undo(bench, "t3")
    await undo(bench, "t1")
    assert bench.text("a.txt") == LINES
    assert bench.text("other.txt") == "x\n"


async def test_ignored_files_that_tools_wrote_are_as_they_were(bench: Bench) -> None:
    bench.put("old.log", "old\n")
    await bench.run(write("old.log", "new\n"), write("new.log", "new\n"), shell("echo x > by-command.log"))
    await undo(bench)
    assert bench.text("old.log") == "old\n"
    assert not (bench.repo / "new.log").exists()
    assert (bench.repo / "by-command.log").exists()  # nobody looks into what git ignores


async def test_what_is_no_plain_file_is_named_as_not_undone(bench: Bench) -> None:
    await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), shell("ln -s a.txt link"))
    done = await undo(bench)
    assert (done.files, done.left) == (("a.txt",), ("link",))


async def test_what_is_back_already_is_no_conflict(bench: Bench) -> None:
    await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), write("new.txt", "new\n"))
    (bench.repo / "new.txt").unlink()
    bench.put("a.txt", LINES)
    assert (await undo(bench)).files == ()


async def test_an_applied_proposal_is_taken_back(bench: Bench) -> None:
    await bench.run(edit("a.txt", "line 3\n", "LINE 3\n"), dry_run=True)
    with pytest.raises(ConfigError, match="headgate abort t1"):
        await bench.engine.undo("t1")
    bench.put("a.txt", "mine\n" + LINES)
    await bench.engine.run(await bench.engine.apply("t1"))
    await undo(bench)
    assert bench.text("a.txt") == "mine\n" + LINES


async def test_refusals_say_why(bench: Bench) -> None:
    await bench.run()
    with pytest.raises(ConfigError, match="changed no file"):
        await bench.engine.undo("t1")
    await bench.run(write("new.txt", "new\n"))
    lock = bench.engine.folder.work_lock()
    assert lock.try_acquire()
    with pytest.raises(ConfigError, match="works in this repository"):
        await bench.engine.undo("t2")
    lock.release()
    await undo(bench, "t2")
    with pytest.raises(ConfigError, match=r"undone already: headgate diff t2 \| git apply"):
        await bench.engine.undo("t2")
    queued = bench.engine.submit("Later.", bench.engine.store.tasks()[0].task.constraints)
    with pytest.raises(ConfigError, match="QUEUED"):
        await bench.engine.undo(queued.id)
    with pytest.raises(ConfigError, match="gone"):
        await bench.engine.undo("t99")


async def test_a_log_that_does_not_tell_whose_changes_they_are_is_not_trusted(bench: Bench) -> None:
    await bench.run(write("new.txt", "new\n"))
    store = bench.engine.store
    begun = next(event for event in store.events("t1") if isinstance(event.body, TaskStarted))
    assert isinstance(begun.body, TaskStarted)
    await store.append("t1", [Draft("", 0, 0.0, EditsNoticed(before="", after=""))])
    with pytest.raises(ConfigError, match="not recorded which changes"):
        await bench.engine.undo("t1")


async def test_the_time_that_a_task_took_does_not_grow_by_an_undo(bench: Bench) -> None:
    report = await bench.run(write("new.txt", "1\n"))
    bench.engine.now = lambda: 10.0**12
    await undo(bench)
    after = build_report(fold(bench.engine.store.events("t1")))
    assert after.seconds == pytest.approx(report.seconds, abs=0.01)
