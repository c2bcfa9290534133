"""Writes that were cut short are taken back as a whole or stand as a whole, and leave nothing behind."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from killed_writes import AFTER, BEFORE

from headgate.core import FileHashes
from headgate.tree import settle_writes
from headgate.tree.writes import remove_temporaries, undo_half_written

KEPT = ".headgate-tmp-0123456789abcdef"
OTHER = ".headgate-tmp-fedcba9876543210"


def change(path: str, before: str | None, after: str | None) -> FileHashes:
    def hashed(text: str | None) -> str | None:
        return None if text is None else sha256(text.encode()).hexdigest()

    return FileHashes(path=path, before=hashed(before), after=hashed(after))


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name).write_text(text)


def tree(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_killed_at_every_operation_of_a_write(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_writes.py")
    done = subprocess.run([sys.executable, script, tmp_path], stdout=subprocess.PIPE, check=True)
    seen = json.loads(done.stdout)
    for number, (found, settled) in enumerate(seen, 1):
        plain = {name: text for name, text in found.items() if ".headgate-tmp-" not in name}
        assert all(text in (BEFORE.get(name), AFTER.get(name)) for name, text in plain.items()), number
        assert settled in (BEFORE, AFTER), f"killed at {number}: {found}"
    mixed = [
        found for found, _ in seen if not (BEFORE.items() <= found.items() or AFTER.items() <= found.items())
    ]
    assert len(seen) > 30
    assert len(mixed) > 5
    assert (seen[0][1], seen[-1][1]) == (BEFORE, AFTER)


@pytest.mark.parametrize("files", [{"a": "old", "b": "old"}, {"a": "new", "b": "new"}])
def test_all_before_or_all_after_is_left_as_it_is(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, **files, **{KEPT: "old"})
    changes = [change("a", "old", "new"), change("b", "old", "new"), change("same", "x", "x")]
    assert not undo_half_written(tmp_path, changes)
    settle_writes(tmp_path, [changes])
    assert tree(tmp_path) == files


def test_what_somebody_else_changed_meanwhile_is_not_touched(tmp_path: Path) -> None:
    write(tmp_path, a="new", b="mine", **{KEPT: "old"})
    assert not undo_half_written(tmp_path, [change("a", "old", "new"), change("b", "old", "new")])
    assert tree(tmp_path) == {"a": "new", "b": "mine", KEPT: "old"}


def test_without_the_old_content_nothing_is_undone(tmp_path: Path) -> None:
    write(tmp_path, a="new", b="old", **{KEPT: "something else"})
    changes = [change("a", "old", "new"), change("b", "old", "new"), change("c", None, "new")]
    assert not undo_half_written(tmp_path, changes)
    assert tree(tmp_path) == {"a": "new", "b": "old", KEPT: "something else"}


def test_a_directory_that_is_a_link_by_now_is_not_followed(tmp_path: Path) -> None:
    repo, outside = tmp_path / "repo", tmp_path / "outside"
    repo.mkdir()
    outside.mkdir()
    write(outside, a="new", **{KEPT: "old"})
    write(repo, b="old")
    (repo / "sub").symlink_to(outside)
    settle_writes(repo, [[change("sub/a", "old", "new"), change("b", "old", "new")]])
    assert tree(outside) == {"a": "new", KEPT: "old"}


def test_temporaries_are_removed_and_nothing_else(tmp_path: Path) -> None:
    """Not what only looks alike, and nothing of a repository inside this one that Headgate works in."""
    for folder in (
        "sub/deep",
        ".git/objects",
        ".headgate/runs/x",
        f"sub/{OTHER}/new",
        "inner/.headgate",
        "inner/sub",
    ):
        (tmp_path / folder).mkdir(parents=True)
    removed = (
        KEPT,
        f"sub/deep/{KEPT}",
        f".git/{KEPT}",
        f".headgate/runs/x/{KEPT}",
        f"sub/{OTHER}/new/{KEPT}",
    )
    kept = (
        ".headgate-tmp-",
        f"{KEPT}.txt",
        ".headgate-tmp-0123",
        "plain",
        f"inner/{KEPT}",
        f"inner/sub/{KEPT}",
    )
    for name in (*removed, *kept):
        (tmp_path / name).write_text("x")
    (tmp_path / "sub" / KEPT).symlink_to("/nowhere")
    assert remove_temporaries(tmp_path) == len(removed) + 1
    assert set(tree(tmp_path)) == set(kept)
    assert not (tmp_path / "sub" / OTHER).exists()
    assert remove_temporaries(tmp_path) == 0
