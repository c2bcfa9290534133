"""What a task has changed is found out whatever lies in the tree by then."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from headgate.engine.bring_in import taken_back
from headgate.engine.tree import TaskTree
from headgate.reading import read_git_diff
from headgate.tree import (
    DiskWorkspace,
    FileChange,
    ProposedChange,
    Snapshots,
    decode_changes,
    encode_changes,
    git,
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for name in ("pipe", "link", "file"):
        (tmp_path / name).write_text("old\n")
    (tmp_path / "file").chmod(0o640)
    return tmp_path


async def test_neither_a_pipe_nor_a_device_keeps_a_task_from_its_end(repo: Path) -> None:
    old = sha256(b"old\n").hexdigest()
    tree = TaskTree(Snapshots(repo), lambda: dict.fromkeys(("file", "link", "pipe"), old))
    await tree.begin()
    for name in ("pipe", "link"):
        (repo / name).unlink()
    os.mkfifo(repo / "pipe")
    (repo / "link").symlink_to("/dev/zero")
    assert [tree.hash_of(name) for name in ("file", "link", "pipe", "gone")] == [old, None, None, None]
    assert (await tree.final_changes()).files == ("link", "pipe")


def test_what_is_taken_back_has_its_mode_again(repo: Path) -> None:
    disk = DiskWorkspace(repo)
    (repo / "pipe").chmod(0o750)
    changes = decode_changes(
        encode_changes(
            [
                ProposedChange("file", b"old\n", b"old\n", 0o755, 0o640),
                ProposedChange("link", b"old\n", None, None, 0o644),
                ProposedChange("new", None, b"new\n", 0o755, None),
                ProposedChange("pipe", b"old\n", b"new\n", 0o600, 0o750),
            ]
        )
    )
    disk.apply(changes)
    disk.apply(list(map(taken_back, changes)))
    modes = {path.name: path.stat().st_mode & 0o777 for path in repo.iterdir() if path.is_file()}
    assert modes == {"file": 0o640, "link": 0o644, "pipe": 0o750}


async def test_the_way_back_leads_to_the_start(repo: Path) -> None:
    tree = TaskTree(Snapshots(repo), dict)
    (repo / "pipe").chmod(0o755)
    await tree.begin()
    (repo / "pipe").write_text("new\n")
    (repo / "link").unlink()
    (repo / "made").write_text("new\n")
    back = await tree.diff_to_start()
    assert back == (
        FileChange("link", None, b"old\n", 0o644),
        FileChange("made", None, None),
        FileChange("pipe", None, b"old\n", 0o755),
    )
    (repo / "link").symlink_to("file")
    assert await tree.diff_to_start() is None


async def test_the_diff_has_both_sides_of_what_was_changed(repo: Path) -> None:
    tree = TaskTree(Snapshots(repo), dict)
    await tree.begin()
    (repo / "file").write_text("new\n")
    (repo / "made").write_text("new\n")
    (repo / "pipe").write_bytes(b"\0")
    await tree.settle()
    found = await tree.own_diff()
    assert found.versions == {"file": ("old\n", "new\n")}
    assert found.known == {"file", "link", "made", "pipe"}
    assert [file.path for file in read_git_diff(found.text)] == ["file", "made", "pipe"]
