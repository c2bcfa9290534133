"""What a snapshot keeps of a tree to which a command has added very many files."""

import os
import subprocess
import time
from pathlib import Path

from headgate.tree import MOST_NEW, Snapshots


def test_of_very_many_new_files_only_marks_are_kept(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    snapshots = Snapshots(tmp_path)
    snapshots.take()
    for number in range(MOST_NEW + 5):
        (tmp_path / f"{number}.txt").write_text("x")
    crowded = snapshots.take()
    marked = snapshots.marked
    assert (len(marked), snapshots.take(), snapshots.marked) == (5, crowded, marked)
    (tmp_path / min(marked)).write_text("yes")
    assert snapshots.changed_files(crowded, snapshots.take()) == (min(marked),)


def test_every_change_shows_in_a_tree_that_was_at_rest(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    kept = tmp_path / "src" / "deep"
    kept.mkdir(parents=True)
    for name in ("same size", "mode", "gone", "moved"):
        (kept / name).write_text("1")
    (tmp_path / "top").write_text("1")
    time.sleep(2.2)  # from now on the times of these files tell whether they have changed
    snapshots = Snapshots(tmp_path)
    before = snapshots.take()
    assert snapshots.take() == before
    status = (kept / "same size").stat()
    (kept / "same size").write_text("2")
    os.utime(kept / "same size", ns=(status.st_atime_ns, status.st_mtime_ns))
    (kept / "mode").chmod(0o755)
    (kept / "gone").unlink()
    (kept / "moved").rename(tmp_path / "src" / "moved")
    (tmp_path / "src" / "new").write_text("1")
    changed = (
        "src/deep/gone",
        "src/deep/mode",
        "src/deep/moved",
        "src/deep/same size",
        "src/moved",
        "src/new",
    )
    after = snapshots.take()
    assert snapshots.changed_files(before, after) == changed
    with Snapshots.apart(tmp_path) as anew:
        assert anew.take() == after
