"""What a snapshot keeps of a tree to which a command has added very many files."""

import os
import subprocess
import time
from pathlib import Path

from headgate.tree import FEWEST, MOST_NEW, Snapshots


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


def test_what_is_kept_of_a_large_tree_changes_nothing(tmp_path: Path) -> None:
    def git(*args: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *args], check=True, capture_output=True)

    git("init", "-q")
    for number in range(FEWEST + 100):
        place = tmp_path / f"part {number % 10}"
        place.mkdir(exist_ok=True)
        (place / f"{number}.txt").write_text(f"{number}")
    (tmp_path / "part 8/8.txt").chmod(0o4755)  # it had this at the start of each task: it stays
    git("add", "-A")
    (tmp_path / "new.txt").write_text("untracked")
    (tmp_path / ".gitignore").write_text("*.log")
    time.sleep(2.2)
    before = Snapshots(tmp_path).take()
    kept = tmp_path / ".git/headgate/files.json"
    assert kept.is_file()
    status = (tmp_path / "part 1/1.txt").stat()
    (tmp_path / "part 1/1.txt").write_text("I")
    os.utime(tmp_path / "part 1/1.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "part 2/2.txt").unlink()
    (tmp_path / "part 3/new.txt").write_text("new")
    (tmp_path / "part 4").rename(tmp_path / "moved")
    (tmp_path / "part 5/5.txt").chmod(0o755)
    git("rm", "-q", "--cached", "part 6/6.txt")
    (tmp_path / ".gitignore").write_text("*.log\n/part 6/6.txt\n")
    hidden = {"part 7/7.txt"}
    told = kept.read_bytes()
    anew = []
    for data in (told, b"", told[:-1], b"[]", told.replace(b'"100644"', b"1")):
        kept.write_bytes(data)
        snapshots = Snapshots(tmp_path, hidden.__contains__)
        anew.append((snapshots.take(), snapshots.marked))
        (tmp_path / "part 8/8.txt").chmod(0o4755)
        assert (snapshots.take(), snapshots.stripped) == (anew[-1][0], set())
    assert set(anew) == {(anew[1][0], frozenset(hidden))}
    changed = snapshots.changed_files(before, anew[0][0])
    assert [path for path in changed if not path.startswith(("moved/", "part 4/"))] == [
        *(".gitignore", "part 1/1.txt", "part 2/2.txt", "part 3/new.txt"),
        *("part 5/5.txt", "part 6/6.txt", "part 7/7.txt"),
    ]
