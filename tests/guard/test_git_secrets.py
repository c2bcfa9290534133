"""Secrets that git keeps: in HEAD, in the index, in stashes."""

import subprocess
from pathlib import Path

from headgate.guard import committed_secrets


def git(repo: Path, *words: str) -> None:
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *identity, "-C", str(repo), *words], check=True, capture_output=True)


def values(repo: Path) -> list[str]:
    return sorted({secret.value for secret in committed_secrets(repo)})


def test_head_index_and_stashes(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert values(tmp_path) == []
    (tmp_path / "app").mkdir()
    secret = tmp_path / "app" / ".env"
    secret.write_text("TOKEN=value-of-head-1\n")
    (tmp_path / "a.txt").write_text("TOKEN=no-secret-file-1\n")
    (tmp_path / "big.pem").write_text("x" * 300_000)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    for number in (1, 2):
        secret.write_text(f"TOKEN=value-of-stash-{number}\n")
        (tmp_path / "new.env").write_text(f"TOKEN=untracked-in-stash-{number}\n")
        git(tmp_path, "stash", "-u")
    (tmp_path / "staged.env").write_text("TOKEN=value-of-index-1\n")
    git(tmp_path, "add", "-A")
    (tmp_path / "staged.env").unlink()
    assert values(tmp_path) == [
        *("untracked-in-stash-1", "untracked-in-stash-2", "value-of-head-1", "value-of-index-1"),
        *("value-of-stash-1", "value-of-stash-2"),
    ]


def test_where_there_is_no_repository(tmp_path: Path) -> None:
    assert values(tmp_path) == []
