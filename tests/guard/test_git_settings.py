"""Hooks and settings that a user's next git command would run are put back, wherever they are."""

import subprocess
from pathlib import Path

import pytest

from headgate.guard import ProtectedTree
from headgate.tree import Snapshots

_WHO = "-c user.name=T -c user.email=t@localhost -c commit.gpgsign=false -c protocol.file.allow=always"


def sh(place: Path, command: str) -> None:
    subprocess.run(["sh", "-euc", command], cwd=place, check=True, capture_output=True)


def picture(place: Path) -> dict[str, object]:
    """Every file and link below a folder, but for what commands may change in git's folders."""
    return {
        str(path.relative_to(place)): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in sorted(place.rglob("*"))
        if (path.is_symlink() or path.is_file()) and path.name not in ("HEAD", "description")
    }


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    (tmp_path / "home").mkdir()
    repo = tmp_path / "repo"
    repo.mkdir()
    sh(repo, f"git init -q -b main; echo a > a; git add a; git {_WHO} commit -qm start")
    return repo


def protection(repo: Path) -> ProtectedTree:
    return ProtectedTree(Snapshots(repo), [], repo.parent / "a/b/kept")


@pytest.mark.parametrize(
    "attack",
    [
        "printf '#!/bin/sh' > .git/hooks/pre-commit",
        "rm -r .git/hooks; ln -s ../evil .git/hooks",
        "git config core.fsmonitor ./evil",
        "git config core.hooksPath evil",
        "mkdir -p evil/hooks; echo ../evil > .git/commondir",
        "printf '[core]\\n\\tfsmonitor = ./evil\\n' > .git/config.worktree",
        "rm .git/config; ln -s ../evil .git/config",
        "rm .git/config; mkfifo .git/config",
        "chmod -x .git/hooks/*.sample; echo '*' >> .git/info/exclude",
        "echo '* filter=x' > .git/info/attributes",
        "printf '[core]\\n\\tfsmonitor = ./evil\\n' >> shared.gitconfig",
        "printf '[core]\\n\\tfsmonitor = ./evil\\n' > later.gitconfig",
        "printf '[core]\\n\\tfsmonitor = ./evil\\n' > other.gitconfig",
        "printf '#!/bin/sh' > .husky/pre-commit",
        "printf '#!/bin/sh' > .husky/_/h",
        "rm -r .husky; ln -s evil .husky",
    ],
)
def test_what_a_command_does_to_them_is_undone(repo: Path, tmp_path: Path, attack: str) -> None:
    sh(repo, "mkdir -p .husky/_; echo true > .husky/_/h; echo true > .husky/pre-push")
    sh(
        repo,
        "printf '[alias]\\n\\tx = log\\n' > shared.gitconfig; git config include.path ../shared.gitconfig",
    )
    sh(repo, "git config core.hooksPath .husky/_")
    sh(repo, "git config --add include.path ../later.gitconfig")
    sh(repo, "git config includeIf.onbranch:main.path ../other.gitconfig")
    before = picture(repo)
    protected = protection(repo)
    protected.begin()
    sh(repo, attack)
    assert [one for one in protected.check_and_restore() if not one.problem]
    after = picture(repo)
    assert {path: after.get(path) for path in before} == before
    new = [path for path in after if path not in before]
    assert not any("hook" in path or "config" in path or "commondir" in path for path in new)


def test_a_killed_process_s_successor_restores_them(repo: Path, tmp_path: Path) -> None:
    sh(repo, "mkdir .husky; echo true > .husky/pre-push; git config core.hooksPath .husky")
    protection(repo).begin()
    sh(repo, "git config core.hooksPath elsewhere; echo evil > .husky/pre-push")
    told = [one.path for one in protection(repo).check_and_restore()]
    assert told == [".git/config", ".husky/pre-push"]
    assert (repo / ".husky" / "pre-push").read_text() == "true\n"


def test_a_worktree_has_settings_of_its_own(repo: Path, tmp_path: Path) -> None:
    sh(repo, "git worktree add -q ../tree; git config extensions.worktreeConfig true")
    tree = tmp_path / "tree"
    protected = protection(tree)
    protected.begin()
    sh(
        tree,
        "git config --worktree core.fsmonitor ./evil; echo /evil > ../repo/.git/worktrees/tree/commondir",
    )
    told = {one.path for one in protected.check_and_restore() if not one.problem}
    assert {path.rpartition("/")[2] for path in told} == {"config.worktree", "commondir"}
    sh(tree, "git status; echo 'gitdir: /elsewhere' > .git")
    assert [one.path for one in protected.check_and_restore()] == [".git"]
    assert not (repo / ".git" / "worktrees" / "tree" / "config.worktree").exists()
