"""Finding the repository, and what else the options share."""

import subprocess
from pathlib import Path

import pytest

from headgate.cli.shared import find_repo, flow_argument
from headgate.errors import ConfigError


def git(*args: str, cwd: Path) -> None:
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *args],
        cwd=cwd,
        check=True,
        capture_output=True,
    )


def failure(directory: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        find_repo(directory)
    return str(caught.value)


def test_the_root_from_below_and_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = tmp_path / "repo"
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    git("init", "-q", cwd=repo)
    (tmp_path / "link").symlink_to(deep)
    monkeypatch.chdir(deep)
    assert [find_repo(), find_repo(repo), find_repo(tmp_path / "link")] == [repo, repo, repo]


def test_a_worktree_is_a_repository(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git("init", "-q", cwd=repo)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=repo)
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=repo)
    assert find_repo(tmp_path / "tree") == tmp_path / "tree"


def test_what_is_no_repository(tmp_path: Path) -> None:
    git("init", "-q", "--bare", "bare.git", cwd=tmp_path)
    git("init", "-q", "repo", cwd=tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "odd" / ".git").mkdir(parents=True)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    outside = f'{tmp_path / "odd"} is not in a git repository: run "git init" there, or name one with --repo.'
    assert failure(tmp_path / "odd") == outside
    assert failure(tmp_path / "absent") == f"{tmp_path / 'absent'} does not exist."
    assert failure(tmp_path / "file").startswith(f"{tmp_path / 'file'} is not a directory")
    assert failure(tmp_path / "bare.git" / "refs").startswith(f"{tmp_path / 'bare.git'} is a bare repository")
    assert failure(tmp_path / "repo" / ".git" / "refs").startswith(f"{tmp_path / 'repo' / '.git'} is a bare")
    assert failure(tmp_path / "loop").startswith(f"{tmp_path / 'loop'} cannot be opened: ")


def test_a_flow_file_is_named_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    found = [flow_argument(value) for value in ("my.yaml", "./my.yaml", "other.yaml", "staged", None)]
    assert found == [str(tmp_path / "my.yaml"), str(tmp_path / "my.yaml"), "other.yaml", "staged", None]
