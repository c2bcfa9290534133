"""Files of which only a part is protected: what a command changes elsewhere in them stays."""

import subprocess
from pathlib import Path

import pytest

from headgate.guard import ProtectedTree, Restored, Rule
from headgate.tree import Snapshots

WHY = "its first line is protected"


def first_line_is_kept(path: str, before: bytes | None, after: bytes) -> bool:
    return path != "none" and (before or b"a\n").split(b"\n")[0] == after.split(b"\n")[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name in ("one", "two"):
        (root / name).write_text("a\nb\n")
    return root


def protection(root: Path) -> ProtectedTree:
    names = ("one", "two", "new", "none")
    rule = Rule("parts", WHY, names.__contains__, allows=first_line_is_kept)
    return ProtectedTree(Snapshots(root), [rule], root / ".git/headgate/protected/t1")


def during(files: ProtectedTree, root: Path, command: str) -> tuple[Restored, ...]:
    files.begin()
    subprocess.run(["sh", "-c", command], cwd=root, check=True)
    return files.check_and_restore()


def test_a_change_elsewhere_stays(root: Path) -> None:
    files = protection(root)
    assert during(files, root, "echo c >> one; printf 'x\\nb\\n' > two") == (Restored("two", "changed", WHY),)
    assert (root / "one").read_text() == "a\nb\nc\n"
    assert (root / "two").read_text() == "a\nb\n"


def test_what_stayed_is_what_is_put_back_later(root: Path) -> None:
    files = protection(root)
    assert during(files, root, "echo c >> one") == ()
    (root / "one").write_text("lost\n")
    assert files.check_and_restore() == (Restored("one", "changed", WHY, between=True),)
    assert during(files, root, "rm one") == (Restored("one", "deleted", WHY),)
    assert (root / "one").read_text() == "a\nb\nc\n"


def test_what_stayed_survives_a_crash(root: Path) -> None:
    files = protection(root)
    during(files, root, "echo c >> one")
    files.begin()
    (root / "one").write_text("lost\n")
    assert protection(root).begin() == (Restored("one", "changed", WHY),)
    assert (root / "one").read_text() == "a\nb\nc\n"


def test_new_files(root: Path) -> None:
    files = protection(root)
    assert during(files, root, "echo a > new; echo a > none") == (Restored("none", "created", WHY),)
    assert (root / "new").read_text() == "a\n"
    assert files.check_and_restore() == ()
    assert during(files, root, "echo x > new") == (Restored("new", "changed", WHY),)
    assert (root / "new").read_text() == "a\n"


@pytest.mark.parametrize("command", ["chmod 000 one", "ln -sf two one", "chmod 755 one; echo c >> one"])
def test_only_content_is_a_matter_of_parts(root: Path, command: str) -> None:
    assert during(protection(root), root, command) == (Restored("one", "changed", WHY),)
    assert (root / "one").read_text() == "a\nb\n"
    assert not (root / "one").is_symlink()


def test_a_file_that_may_go_stays_away(root: Path) -> None:
    (root / "one").write_text("\nb\n")
    files = protection(root)
    assert during(files, root, "rm one two") == (Restored("two", "deleted", WHY),)
    assert files.begin() == files.check_and_restore() == ()
    assert not (root / "one").exists()
