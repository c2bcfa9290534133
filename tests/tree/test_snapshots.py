"""What a snapshot keeps of a tree to which a command has added very many files."""

import subprocess
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
