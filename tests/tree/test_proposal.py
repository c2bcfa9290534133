"""Proposals: git takes their patches, and they fit a tree that has moved on or say where not."""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import Access, Denial, show_path
from headgate.errors import StoreError, ToolFailed
from headgate.tree import (
    AdaptedProposal,
    DiskWorkspace,
    FileChange,
    OverlayWorkspace,
    ProposalConflicts,
    ProposedChange,
    Snapshots,
    adapt_proposal,
    exclude_internal,
    git,
    patch_between,
    record_proposal,
)

LATIN = os.fsdecode(b"latin-\xe9")
LINES = "".join(f"line {number}\n" for number in range(1, 61))


def make_repo(path: Path, *flags: str) -> Path:
    path.mkdir()
    subprocess.run(["git", "init", "-q", *flags, str(path)], check=True)
    exclude_internal(path)
    (path / ".headgate").mkdir()
    return path


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = make_repo(tmp_path / "repo")
    put(repo, {"a.py": LINES.encode(), "b.bin": b"\0\1\2", "run.sh": b"#!/bin/sh\necho\n", "empty": b""})
    return repo


def put(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def tree(root: Path) -> dict[str, tuple[bytes, bool]]:
    """Every file of the user's, with content and whether it may be executed."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] not in (".git", ".headgate")
    }


def propose(repo: Path, *rounds: list[FileChange]) -> bytes:
    """The patch of what an overlay over the repository was told."""
    snapshots = Snapshots(repo)
    overlay = OverlayWorkspace(DiskWorkspace(repo))
    baseline = snapshots.take()
    for changes in rounds:
        overlay.apply(changes)
    return patch_between(snapshots, *record_proposal(snapshots, baseline, overlay.changes()))


def replaced(repo: Path, path: str, *pairs: tuple[str, str]) -> FileChange:
    before = after = (repo / path).read_bytes()
    for old, new in pairs:
        assert old.encode() in after
        after = after.replace(old.encode(), new.encode(), 1)
    return FileChange(path, before, after)


def test_a_patch_reads_as_git_s(repo: Path) -> None:
    change = replaced(repo, "run.sh", ("echo\n", "echo hello"))
    told = propose(
        repo,
        [
            FileChange(change.path, change.before, change.after, 0o755),
            FileChange("a.py", LINES.encode(), None),
            FileChange("lib/ä b.py", None, LINES.encode()),
            FileChange("empty", b"", None),
        ],
    )
    assert change.before is not None
    assert change.after is not None
    names = [git(repo, "hash-object", "--stdin", stdin=data) for data in (b"", change.before, change.after)]
    empty, old, new = (name.decode().strip() for name in names)
    assert told.decode() == (
        "diff --git a/empty b/empty\ndeleted file mode 100644\n"
        f"index {empty}..{'0' * 40}\n"
        "diff --git a/a.py b/lib/ä b.py\nsimilarity index 100%\nrename from a.py\nrename to lib/ä b.py\n"
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        f"index {old}..{new}\n"
        "--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n"
        "-echo\n+echo hello\n\\ No newline at end of file\n"
    )


def test_nothing_of_the_user_s_counts_or_changes(repo: Path) -> None:
    """Settings and attributes that would spoil a patch, or the applying of one."""
    for name, value in {
        **{"diff.noprefix": "true", "diff.external": "false", "color.diff": "always", "diff.context": "0"},
        **{"core.autocrlf": "true", "apply.whitespace": "error", "diff.suppressBlankEmpty": "true"},
        **{"filter.upper.clean": "tr a-z A-Z", "filter.upper.smudge": "false", "diff.mnemonicPrefix": "true"},
    }.items():
        git(repo, "config", name, value)
    put(repo, {".gitattributes": b"*.txt -diff filter=upper\n", "a.txt": b"one\n\nthree \n", "i.log": b"i\n"})
    put(repo, {".gitignore": b"*.log\n", "sub/.gitattributes": b"* text eol=crlf\n", "sub/x": b"1\n"})

    def of_git() -> dict[Path, bytes]:
        ours = repo / ".git" / "headgate"
        found = [path for path in (repo / ".git").rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in found if not path.is_relative_to(ours)}

    watched = of_git()
    changes = [
        replaced(repo, "a.txt", ("three \n", "3 \n")),
        replaced(repo, "i.log", ("i", "j")),
        replaced(repo, "sub/.gitattributes", ("crlf", "crlf ident")),
        replaced(repo, "sub/x", ("1\n", "1\n$Id$\n")),
    ]
    told = propose(repo, changes)
    assert b"\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n \n-three \n+3 \n" in told
    assert b"\n--- a/i.log\n+++ b/i.log\n" in told
    assert adapt_proposal(DiskWorkspace(repo), told) == AdaptedProposal(
        tuple(sorted(changes, key=lambda change: change.path))
    )
    assert of_git() == watched


def test_the_baseline_differs_from_what_was_touched(repo: Path) -> None:
    """Someone changes the file between the task's start and its first write."""
    snapshots = Snapshots(repo)
    baseline = snapshots.take()
    (repo / "run.sh").write_bytes(b"other\n")
    overlay = OverlayWorkspace(DiskWorkspace(repo))
    overlay.apply([FileChange("run.sh", b"other\n", b"mine\n")])
    told = patch_between(snapshots, *record_proposal(snapshots, baseline, overlay.changes()))
    assert told.endswith(b"@@ -1 +1 @@\n-other\n+mine\n")


def test_no_changes_make_an_empty_patch(repo: Path) -> None:
    assert propose(repo, []) == b""
    assert adapt_proposal(DiskWorkspace(repo), b"") == AdaptedProposal(())


def test_hunks_fit_where_their_lines_have_gone(repo: Path) -> None:
    told = propose(repo, [replaced(repo, "a.py", ("line 30\n", "line thirty\n"))])
    moved = "new top\n" * 7 + LINES.replace("line 55\n", "other\n")
    (repo / "a.py").write_text(moved)
    after = moved.replace("line 30\n", "line thirty\n")
    assert adapt_proposal(DiskWorkspace(repo), told) == AdaptedProposal(
        (FileChange("a.py", moved.encode(), after.encode()),)
    )


def test_what_is_in_the_tree_already_is_left_out(repo: Path) -> None:
    changes = [
        replaced(repo, "a.py", ("line 5\n", "five\n")),
        FileChange("b.bin", b"\0\1\2", None),
        FileChange("moved.sh", None, (repo / "run.sh").read_bytes()),
        FileChange("run.sh", (repo / "run.sh").read_bytes(), None),
        FileChange("empty", b"", b"", 0o755),
        FileChange("new", None, b"n\n", 0o755),
    ]
    told = propose(repo, changes)
    workspace = DiskWorkspace(repo)
    workspace.apply([changes[0], changes[1]])
    fitted = adapt_proposal(workspace, told)
    assert isinstance(fitted, AdaptedProposal)
    assert [change.path for change in fitted.changes] == ["empty", "moved.sh", "new", "run.sh"]
    workspace.apply(fitted.changes)
    assert adapt_proposal(workspace, told) == AdaptedProposal(())
    (repo / "new").chmod(0o644)
    assert adapt_proposal(workspace, told) == AdaptedProposal((FileChange("new", b"n\n", b"n\n", 0o755),))


def test_modes_are_kept_as_far_as_git_does_not_know_them(repo: Path) -> None:
    (repo / "run.sh").chmod(0o600)
    (repo / "b.bin").chmod(0o640)
    told = propose(
        repo,
        [
            FileChange("run.sh", (repo / "run.sh").read_bytes(), None),
            FileChange("go.sh", None, (repo / "run.sh").read_bytes(), 0o600),
            FileChange("b.bin", b"\0\1\2", b"\0\1\3", 0o755),
        ],
    )
    fitted = adapt_proposal(DiskWorkspace(repo), told)
    assert isinstance(fitted, AdaptedProposal)
    assert {change.path: change.mode for change in fitted.changes} == {
        "b.bin": 0o750,
        "go.sh": 0o600,
        "run.sh": None,
    }


def test_conflicts_say_where(repo: Path) -> None:
    put(
        repo,
        {
            "gone.py": b"g\n",
            "dir.py": b"d\n",
            "deleted.py": b"1\n2\n3\n",
            "old.py": b"o\n" * 9,
            "src/s": b"s",
        },
    )
    put(repo, {"locked": b"l\n"})
    told = propose(
        repo,
        [
            replaced(repo, "a.py", ("line 2\n", "two\n"), ("line 30\n", "thirty\n"), ("line 58\n", "58\n")),
            replaced(repo, "gone.py", ("g", "h")),
            replaced(repo, "dir.py", ("d", "e")),
            replaced(repo, "src/s", ("s", "t")),
            replaced(repo, "locked", ("l", "m")),
            FileChange("deleted.py", b"1\n2\n3\n", None),
            FileChange("empty", b"", None),
            FileChange("b.bin", b"\0\1\2", b"\0\1\3"),
            FileChange("new.py", None, b"n\n"),
            FileChange("old.py", b"o\n" * 9, None),
            FileChange("moved.py", None, b"o\n" * 9 + b"p\n"),
        ],
    )
    (repo / "a.py").write_text(LINES.replace("line 30\n", "30\n").replace("line 59\n", "59\n"))
    for name in ("gone.py", "dir.py", "src/s"):
        (repo / name).unlink()
    (repo / "dir.py").mkdir()
    (repo / "src").rmdir()
    (repo / "src").symlink_to(".")
    put(repo, {"deleted.py": b"1\n2\n3\n4\n", "empty": b"x", "b.bin": b"\0\1\4", "new.py": b"m\n"})
    put(repo, {"moved.py": b"someone's\n"})
    before = tree(repo)

    def guard(access: Access, /) -> Denial | None:
        return Denial("locked is not to be read.") if access.target == "locked" else None

    conflicts = adapt_proposal(DiskWorkspace(repo, [guard]), told)
    assert isinstance(conflicts, ProposalConflicts)
    assert set(conflicts.problems) == {
        "a.py: hunk 2 (@@ -27,7 +27,7 @@) does not apply",
        "a.py: hunk 3 (@@ -55,6 +55,6 @@) does not apply",
        "gone.py: no longer exists",
        "dir.py is a directory, not a file.",
        "src/s: is now reached through a symbolic link",
        "locked is not to be read.",
        "deleted.py: hunk 1 (@@ -1,3 +0,0 @@) does not apply",
        "empty: has changed, and a patch for binary or empty content applies only to the original",
        "b.bin: has changed, and a patch for binary or empty content applies only to the original",
        "new.py: already exists",
        "moved.py: already exists",
    }
    assert tree(repo) == before


def test_a_repository_with_long_hashes(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "long", "--object-format=sha256")
    put(repo, {"b.bin": b"\0\1\2", "c": b"c"})
    changes = (FileChange("b.bin", b"\0\1\2", b"\0\1\3"), FileChange("c", b"c", None))
    told = propose(repo, list(changes))
    git(repo, "apply", "--check", "-", stdin=told)
    assert adapt_proposal(DiskWorkspace(repo), told) == AdaptedProposal(changes)


def test_a_file_gives_way_to_a_directory(repo: Path) -> None:
    told = propose(
        repo,
        [FileChange("run.sh", (repo / "run.sh").read_bytes(), None)],
        [FileChange("run.sh/x", None, b"x\n"), FileChange("run.sh/deep/y", None, b"y\n")],
    )
    git(repo, "apply", "--check", "-", stdin=told)
    workspace = DiskWorkspace(repo)
    fitted = adapt_proposal(workspace, told)
    assert isinstance(fitted, AdaptedProposal)
    workspace.apply(fitted.changes)
    assert (repo / "run.sh/deep/y").read_bytes() == b"y\n"
    assert adapt_proposal(workspace, told) == AdaptedProposal(())


def test_what_is_no_patch_is_refused(repo: Path) -> None:
    with pytest.raises(StoreError):
        adapt_proposal(DiskWorkspace(repo), b"hello\n")


TEXT = "".join(f"{number} some words\n" for number in range(12)).encode()
CONTENTS = st.sampled_from(
    [
        *(b"", b"x", b"x\n", b"\n\n \n", b"\0\1binary", b"\0\1binary too", b"caf\xe9\n", b"a\r\nb\r\n", TEXT),
        *(TEXT + b"more", TEXT.replace(b"3 ", b"three "), b"@@ -1 +1 @@\ndiff --git a/x b/x\n--- a\n"),
    ]
)
NAMES = st.sampled_from(
    [
        *("a", "dir/b", "dir/deep/c", "with space", " lead", "trail ", 'quo"te', "tab\there", "line\nbreak"),
        *(
            "ä/ö",
            LATIN,
            f"{LATIN}/x b/y",
            "back\\slash",
            "-dash",
            "a b/a",
            "#",
            "ignored.log",
            "x => y",
            "git~1",
        ),
    ]
)
MODES = st.sampled_from([None, 0o644, 0o755])


@settings(max_examples=18)
@given(
    st.dictionaries(NAMES, st.tuples(CONTENTS, st.booleans()), max_size=8).filter(
        lambda files: LATIN not in files or f"{LATIN}/x b/y" not in files
    ),
    st.lists(st.tuples(NAMES, st.one_of(CONTENTS, st.none()), MODES), min_size=1, max_size=8),
)
def test_git_and_fit_make_of_a_patch_what_the_overlay_holds(
    files: dict[str, tuple[bytes, bool]], writes: list[tuple[str, bytes | None, int | None]]
) -> None:
    with TemporaryDirectory() as folder:
        repo = make_repo(Path(folder, "repo"))
        put(repo, {".gitignore": b"*.log\n"} | {name: data for name, (data, _) in files.items()})
        for name, (_, executable) in files.items():
            (repo / name).chmod(0o755 if executable else 0o644)
        before = tree(repo)
        overlay = OverlayWorkspace(DiskWorkspace(repo))
        for name, after, mode in writes:
            try:
                there = overlay.exists(show_path(name)) and overlay.read(show_path(name))
            except ToolFailed:
                continue  # a file where a directory would have to be, or the other way round
            overlay.apply([FileChange(name, there.data if there else None, after, mode)])
        snapshots = Snapshots(repo)
        told = patch_between(snapshots, *record_proposal(snapshots, snapshots.take(), overlay.changes()))
        fitted = adapt_proposal(DiskWorkspace(repo), told)
        assert isinstance(fitted, AdaptedProposal)
        assert tree(repo) == before

        by_fit, by_git = Path(folder, "adapt_proposal"), Path(folder, "git")
        for copy in (by_fit, by_git):
            shutil.copytree(repo, copy)
        DiskWorkspace(repo).apply(overlay.changes())
        DiskWorkspace(by_fit).apply(fitted.changes)
        assert tree(by_fit) == tree(repo)
        assert adapt_proposal(DiskWorkspace(by_fit), told) == AdaptedProposal(())
        if told:
            lenient = ("-c", "core.protectNTFS=false")
            git(by_git, *lenient, "apply", "--check", "-", stdin=told)
            git(by_git, *lenient, "apply", "--whitespace=nowarn", "-", stdin=told)
        assert tree(by_git) == tree(repo)


def test_a_file_in_a_repository_within_the_repository_is_all_that_is_proposed(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    for folder in (repo, repo / "sub"):
        folder.mkdir()
        git(folder, "init", "-q")
        (folder / "a.txt").write_text("a\n")
        git(folder, "add", "a.txt")
        git(folder, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "x")
    snapshots = Snapshots(repo)
    baseline = snapshots.take()
    before, after = record_proposal(
        snapshots, baseline, [ProposedChange("sub/new.txt", None, b"new\n", None, None)]
    )
    shown = patch_between(snapshots, before, after)
    assert (b"160000" in shown, shown.count(b"diff --git"), b"+new\n" in shown) == (False, 1, True)
    assert snapshots.files(baseline) == (("a.txt",), ("sub",))
