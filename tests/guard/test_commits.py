"""Commits that change protected files are named, and stay. Real repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from headgate.guard import CommitWatch, Rule

IDENTITY = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
COMMIT = f"git {' '.join(IDENTITY)} commit -q"
RULE = Rule("kept", "it is protected", lambda path: path.startswith("kept/"))


def sh(repo: Path, script: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=repo,
        check=True,
        capture_output=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**clean, "GIT_EDITOR": "true"},
    )
    return done.stdout.decode().strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    (repo / "kept").mkdir(parents=True)
    (repo / "kept" / "a").write_text("a\n")
    (repo / "free").write_text("free\n")
    sh(repo, f"git init -q -b main; git add -A; {COMMIT} -m start")
    return repo


def run(repo: Path, script: str, rule: Rule = RULE) -> list[str]:
    """What is said about the commits of a command."""
    watch = CommitWatch(repo, [rule])
    watch.begin()
    sh(repo, script)
    kept = repo / "kept" / "a"  # as protected files are put back
    kept.parent.mkdir(exist_ok=True)
    kept.unlink(missing_ok=True)
    kept.write_text("a\n")
    return [one.sentence() for one in watch.check()]


def head(repo: Path) -> str:
    return sh(repo, "git rev-parse HEAD")


CHANGE = "echo x > kept/a; echo new > free; git add -A"
WAYS = {
    "commit": f"{CHANGE}; {COMMIT} -m x",
    "amend": f"{CHANGE}; {COMMIT} --amend -m x",
    "renamed": f"git mv kept/a b; echo new > free; git add -A; {COMMIT} -m x",
    "link": f"ln -sf ../free kept/a; echo new > free; git add -A; {COMMIT} -m x",
    "nested": f"git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),kept/sub; echo new > free;"
    f" git add free; {COMMIT} -m x",
    "merge": f"git checkout -q -b side; {CHANGE}; {COMMIT} -m x; git checkout -q main;"
    f" git {' '.join(IDENTITY)} merge -q --no-ff -m m side",
    "replaced": f"{CHANGE}; {COMMIT} -m x; git replace HEAD HEAD~1",
    "hidden by attributes": f"echo '* -diff' > .gitattributes; {CHANGE}; {COMMIT} -m x",
    "ignored submodules": f"printf '[submodule \"s\"]\\npath=kept/sub\\nurl=x\\nignore=all\\n' > .gitmodules;"
    f" git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),kept/sub; echo new > free;"
    f" git add free .gitmodules; {COMMIT} -m x",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_commit_is_named_and_stays(repo: Path, way: str) -> None:
    before = head(repo)
    said = run(repo, WAYS[way])
    after = head(repo)
    assert after != before
    assert len(said) == 1
    assert said[0].startswith(
        f"Commit {after[:10]} changes protected files, compared with {before[:10]}: kept"
    )
    assert said[0].endswith(
        " (it is protected). Headgate does not change commits: look at it before you push."
    )


def test_in_a_worktree(repo: Path, tmp_path: Path) -> None:
    sh(repo, "git worktree add -q ../other -b other")
    assert len(run(tmp_path / "other", f"{CHANGE}; {COMMIT} -m x")) == 1


@pytest.mark.parametrize("format", ["sha1", "sha256"])
def test_the_first_commit(tmp_path: Path, format: str) -> None:
    repo = tmp_path / "repo"
    (repo / "kept").mkdir(parents=True)
    (repo / "kept" / "a").write_text("a\n")
    sh(repo, f"git init -q -b main --object-format={format}")
    (said,) = run(repo, f"echo x > kept/a; git add -A; {COMMIT} -m x; echo a > kept/a")
    assert said.startswith(f"Commit {head(repo)[:10]} changes protected files: kept/a ")


def test_other_files_may_be_committed(repo: Path) -> None:
    assert run(repo, f"echo new > free; {COMMIT} -am x") == []


def test_what_a_person_had_changed_before_may_be_committed(repo: Path) -> None:
    (repo / "kept" / "a").write_text("mine\n")
    (repo / "kept" / "b").write_text("mine\r\n")
    (repo / "kept" / "c").symlink_to("a")
    watch = CommitWatch(repo, [RULE])
    watch.begin()
    sh(repo, f"git -c core.autocrlf=input add -A; {COMMIT} -am x; rm kept/a; {COMMIT} -am y")
    assert watch.check() == ()


def test_the_free_part_of_a_file_may_be_committed(repo: Path) -> None:
    def allows(path: str, before: bytes | None, after: bytes) -> bool:
        return b"x" not in after

    rule = Rule("kept", "it is protected", lambda path: path == "free", allows=allows)
    assert run(repo, f"echo newer > free; {COMMIT} -am x; echo free > free", rule) == []
    assert len(run(repo, f"echo x > free; {COMMIT} -am x; echo free > free", rule)) == 1


def test_what_a_person_commits_between_two_commands(repo: Path) -> None:
    watch = CommitWatch(repo, [RULE])
    watch.begin()
    assert watch.check() == ()
    sh(repo, f"echo mine > kept/a; {COMMIT} -am mine; echo other > kept/a")
    watch.begin()
    assert watch.check() == ()


def test_a_broken_repository_is_no_error(repo: Path) -> None:
    assert run(repo, "rm .git/HEAD; mkfifo .git/HEAD") == []
