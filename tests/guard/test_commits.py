"""Commits that change protected files are undone after the command that made them. Real repositories."""

import os
import subprocess
from pathlib import Path

import pytest

from headgate.guard import CommitProtection, CommitRule, CommitsFound, ProtectedFiles, Protection, Restored

IDENTITY = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
COMMIT = f"git {' '.join(IDENTITY)} commit -q"
RULE = CommitRule(
    lambda path: path.startswith("kept/"), lambda directory: directory == "kept", "it is protected"
)


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


def protection(repo: Path, folder: Path) -> Protection:
    common = repo / sh(repo, "git rev-parse --git-common-dir")
    return Protection(
        [
            ProtectedFiles(
                repo, RULE.covers, enters=RULE.enters, folder=folder / "files", reason=RULE.reason
            ),
            CommitProtection(repo, common, [RULE], folder / "head.json"),
        ]
    )


def run(repo: Path, script: str) -> list[str]:
    """What is said about the commits of a command."""
    protected = protection(repo, repo.parent / "store")
    protected.begin()
    sh(repo, script)
    return told(protected.check_and_restore())


def told(restored: tuple[Restored, ...]) -> list[str]:
    return [one.sentence() for one in restored if isinstance(one, CommitsFound)]


def head(repo: Path) -> str:
    return sh(repo, "git rev-parse HEAD")


CHANGE = "echo x > kept/a; echo new > free; git add -A"
WAYS = {
    "commit": f"{CHANGE}; {COMMIT} -m x",
    "detached": f"git checkout -q --detach; {CHANGE}; {COMMIT} -m x; git checkout -q -B main",
    "plumbing": f"{CHANGE}; git update-ref HEAD $(git {' '.join(IDENTITY)} commit-tree -p HEAD -m x"
    " $(git write-tree))",
    "packed": f"{CHANGE}; {COMMIT} -m x; git pack-refs --all",
    "amend": f"{CHANGE}; {COMMIT} --amend -m x",
    "renamed": f"git mv kept/a b; echo new > free; git add -A; {COMMIT} -m x",
    "mode": f"git update-index --chmod=+x kept/a; echo new > free; git add free; {COMMIT} -m x",
    "link": f"ln -sf ../free kept/a; echo new > free; git add -A; {COMMIT} -m x",
    "nested": f"git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),kept/sub; echo new > free;"
    f" git add free; {COMMIT} -m x",
    "nested instead of the folder": f"git rm -rq --cached kept; git update-index --add --cacheinfo"
    f" 160000,$(git rev-parse HEAD),kept; echo new > free; git add free; {COMMIT} -m x",
    "merge": f"git checkout -q -b side; {CHANGE}; {COMMIT} -m x; git checkout -q main;"
    f" git {' '.join(IDENTITY)} merge -q --no-ff -m m side",
    "fast-forward": f"git checkout -q -b side; {CHANGE}; {COMMIT} -m x; git checkout -q main;"
    " git merge -q --ff-only side",
    "replaced": f"{CHANGE}; {COMMIT} -m x; git replace HEAD HEAD~1",
    "hidden by attributes": f"echo '* -diff' > .gitattributes; {CHANGE}; {COMMIT} -m x",
    "ignored submodules": f"printf '[submodule \"s\"]\\npath=kept/sub\\nurl=x\\nignore=all\\n' > .gitmodules;"
    f" git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),kept/sub; echo new > free;"
    f" git add free .gitmodules; {COMMIT} -m x",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_commits_are_undone_and_the_rest_stays(repo: Path, way: str) -> None:
    before = head(repo)
    said = run(repo, WAYS[way])
    assert len(said) == 1
    assert said[0].startswith("Undone: ")
    assert "(it is protected). Branch main is at " in said[0]
    assert head(repo) == before
    assert sh(repo, "git symbolic-ref HEAD") == "refs/heads/main"
    assert sh(repo, "git status --porcelain -- kept") == ""
    assert (repo / "free").read_text() == "new\n"
    assert sh(repo, "git diff --cached --name-only -- free") == "free"


class TestDetached:
    def test_it_is_undone(self, repo: Path) -> None:
        sh(repo, "git checkout -q --detach")
        before = head(repo)
        assert "HEAD is at " in run(repo, f"{CHANGE}; {COMMIT} -m x")[0]
        assert (head(repo), sh(repo, "git branch --show-current")) == (before, "")
        assert sh(repo, "git rev-parse main") == before


class TestWorktree:
    def test_it_is_undone_there_alone(self, repo: Path, tmp_path: Path) -> None:
        sh(repo, "git worktree add -q ../other -b other")
        other, before = tmp_path / "other", head(repo)
        assert "Branch other is at " in run(other, f"{CHANGE}; {COMMIT} -m x")[0]
        assert (head(other), head(repo)) == (before, before)


class TestWithoutCommits:
    def test_the_branch_is_unborn_again(self, tmp_path: Path) -> None:
        repo = tmp_path / "repo"
        (repo / "kept").mkdir(parents=True)
        (repo / "kept" / "a").write_text("a\n")
        sh(repo, "git init -q -b main")
        assert "has no commits again" in run(repo, f"{CHANGE}; {COMMIT} -m x")[0]
        assert sh(repo, "git ls-files") == "free"
        assert run(repo, f"git add -A; {COMMIT} -m x") == []
        assert sh(repo, "git ls-files") == "free\nkept/a"


class TestSixtyFour:
    def test_repositories_with_long_names(self, tmp_path: Path) -> None:
        repo = tmp_path / "repo"
        (repo / "kept").mkdir(parents=True)
        (repo / "kept" / "a").write_text("a\n")
        sh(repo, "git init -q -b main --object-format=sha256")
        assert run(repo, f"git add -A; {COMMIT} -m x") == []
        assert run(repo, f"{CHANGE}; {COMMIT} -m x")[0].startswith("Undone: ")


class TestHistoryThatWasRewritten:
    @pytest.mark.parametrize(
        "script",
        [
            f"git checkout -q -b other; {CHANGE}; {COMMIT} -m x",
            f"git checkout -q --detach; {CHANGE}; {COMMIT} -m x",
            "git reset -q --hard HEAD~1",
            f"git reset -q --soft HEAD~2; {CHANGE}; {COMMIT} -m x",
        ],
    )
    def test_it_is_said_and_nothing_is_touched(self, repo: Path, script: str) -> None:
        sh(repo, f"echo more >> kept/a; {COMMIT} -am more")
        sh(repo, f"echo more >> free; {COMMIT} -am two")
        sh(repo, f"echo more >> kept/a; {COMMIT} -am three")
        before = head(repo)
        said = run(repo, script)
        assert [line.partition(":")[0] for line in said] == ["Not undone"]
        assert "commits changed kept/a (it is protected)" in said[0]
        assert head(repo) != before


class TestWhatMayBeCommitted:
    def test_other_files(self, repo: Path) -> None:
        assert run(repo, f"echo new > free; {COMMIT} -am x") == []
        assert sh(repo, "git show HEAD:free") == "new"

    def test_what_a_person_had_changed_before(self, repo: Path) -> None:
        (repo / "kept" / "a").write_text("mine\n")
        (repo / "kept" / "b").write_text("mine\r\n")
        (repo / "kept" / "c").symlink_to("a")
        assert run(repo, f"git -c core.autocrlf=input add -A; {COMMIT} -am x") == []
        assert sh(repo, "git show HEAD:kept/a") == "mine"

    def test_what_a_person_had_deleted_before(self, repo: Path) -> None:
        (repo / "kept" / "a").unlink()
        assert run(repo, f"{COMMIT} -am x") == []

    def test_what_a_person_commits_between_two_commands(self, repo: Path) -> None:
        protected = protection(repo, repo.parent / "store")
        protected.begin()
        assert protected.check_and_restore() == ()
        sh(repo, f"echo mine > kept/a; {COMMIT} -am mine")
        mine = head(repo)
        assert told(protected.check_and_restore()) == []
        protected.begin()
        sh(repo, f"echo x > kept/a; {COMMIT} -am x")
        assert len(told(protected.check_and_restore())) == 1
        assert head(repo) == mine


class TestAfterAKill:
    def test_commits_that_may_be_a_persons_are_left_and_said(self, repo: Path) -> None:
        store = repo.parent / "store"
        protection(repo, store).begin()
        sh(repo, f"echo x > kept/a; {COMMIT} -am x")
        after = head(repo)
        said = told(protection(repo, store).check_and_restore())
        assert [line.partition(":")[0] for line in said] == ["Not undone"]
        assert "Headgate was killed while the command ran" in said[0]
        assert head(repo) == after
        assert told(protection(repo, store).check_and_restore()) == []

    @pytest.mark.parametrize("planted", ['["", "--output=planted"]', '["main"]', "{}", "not json", '["", 1]'])
    def test_a_planted_file_is_not_believed(self, repo: Path, planted: str) -> None:
        store = repo.parent / "store"
        store.mkdir()
        (store / "head.json").write_text(planted)
        assert told(protection(repo, store).check_and_restore()) == []
        assert not list(repo.rglob("planted"))


class TestProblems:
    def test_a_locked_branch_is_said(self, repo: Path) -> None:
        said = run(repo, f"{CHANGE}; {COMMIT} -m x; touch .git/refs/heads/main.lock")
        assert said[0].startswith("Could not be undone: commit ")
        assert said[0].endswith(": check the commits before you push.")

    def test_a_broken_repository_is_no_error(self, repo: Path) -> None:
        assert run(repo, "rm .git/HEAD") == []

    def test_a_pipe_in_the_place_of_a_ref_keeps_nobody_waiting(self, repo: Path) -> None:
        assert run(repo, "rm .git/refs/heads/main; mkfifo .git/HEAD.new; mv .git/HEAD.new .git/HEAD") == []

    def test_a_branch_that_leads_to_another(self, repo: Path) -> None:
        assert run(repo, "git branch other; git symbolic-ref refs/heads/main refs/heads/other") == []
        before = head(repo)
        assert len(run(repo, f"{CHANGE}; {COMMIT} -m x")) == 1
        assert head(repo) == before


class TestCost:
    def test_git_is_not_asked_while_head_stays(self, repo: Path, tmp_path: Path) -> None:
        count = tmp_path / "count"
        protected = protection(repo, tmp_path / "store")
        protected.begin()
        protected.check_and_restore()
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "git").write_text(f"#!/bin/sh\necho x >> {count}\nexit 1\n")
        (tools / "git").chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{tools}:{path}"
        try:
            for _ in range(3):
                protected.begin()
                protected.check_and_restore()
        finally:
            os.environ["PATH"] = path
        assert not count.exists()
