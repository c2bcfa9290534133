"""Snapshots: they see everything that matters and touch nothing of the user's."""

import os
import subprocess
from pathlib import Path

import pytest

from headgate.tree import GitFailed, Snapshots, exclude_internal, git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / 'a repo: with "odd" name'
    path.mkdir()
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    exclude_internal(path)
    (path / ".headgate").mkdir()
    return path


def commit(repo: Path) -> None:
    who = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    git(repo, "add", "-A")
    git(repo, *who, "commit", "-q", "-m", "x")


def test_a_snapshot_sees_untracked_modified_and_deleted_files(repo: Path) -> None:
    for name in ("kept", "modified", "deleted"):
        (repo / name).write_text(name)
    commit(repo)
    (repo / ".gitignore").write_text("ignored\n")
    before = Snapshots(repo).take()
    (repo / "modified").write_text("new")
    (repo / "deleted").unlink()
    (repo / "untracked").write_text("x")
    (repo / "ignored").write_text("x")
    (repo / ".headgate" / "headgate.db").write_text("x")
    snapshots = Snapshots(repo)
    after = snapshots.take()
    assert snapshots.changed_files(before, after) == ("deleted", "modified", "untracked")
    assert snapshots.take() == after


def test_nothing_of_the_user_s_changes(repo: Path) -> None:
    (repo / "a").write_text("a")
    commit(repo)
    (repo / "a").write_text("staged")
    git(repo, "add", "a")
    (repo / "b").write_text("untracked")

    def of_git() -> dict[Path, bytes]:
        ours = repo / ".git" / "headgate"
        found = [path for path in (repo / ".git").rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in found if not path.is_relative_to(ours)}

    before = of_git()
    status = git(repo, "status", "--porcelain=v2")
    Snapshots(repo).take()
    assert of_git() == before
    assert git(repo, "status", "--porcelain=v2") == status


def test_a_repository_without_commits(repo: Path) -> None:
    snapshots = Snapshots(repo)
    empty = snapshots.take()
    (repo / "a").write_text("a")
    assert snapshots.changed_files(empty, snapshots.take()) == ("a",)


def test_odd_names_survive(repo: Path) -> None:
    snapshots = Snapshots(repo)
    empty = snapshots.take()
    names = ["with space", 'quote"', "line\nbreak", os.fsdecode(b"latin-\xe9"), "*", ":(top)x"]
    for name in names:
        (repo / name).write_text("x")
    assert sorted(snapshots.changed_files(empty, snapshots.take())) == sorted(names)


def test_a_nested_repository_without_commits_does_not_stop_it(repo: Path) -> None:
    (repo / "gone").write_text("x")
    snapshots = Snapshots(repo)
    subprocess.run(["git", "init", "-q", str(repo / "nested")], check=True)
    before = snapshots.take()
    (repo / "nested" / "file").write_text("x")
    (repo / "a").write_text("a")
    (repo / "gone").unlink()
    assert snapshots.changed_files(before, snapshots.take()) == ("a", "gone")


def test_a_gitignore_cannot_bring_our_own_folder_in(repo: Path) -> None:
    (repo / ".gitignore").write_text("!.headgate\n!.headgate/**\n")
    snapshots = Snapshots(repo)
    before = snapshots.take()
    (repo / ".headgate" / "x").write_text("x")
    assert snapshots.changed_files(before, snapshots.take()) == ()


def test_the_repository_s_configuration_runs_nothing(repo: Path) -> None:
    mark = repo.parent / "ran"
    hook = repo.parent / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch '{mark}'\n")
    hook.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(hook))
    (repo / "a").write_text("a")
    Snapshots(repo).take()
    assert not mark.exists()


def test_variables_of_a_surrounding_git_do_not_count(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent")
    (repo / "a").write_text("a")
    assert Snapshots(repo).take()


def test_excluding_is_done_once_and_keeps_what_is_there(repo: Path) -> None:
    path = repo / ".git" / "info" / "exclude"
    path.write_text("mine")
    exclude_internal(repo)
    exclude_internal(repo)
    assert path.read_text() == "mine\n/.headgate/*\n!/.headgate/commands/\n"


def test_what_an_earlier_version_excluded_is_replaced(repo: Path) -> None:
    path = repo / ".git" / "info" / "exclude"
    path.write_bytes(b"a\xff\n/.headgate/\nb\x0cc\n")
    exclude_internal(repo)
    assert path.read_bytes() == b"a\xff\nb\x0cc\n/.headgate/*\n!/.headgate/commands/\n"


def test_of_headgates_folder_git_sees_the_commands_alone(repo: Path) -> None:
    exclude_internal(repo)
    for name in ("headgate.db", "runs/r1/combined.log", "commands/review.md"):
        (repo / ".headgate" / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / ".headgate" / name).write_text("x")
    shown = git(repo, "status", "--porcelain", "-uall").decode().splitlines()
    assert [line for line in shown if "headgate" in line] == ["?? .headgate/commands/review.md"]


def test_a_failure_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match=r"^git rev-parse failed: fatal: not a git repository"):
        git(tmp_path, "rev-parse", "HEAD")
