"""A repository whose settings, attributes and odd files run nothing, hide nothing and keep nobody waiting."""

import os
import subprocess
import zlib
from pathlib import Path

import pytest

from headgate.cli.setup_checks import check_repository
from headgate.engine.tree import TaskTree
from headgate.regular_files import PlantedFile
from headgate.tree import (
    LARGE,
    GitFailed,
    IgnoredPaths,
    Snapshots,
    exclude_internal,
    git,
    patch_between,
    run_git,
)

_WHO = "-c user.name=T -c user.email=t@localhost -c commit.gpgsign=false"


def sh(place: Path, command: str) -> None:
    subprocess.run(["sh", "-euc", command], cwd=place, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    repo.mkdir()
    sh(repo, "git init -q -b main; mkdir src; echo old > src/test_a.py; echo old > b.txt")
    sh(repo, f"echo .cache > .gitignore; git add -A; git {_WHO} commit -qm start")
    exclude_internal(repo)
    return repo


def evil(repo: Path) -> tuple[Path, Path]:
    """A program, and the file that shows that it ran."""
    program, ran = repo.parent / "evil.sh", repo.parent / "ran"
    program.write_text(f"#!/bin/sh\nenv > '{ran}'\ncat\n")
    program.chmod(0o755)
    return program, ran


_SETTINGS = [
    "git config core.fsmonitor EVIL",
    "git config filter.x.clean EVIL; git config filter.x.required true; echo '* filter=x' > .gitattributes",
    "git config filter.x.process EVIL; echo '* filter=x' > .git/info/attributes",
    "git config diff.external EVIL",
    "git config diff.x.textconv EVIL; git config diff.x.command EVIL; echo '* diff=x' > .gitattributes",
    "mkdir hooks; for name in post-index-change reference-transaction; do cp EVIL hooks/$name; done;"
    " git config core.hooksPath hooks",
    "git config --file shared filter.x.clean EVIL; git config include.path ../shared;"
    " echo '* filter=x' > .gitattributes",
    "git config core.sshCommand EVIL; git config extensions.partialClone origin;"
    " git config remote.origin.promisor true; git config remote.origin.url 'ext::EVIL';"
    " git config protocol.ext.allow always",
    "git config uploadpack.packObjectsHook EVIL; git config core.alternateRefsCommand EVIL",
    "git config core.pager EVIL; git config core.editor EVIL; git config core.askPass EVIL",
]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("where", [".", "nested", "sub"])
@pytest.mark.parametrize("setting", _SETTINGS)
def test_no_setting_runs_a_program(repo: Path, setting: str, where: str, moment: str) -> None:
    program, ran = evil(repo)
    commit = f"echo x > x; git add x; git {_WHO} commit -qm x"
    sh(repo, f"for name in nested sub; do git init -q $name; cd $name; {commit}; cd ..; done; git add sub")
    snapshots = Snapshots(repo)
    before = snapshots.take() if moment == "after" else ""
    sh(repo / where, setting.replace("EVIL", str(program)))
    before = before or snapshots.take()
    for path in (repo / "b.txt", repo / "sub" / "x", repo / "nested" / "x"):
        path.write_text("new\n")
    ran.unlink(missing_ok=True)
    after = snapshots.take()
    assert "b.txt" in snapshots.changed_files(before, after)
    assert "+new" in snapshots.diff(before, after)
    assert patch_between(snapshots, before, after)
    assert snapshots.diffstat(before, after)
    assert check_repository(repo).status == "ok"
    with pytest.raises(GitFailed):
        git(repo, "cat-file", "blob", "1234567890" * 4)
    git(repo, "update-ref", "refs/heads/other", "HEAD")
    assert not ran.exists()


def test_git_gets_no_secrets(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "fake-value")
    monkeypatch.setenv("GIT_SSH_COMMAND", "fake-value")
    assert b"fake-value" not in git(repo, "-c", "alias.dump=!env", "dump")


@pytest.mark.parametrize("place", [".venv/bin", "", "."])
def test_a_git_in_the_repository_is_not_run(repo: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    program, ran = evil(repo)
    (repo / ".venv" / "bin").mkdir(parents=True)
    (repo / place / "git").symlink_to(program)
    monkeypatch.chdir(repo)
    first = str(repo / place) if place.endswith("bin") else place
    monkeypatch.setenv("PATH", f"{first}{os.pathsep}{os.environ['PATH']}")
    snapshots = Snapshots(repo)
    assert snapshots.diff(snapshots.take(), snapshots.take()) == ""
    assert not ran.exists()


def test_a_git_that_does_not_end_is_stopped(repo: Path) -> None:
    with pytest.raises(GitFailed, match=r"^git wait did not end within 0.2 seconds"):
        run_git(repo, "-c", "alias.wait=!sleep 1000 & sleep 1000", "wait", seconds=0.2)


def test_the_repository_around_a_folder_is_not_taken_for_it(repo: Path) -> None:
    with pytest.raises(GitFailed, match="not a git repository"):
        git(repo / "src", "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "name", [".gitignore", ".gitattributes", "src/.gitignore", "src/.gitattributes", "pipe"]
)
def test_a_pipe_in_the_tree_keeps_nobody_waiting(repo: Path, name: str) -> None:
    snapshots = Snapshots(repo)
    before = snapshots.take()
    (repo / name).unlink(missing_ok=True)
    os.mkfifo(repo / name)
    (repo / "src" / "test_a.py").write_text("new\n")
    after = snapshots.take()
    assert "src/test_a.py" in snapshots.changed_files(before, after)
    assert "+new" in snapshots.diff(before, after)
    assert Snapshots(repo).take()
    assert not IgnoredPaths(repo).file("b.txt")


@pytest.mark.parametrize(
    "name", ["index", "HEAD", "config", "info/exclude", "packed-refs", "commondir", "refs/heads/main"]
)
def test_a_pipe_in_git_s_folder_is_named(repo: Path, name: str) -> None:
    (repo / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(repo / ".git" / name)
    with pytest.raises(GitFailed, match=rf"\.git/{name} is not a regular file: remove it"):
        Snapshots(repo).take()


def test_a_pipe_instead_of_the_index_does_not_stop_a_task_that_runs(repo: Path) -> None:
    snapshots = Snapshots(repo)
    before = snapshots.take()
    (repo / ".git" / "index").unlink()
    os.mkfifo(repo / ".git" / "index")
    (repo / "b.txt").write_text("new\n")
    assert snapshots.changed_files(before, snapshots.take()) == ("b.txt",)


_HIDING = [
    "echo '* -diff' > .gitattributes",
    "echo '* binary' > .gitattributes",
    "echo '* -diff -text' > .git/info/attributes",
    "echo '* ident' > .gitattributes",
    "echo '* working-tree-encoding=UTF-16' > .gitattributes",
    "echo '* filter=x' > .gitattributes; git config filter.x.clean 'echo old'",
    "git config core.fileMode false; git config core.symlinks false",
    "git config core.checkStat minimal; git config core.trustctime false",
    "echo '*' > ../all; git config core.excludesFile ../all",
    "echo '*' > .gitignore",
    "echo '*' > src/.gitignore",
    "git config core.ignoreCase true; git config core.autocrlf true",
    "git config core.worktree ../elsewhere",
    "git update-index --assume-unchanged src/test_a.py",
    "git update-index --skip-worktree src/test_a.py; git config core.sparseCheckout true",
    "git rm -q -r --cached src; echo src >> .gitignore",
    "git init -q src",
    f"cd src; git init -q; git add .; git {_WHO} commit -qm x; cd ..; git rm -rq --cached src; git add src",
]


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("hiding", _HIDING)
async def test_nothing_hides_a_change(repo: Path, hiding: str, is_resumed: bool) -> None:
    tree = TaskTree(Snapshots(repo), dict)
    baseline = await tree.begin()
    sh(repo, hiding)
    status = (repo / "src" / "test_a.py").stat()
    (repo / "src" / "test_a.py").write_text("bad\n")
    os.utime(repo / "src" / "test_a.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    (repo / "b.txt").chmod(0o755)
    (repo / "src" / "door.py").write_text("evil\n")
    if is_resumed:
        tree = TaskTree(Snapshots(repo), dict)
        tree.resume(baseline, ())
    await tree.settle()
    assert {"b.txt", "src/door.py", "src/test_a.py"} <= set(await tree.changed_files())
    found = await tree.own_diff()
    assert found.versions["src/test_a.py"] == ("old\n", "bad\n")
    assert "\n-old\n+bad\n" in found.text
    assert "+evil" in found.text
    assert "old mode 100644\nnew mode 100755" in found.text


async def test_what_was_ignored_at_the_start_stays_so(repo: Path) -> None:
    (repo / ".cache").mkdir()
    tree = TaskTree(Snapshots(repo), dict)
    await tree.begin()
    (repo / ".gitignore").write_text("")
    (repo / ".cache" / "x").write_text("x")
    await tree.settle()
    assert await tree.changed_files() == (".gitignore",)


@pytest.mark.parametrize("own", [False, True])
async def test_folders_that_tools_make_may_be_ignored_from_then_on(repo: Path, own: bool) -> None:
    tree = TaskTree(Snapshots(repo), dict)
    await tree.begin()
    (repo / "node_modules" / "x").mkdir(parents=True)
    (repo / "node_modules" / "x" / "index.js").write_text("x")
    await tree.settle()
    assert await tree.changed_files() == ("node_modules/x/index.js",)
    (repo / "node_modules" / ".gitignore" if own else repo / ".gitignore").write_text("*\n")
    await tree.settle()
    assert await tree.changed_files() == (() if own else (".gitignore",))


def test_a_very_large_new_file_is_seen_and_not_kept(repo: Path) -> None:
    snapshots = Snapshots(repo)
    before = snapshots.take()
    with (repo / "large.py").open("wb") as file:
        file.truncate(LARGE + 1)
    after = snapshots.take()
    assert snapshots.changed_files(before, after) == ("large.py",)
    assert snapshots.marked == {"large.py"}
    assert snapshots.take() == after


@pytest.mark.parametrize("place", ["objects", "headgate/objects"])
def test_an_object_that_was_written_over_is_no_account_of_the_start(repo: Path, place: str) -> None:
    snapshots = Snapshots(repo)
    if place != "objects":
        (repo / "b.txt").write_text("untracked content\n")
    before = snapshots.take()
    name = snapshots.entries(before)["b.txt"][1]
    stored = repo / ".git" / place / name[:2] / name[2:]
    stored.chmod(0o644)
    stored.write_bytes(zlib.compress(b"blob 4\0new\n"))
    (repo / "b.txt").write_text("new\n")
    with pytest.raises(GitFailed, match=name):
        snapshots.diff(before, snapshots.take())


@pytest.mark.parametrize("named", ["./.git", "nowhere", "b.txt"])
def test_a_git_file_that_leads_nowhere_is_refused(repo: Path, named: str) -> None:
    sh(repo, f"mv .git ../elsewhere; echo 'gitdir: {named}' > .git")
    with pytest.raises(GitFailed, match="does not name a folder"):
        git(repo, "status")


def test_a_link_in_git_s_folder_leads_no_write_outside(repo: Path) -> None:
    outside = repo.parent / "outside"
    outside.write_text("mine\n")
    (repo / ".git" / "info" / "exclude").unlink()
    (repo / ".git" / "info" / "exclude").symlink_to(outside)
    with pytest.raises(GitFailed, match="is reached by a symbolic link"):
        exclude_internal(repo)
    assert outside.read_text() == "mine\n"


@pytest.mark.parametrize("place", ["", "/objects", "/objects/info", "/objects/{folder}"])
def test_a_link_to_where_objects_are_kept_leads_no_write_outside(repo: Path, place: str) -> None:
    outside = repo.parent / "outside"
    outside.mkdir()
    (repo / "new.txt").write_text("new\n")
    name = git(repo, "hash-object", "new.txt").decode()
    planted = repo / (".git/headgate" + place.format(folder=name[:2]))
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.symlink_to(outside)
    with pytest.raises(PlantedFile, match=f"{planted} is a"):
        Snapshots(repo).take()
    assert not any(outside.iterdir())


def test_a_commit_in_a_repository_within_the_repository_is_seen(repo: Path) -> None:
    sh(repo, f"git init -q sub; cd sub; echo x > x; git add x; git {_WHO} commit -qm x; git pack-refs --all")
    snapshots = Snapshots(repo)
    before = snapshots.take()
    head = git(repo / "sub", "rev-parse", "HEAD").decode().strip()
    assert snapshots.entries(before)["sub"] == ("160000", head)
    sh(repo / "sub", f"git {_WHO} commit -q --allow-empty -m y")
    assert snapshots.changed_files(before, snapshots.take()) == ("sub",)


def test_trees_are_those_that_git_makes(repo: Path) -> None:
    sh(repo, "mkdir -p a/b a.d; echo 1 > a/b/c; echo 2 > a.d/e; echo 3 > a-b; ln -s a-b l; chmod +x a-b")
    sh(repo, "git add -A")
    assert Snapshots(repo).take() == git(repo, "write-tree").decode().strip()


async def test_changes_within_a_submodule_are_named(repo: Path) -> None:
    sh(repo, f"git init -q sub; cd sub; echo x > x; echo y > y; git add .; git {_WHO} commit -qm x")
    sh(repo, "git add sub")
    tree = TaskTree(Snapshots(repo), dict)
    await tree.begin()
    sh(repo / "sub", "echo z > x; rm y; echo '*' > .gitignore; echo evil > door.py")
    changes = await tree.final_changes()
    assert changes.files == ("sub/.gitignore", "sub/door.py", "sub/x", "sub/y")
    assert changes.not_in_diff == changes.files
    sh(repo / "sub", "git checkout -q . ; git clean -fdxq")
    await tree.settle()
    assert await tree.changed_files() == ()
