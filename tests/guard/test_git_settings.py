"""Hooks and settings that a user's next git command would run are put back, wherever they are."""

import subprocess
from pathlib import Path

import pytest

from headgate.guard import protect_git

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


def with_submodule(repo: Path) -> None:
    sh(repo, f"git init -q ../lib; cd ../lib; echo x > x; git add x; git {_WHO} commit -qm start")
    sh(repo, f"git {_WHO} submodule add -q ../lib libs/logs; git {_WHO} commit -qm sub")


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
        "echo '* filter=x' > .git/info/attributes",
        "git -C libs/logs config core.fsmonitor ./evil",
        "printf '#!/bin/sh' > .git/modules/libs/logs/hooks/post-checkout",
        "echo evil > .git/modules/libs/logs/commondir",
        "echo 'gitdir: ../../evil' > libs/logs/.git",
        "rm libs/logs/.git; git init -q libs/logs; git -C libs/logs config core.fsmonitor ./evil",
        "git -C old config filter.x.clean ./evil",
        "printf '#!/bin/sh' > old/.git/hooks/pre-commit",
        "rm -r old/.git; ln -s ../evil old/.git",
        "printf '[core]\\n\\tfsmonitor = ./evil\\n' >> shared.gitconfig",
        "git config --global core.fsmonitor ./evil",
        "git config --global core.hooksPath /evil",
        "printf '#!/bin/sh' > .husky/pre-commit",
        "printf '#!/bin/sh' > .husky/_/h",
        "rm -r .husky; ln -s evil .husky",
    ],
)
def test_what_a_command_does_to_them_is_undone(repo: Path, tmp_path: Path, attack: str) -> None:
    with_submodule(repo)
    sh(repo, "git init -q old; mkdir -p .husky/_; echo true > .husky/_/h; echo true > .husky/pre-push")
    sh(
        repo,
        "printf '[alias]\\n\\tx = log\\n' > shared.gitconfig; git config include.path ../shared.gitconfig",
    )
    sh(repo, "git config core.hooksPath .husky/_")
    before, home = picture(repo), picture(tmp_path / "home")
    protected = protect_git(repo, tmp_path / "kept")
    protected.begin()
    sh(repo, attack)
    assert [one for one in protected.check_and_restore() if not one.problem]
    after = picture(repo)
    assert {path: after.get(path) for path in before} == before
    assert picture(tmp_path / "home") == home
    new = [path for path in after if path not in before]
    assert not any("hook" in path or "config" in path or "commondir" in path for path in new)
    protected.forget()
    assert not list((tmp_path / "kept").rglob("records.jsonl"))


def test_a_killed_process_s_successor_restores_them(repo: Path, tmp_path: Path) -> None:
    sh(repo, "mkdir .husky; echo true > .husky/pre-push; git config core.hooksPath .husky")
    protect_git(repo, tmp_path / "kept").begin()
    sh(repo, "git config core.hooksPath elsewhere; echo evil > .husky/pre-push")
    told = [one.path for one in protect_git(repo, tmp_path / "kept").check_and_restore()]
    assert told == [".git/config", ".husky/pre-push"]
    assert (repo / ".husky" / "pre-push").read_text() == "true\n"


def test_a_worktree_has_settings_of_its_own(repo: Path, tmp_path: Path) -> None:
    sh(repo, "git worktree add -q ../tree; git config extensions.worktreeConfig true")
    tree = tmp_path / "tree"
    protected = protect_git(tree, tmp_path / "kept")
    protected.begin()
    sh(
        tree,
        "git config --worktree core.fsmonitor ./evil; echo /evil > ../repo/.git/worktrees/tree/commondir",
    )
    told = {one.path for one in protected.check_and_restore() if not one.problem}
    assert {path.rpartition("/")[2] for path in told} == {"config.worktree", "commondir"}
    sh(tree, "git status")
    assert not (repo / ".git" / "worktrees" / "tree" / "config.worktree").exists()


def test_plain_repositories_within_the_repository_may_be_made(repo: Path, tmp_path: Path) -> None:
    protected = protect_git(repo, tmp_path / "kept")
    protected.begin()
    sh(
        repo,
        f"git init -q one; git clone -q . two; git worktree add -q three; git {_WHO} commit -qam x || true",
    )
    assert protected.check_and_restore() == ()
    sh(repo, "git -C one status; git -C two status; git -C three status")


@pytest.mark.parametrize(
    "config",
    [
        "[core] fsmonitor = x",
        "[core]\nbare = false\nFsMonitor = x",
        "[include]\npath = x",
        "[core]\nworktree = \\\nx",
    ],
)
def test_new_repositories_have_no_settings_that_run_programs(repo: Path, tmp_path: Path, config: str) -> None:
    protected = protect_git(repo, tmp_path / "kept")
    protected.begin()
    sh(repo, "git init -q evil")
    (repo / "evil" / ".git" / "config").write_text(config)
    assert [one.path for one in protected.check_and_restore()] == ["evil/.git/config"]
    assert not (repo / "evil" / ".git" / "config").exists()
