"""Proposals: git takes their patches, and they fit a tree that has moved on or say which file does not."""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import Access, Denial, show_path
from headgate.errors import ToolFailed
from headgate.tree import (
    DiskWorkspace,
    FileChange,
    Misfit,
    OverlayWorkspace,
    ProposedChange,
    Snapshots,
    exclude_internal,
    fit,
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


Trees = tuple[str, str]


def trees_of(repo: Path, *rounds: list[FileChange]) -> Trees:
    """The two trees of what an overlay over the repository was told."""
    snapshots = Snapshots(repo)
    overlay = OverlayWorkspace(DiskWorkspace(repo))
    baseline = snapshots.take()
    for changes in rounds:
        overlay.apply(changes)
    return record_proposal(snapshots, baseline, overlay.changes())


def fitted(repo: Path, told: Trees, workspace: DiskWorkspace | None = None) -> list[FileChange] | Misfit:
    """What is left to be written, without the modes that the files have now."""
    snapshots = Snapshots(repo)
    changes = fit(workspace or DiskWorkspace(repo), snapshots, snapshots.differences(*told))
    if isinstance(changes, Misfit):
        return changes
    return [FileChange(change.path, change.before, change.after, change.mode) for change in changes]


def written(repo: Path, told: Trees) -> list[str]:
    """Writes what is left to be written; returns the paths."""
    changes = fitted(repo, told)
    assert isinstance(changes, list)
    DiskWorkspace(repo).apply(changes)
    return [change.path for change in changes]


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
    assert fitted(repo, trees_of(repo, changes)) == sorted(changes, key=lambda change: change.path)
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
    assert fitted(repo, trees_of(repo, [])) == []


def test_changes_go_where_their_lines_have_gone(repo: Path) -> None:
    told = trees_of(repo, [replaced(repo, "a.py", ("line 30\n", "line thirty\n"))])
    moved = "new top\n" * 7 + LINES.replace("line 55\n", "other\n")
    (repo / "a.py").write_text(moved)
    after = moved.replace("line 30\n", "line thirty\n")
    assert fitted(repo, told) == [FileChange("a.py", moved.encode(), after.encode())]


def test_what_is_in_the_tree_already_is_left_out(repo: Path) -> None:
    changes = [
        replaced(repo, "a.py", ("line 5\n", "five\n"), ("line 50\n", "fifty\n")),
        FileChange("b.bin", b"\0\1\2", None),
        FileChange("empty", b"", b"", 0o755),
        FileChange("new", None, b"n\n", 0o755),
    ]
    told = trees_of(repo, changes)
    DiskWorkspace(repo).apply([replaced(repo, "a.py", ("line 5\n", "five\n")), changes[1]])
    assert written(repo, told) == ["a.py", "empty", "new"]
    assert b"five\n" in (repo / "a.py").read_bytes()
    assert b"fifty\n" in (repo / "a.py").read_bytes()
    assert fitted(repo, told) == []
    (repo / "new").chmod(0o644)
    assert fitted(repo, told) == [FileChange("new", b"n\n", b"n\n", 0o755)]


def test_differences_of_one_file_are_worked_in_one_after_the_other(repo: Path) -> None:
    snapshots = Snapshots(repo)
    trees = [snapshots.take()]
    for line in ("line 3\n", "line 20\n", "line 40\n"):
        (repo / "a.py").write_text((repo / "a.py").read_text().replace(line, ""))
        trees.append(snapshots.take())
    back = [*snapshots.differences(trees[3], trees[2]), *snapshots.differences(trees[1], trees[0])]
    changes = fit(DiskWorkspace(repo), snapshots, back)
    assert not isinstance(changes, Misfit)
    assert [(change.path, change.after) for change in changes] == [
        ("a.py", LINES.replace("line 20\n", "").encode())
    ]


def test_modes_are_kept_as_far_as_git_does_not_know_them(repo: Path) -> None:
    (repo / "run.sh").chmod(0o600)
    (repo / "b.bin").chmod(0o640)
    changes = [
        replaced(repo, "run.sh", ("echo", "exit")),
        FileChange("b.bin", b"\0\1\2", b"\0\1\3", 0o755),
        FileChange("go.sh", None, b"echo\n", 0o755),
    ]
    told = trees_of(repo, changes)
    found = fitted(repo, told)
    assert isinstance(found, list)
    assert {change.path: change.mode for change in found} == {"b.bin": 0o750, "go.sh": 0o755, "run.sh": None}


def test_conflicts_name_the_files(repo: Path) -> None:
    put(
        repo,
        {"gone.py": b"g\n", "dir.py": b"d\n", "deleted.py": b"1\n2\n3\n", "src/s": b"s", "locked": b"l\n"},
    )
    changes = [
        replaced(repo, "a.py", ("line 2\n", "two\n"), ("line 30\n", "thirty\n"), ("line 58\n", "58\n")),
        replaced(repo, "gone.py", ("g", "h")),
        replaced(repo, "dir.py", ("d", "e")),
        replaced(repo, "src/s", ("s", "t")),
        replaced(repo, "locked", ("l", "m")),
        FileChange("deleted.py", b"1\n2\n3\n", None),
        FileChange("empty", b"", None),
        FileChange("b.bin", b"\0\1\2", b"\0\1\3"),
        FileChange("new.py", None, b"n\n"),
    ]
    told = trees_of(repo, changes)
    (repo / "a.py").write_text("top\n" + LINES.replace("line 30\n", "30\n"))
    for name in ("gone.py", "dir.py", "src/s"):
        (repo / name).unlink()
    (repo / "dir.py").mkdir()
    (repo / "src").rmdir()
    (repo / "src").symlink_to(".")
    put(repo, {"deleted.py": b"1\n2\n3\n4\n", "empty": b"x", "b.bin": b"\0\1\4", "new.py": b"m\n"})
    before = tree(repo)

    def guard(access: Access, /) -> Denial | None:
        return Denial("locked is not to be read.") if access.target == "locked" else None

    conflicts = fitted(repo, told, DiskWorkspace(repo, [guard]))
    assert isinstance(conflicts, Misfit)
    assert set(conflicts.problems) == {
        "a.py: has changed at the same place, near line 31",
        "gone.py: no longer exists",
        "dir.py is a directory, not a file.",
        "src/s: is now reached through a symbolic link",
        "locked is not to be read.",
        "deleted.py: has changed, and would be deleted",
        "empty: has changed, and would be deleted",
        "b.bin: has changed, and is not text",
        "new.py: already exists",
    }
    assert tree(repo) == before


def test_a_repository_with_long_hashes(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "long", "--object-format=sha256")
    put(repo, {"b.bin": b"\0\1\2", "c": b"c"})
    changes = [FileChange("b.bin", b"\0\1\2", b"\0\1\3"), FileChange("c", b"c", None)]
    git(repo, "apply", "--check", "-", stdin=propose(repo, changes))
    assert fitted(repo, trees_of(repo, changes)) == changes


def test_a_file_gives_way_to_a_directory(repo: Path) -> None:
    rounds = (
        [FileChange("run.sh", (repo / "run.sh").read_bytes(), None)],
        [FileChange("run.sh/x", None, b"x\n"), FileChange("run.sh/deep/y", None, b"y\n")],
    )
    git(repo, "apply", "--check", "-", stdin=propose(repo, *rounds))
    told = trees_of(repo, *rounds)
    assert written(repo, told) == ["run.sh", "run.sh/deep/y", "run.sh/x"]
    assert (repo / "run.sh/deep/y").read_bytes() == b"y\n"
    assert fitted(repo, told) == []


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
        trees = record_proposal(snapshots, snapshots.take(), overlay.changes())
        told = patch_between(snapshots, *trees)
        assert isinstance(fitted(repo, trees), list)
        assert tree(repo) == before

        by_fit, by_git = Path(folder, "fit"), Path(folder, "git")
        for copy in (by_fit, by_git):
            shutil.copytree(repo, copy)
        DiskWorkspace(repo).apply(overlay.changes())
        written(by_fit, trees)
        assert tree(by_fit) == tree(repo)
        assert fitted(by_fit, trees) == []
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
