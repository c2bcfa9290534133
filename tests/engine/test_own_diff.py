"""A task's diff and the files that it is said to have changed are its own, and not a person's."""

import json
from pathlib import Path

from undo_cases import LINES, Bench, edit, make_bench, shell, steps, write

from headgate.log import Folder


def changed_lines(diff: bytes) -> list[str]:
    lines = diff.decode().splitlines()
    return [line for line in lines if line[:1] in "+-" and not line.startswith(("+++", "---"))]


def mine(bench: Bench, path: str, old: str, new: str) -> None:
    bench.put(path, bench.text(path).replace(old, new))


async def test_a_person_s_files_are_not_the_task_s(bench: Bench) -> None:
    bench.put("changed.txt", "old\n")
    bench.put("removed.txt", "old\n")

    def edits() -> None:
        bench.put("notes.md", "mine\n")
        bench.put("changed.txt", "mine\n")
        (bench.repo / "removed.txt").unlink()

    report = await bench.run(
        write("new.txt", "new\n"),
        edits,
        shell("echo by-command > other.txt"),
        lambda: bench.put("z", "mine\n"),
    )
    assert report.files_changed == ("new.txt", "other.txt")
    assert report.diffstat == ("new.txt: +1 -0", "other.txt: +1 -0")
    assert (report.shared, report.not_in_diff) == ((), ())
    assert "Changed: new.txt, other.txt." in report.summary
    assert changed_lines(bench.engine.diff("t1")) == ["+new", "+by-command"]
    kept = json.loads(Folder(bench.repo).reports.read_text().splitlines()[-1])
    assert kept["files_changed"] == ["new.txt", "other.txt"]


async def test_a_file_that_a_person_changed_as_well_is_shared(any_bench: Bench) -> None:
    bench = any_bench
    report = await bench.run(
        edit("a.txt", "line 3\n", "LINE 3\n"),
        lambda: mine(bench, "a.txt", "line 12\n", "mine\n"),
        shell("chmod +x a.txt; sed -i 's/line 9$/LINE 9/' a.txt"),
        lambda: bench.put("notes.md", "mine\n"),
        write("new.txt", "new\n"),
    )
    diff = bench.engine.diff("t1")
    assert changed_lines(diff) == [
        *("-line 3", "+LINE 3", "-line 9", "+LINE 9", "-line 12", "+mine", "+new"),
    ]
    assert (report.files_changed, report.shared) == (("a.txt", "new.txt"), ("a.txt",))
    assert (
        "Also changed by somebody else meanwhile, which the diff cannot tell apart: a.txt." in report.summary
    )
    changed = bench.text("a.txt")
    bench.put("a.txt", LINES)
    (bench.repo / "a.txt").chmod(0o644)
    (bench.repo / "new.txt").unlink()
    bench.apply(diff)
    assert bench.text("a.txt") == changed


async def test_a_file_in_place_of_a_folder(bench: Bench) -> None:
    bench.put("place/old.txt", "old\n")

    def edits() -> None:
        (bench.repo / "place/old.txt").unlink()
        (bench.repo / "place").rmdir()
        bench.put("a", "mine\n")

    report = await bench.run(edits, shell("echo ours > place; rm a; mkdir a; echo ours > a/b"))
    assert {"place", "a/b"} <= set(report.files_changed)
    assert "+ours" in changed_lines(bench.engine.diff("t1"))


async def test_a_running_task_shows_its_own_changes(bench: Bench) -> None:
    seen: list[bytes] = []

    def look() -> None:
        seen.append(bench.engine.diff("t1"))

    await bench.run(
        write("new.txt", "new\n"),
        lambda: bench.put("notes.md", "mine\n"),
        look,
        shell("echo ours >> new.txt"),
        look,
    )
    assert [changed_lines(one) for one in seen] == [["+new"], ["+new", "+ours"]]


async def test_the_checks_judge_the_tree_as_it_is(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, steps("grep -q mine notes.md"))
    report = await bench.run(write("new.txt", "new\n"), lambda: bench.put("notes.md", "mine\n"))
    bench.engine.store.close()
    assert (report.state, report.verified, report.files_changed) == ("SUCCESS", True, ("new.txt",))
