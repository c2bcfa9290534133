"""Writes happen together or not at all."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core import Access, Denial
from headgate.errors import ToolDenied, ToolFailed
from headgate.tree import DiskWorkspace, FileChange, WriteBatch
from headgate.tree.writes import FileMoved


def tree(root: Path) -> dict[str, tuple[bytes, int] | None]:
    """Every path below a directory with content and mode; directories have none."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777)
        if path.is_file()
        else None
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a\n")
    (root / "b.py").write_text("b\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    return root


def test_a_file_that_is_replaced_within_a_second_gets_a_later_one(repo: Path) -> None:
    """Python runs what it compiled from a file of the same size and the same whole second."""
    disk, seconds = DiskWorkspace(repo), []
    for before, after in ((b"b\n", b"c\n"), (b"c\n", b"d\n"), (b"d\n", b"longer\n")):
        disk.apply([FileChange("b.py", before, after)])
        seconds.append(int((repo / "b.py").stat().st_mtime))
    assert seconds[0] < seconds[1]


def test_create_change_delete_together(repo: Path) -> None:
    DiskWorkspace(repo).apply(
        [
            FileChange("new/deep/c.py", None, b"c\n"),
            FileChange("new/deep/tool", None, b"t\n", mode=0o755),
            FileChange("src/a.py", b"a\n", b"A\n"),
            FileChange("run.sh", b"#!/bin/sh\n", b"#!/bin/bash\n"),
            FileChange("b.py", b"b\n", None),
        ]
    )
    assert tree(repo) == {
        "new": None,
        "new/deep": None,
        "new/deep/c.py": (b"c\n", 0o644),
        "new/deep/tool": (b"t\n", 0o755),
        "run.sh": (b"#!/bin/bash\n", 0o755),
        "src": None,
        "src/a.py": (b"A\n", 0o644),
    }


def test_a_mode_is_given_exactly_and_is_a_change_of_its_own(repo: Path) -> None:
    old_umask = os.umask(0o077)
    try:
        DiskWorkspace(repo).apply(
            [
                FileChange("b.py", b"b\n", b"b\n", mode=0o755),
                FileChange("run.sh", b"#!/bin/sh\n", b"#!/bin/bash\n", mode=0o644),
                FileChange("src/a.py", b"a\n", b"A\n"),
                FileChange("src/exact", None, b"", mode=0o755),
                FileChange("src/usual", None, b""),
            ]
        )
    finally:
        os.umask(old_umask)
    assert tree(repo) == {
        "b.py": (b"b\n", 0o755),
        "run.sh": (b"#!/bin/bash\n", 0o644),
        "src": None,
        "src/a.py": (b"A\n", 0o644),
        "src/exact": (b"", 0o755),
        "src/usual": (b"", 0o600),
    }


def test_a_directory_takes_the_place_of_a_file_that_goes(repo: Path) -> None:
    changes = [
        FileChange("b.py/x/one", None, b"1"),
        FileChange("b.py/two", None, b"2", mode=0o755),
        FileChange("b.py", b"b\n", None),
    ]
    before = tree(repo)
    with pytest.raises(ToolFailed, match=r"run\.sh has changed"):
        DiskWorkspace(repo).apply([*changes, FileChange("run.sh", b"other", b"x")])
    assert tree(repo) == before
    DiskWorkspace(repo).apply(changes)
    new = {"b.py": None, "b.py/x": None, "b.py/x/one": (b"1", 0o644), "b.py/two": (b"2", 0o755)}
    assert tree(repo) == before | new


def test_a_directory_that_took_a_file_s_place_is_taken_back(repo: Path) -> None:
    """The last step of the commit fails, when the directory is in place already."""
    before = tree(repo)
    folder = os.open(repo, os.O_RDONLY)
    batch = WriteBatch()
    with batch:
        batch.delete("b.py", folder, "b.py", (repo / "b.py").stat())
        made = batch.replace_by_directory("b.py", folder, "b.py")
        inner = batch.make_directories(made, ("x",))
        batch.write("b.py/x/one", inner, "one", b"1", old=None)
        batch.write("late.py", folder, "late.py", b"l\n", old=None)
        (repo / "late.py").write_text("someone else\n")
        with pytest.raises(FileMoved):
            batch.commit()
    os.close(folder)
    assert batch.stranded == []
    assert tree(repo) == before | {"late.py": (b"someone else\n", 0o644)}


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (
            FileChange("src/a.py", b"other\n", b"A\n"),
            r"src/a\.py has changed since it was read; nothing was written",
        ),
        (FileChange("src/a.py", None, b"A\n"), r"src/a\.py already exists; nothing was written"),
        (FileChange("gone.py", b"x\n", b"A\n"), r"gone\.py no longer exists; nothing was written"),
        (FileChange("src", None, b"A\n"), "src is a directory"),
        (FileChange("src/a.py/x", None, b"A\n"), r"src/a\.py is a file, not a directory"),
        (FileChange("b.py", b"b\n", b"B2\n"), "changed twice"),
        (FileChange("x/y", None, b"A\n"), "x/y cannot be a file and a directory"),
        (FileChange("n" * 300, None, b"A\n"), "too long"),
    ],
)
def test_one_bad_change_undoes_all(repo: Path, change: FileChange, answer: str) -> None:
    before = tree(repo)
    good = [FileChange("b.py", b"b\n", b"B\n"), FileChange("x/y/z.py", None, b"z\n")]
    with pytest.raises(ToolFailed, match=answer):
        DiskWorkspace(repo).apply([*good, change])
    assert tree(repo) == before


def test_guards_are_asked_before_anything_is_written(repo: Path) -> None:
    def guard(access: Access, /) -> Denial | None:
        return Denial("No.") if (access.act, access.target) == ("write", "src/a.py") else None

    before = tree(repo)
    with pytest.raises(ToolDenied, match="No"):
        DiskWorkspace(repo, [guard]).apply(
            [FileChange("b.py", b"b\n", b"B\n"), FileChange("src/a.py", b"a\n", b"A\n")]
        )
    for path in (
        ".git/hooks/pre-commit",
        ".headgate/x",
        "src/.GIT/x",
        ".headgate/outputs/x",
        "../x",
        "/etc/x",
    ):
        with pytest.raises(ToolDenied):
            DiskWorkspace(repo).apply([FileChange("b.py", b"b\n", b"B\n"), FileChange(path, None, b"x")])
    assert tree(repo) == before


def test_symlink_is_written_through(repo: Path, tmp_path: Path) -> None:
    (repo / "link").symlink_to("src/a.py")
    (repo / "dangling").symlink_to("src/new.py")
    (repo / "out").symlink_to("../victim")
    workspace = DiskWorkspace(repo)
    workspace.apply([FileChange("link", b"a\n", b"A\n"), FileChange("dangling", None, b"n\n")])
    assert (repo / "link").is_symlink()
    assert (repo / "src" / "a.py").read_text() == "A\n"
    assert (repo / "src" / "new.py").read_text() == "n\n"
    with pytest.raises(ToolDenied):
        workspace.apply([FileChange("out", None, b"x")])
    assert not (tmp_path / "victim").exists()


def test_read_after_write_is_new(repo: Path) -> None:
    workspace = DiskWorkspace(repo)
    for number in range(20):
        before = workspace.read("b.py").data
        workspace.apply([FileChange("b.py", before, f"{number % 10}\n".encode())])
        assert workspace.read("b.py").data == f"{number % 10}\n".encode()


def test_disk_that_takes_no_more_leaves_everything_as_it_was(repo: Path) -> None:
    """A limit on the size of files makes the second write fail for real."""
    script = f"""
import resource, signal
from pathlib import Path
from headgate.errors import ToolFailed
from headgate.tree.disk import DiskWorkspace
from headgate.tree.workspace import FileChange
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    DiskWorkspace(Path({str(repo)!r})).apply(
        [FileChange("x/y.py", None, b"y"), FileChange("b.py", b"b\\n", b"B" * 5000)]
    )
except ToolFailed as error:
    print(error)
"""
    before = tree(repo)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Nothing was written.")
    assert tree(repo) == before


def test_commit_that_fails_halfway_is_undone(repo: Path) -> None:
    """Between preparing and committing, someone changes one of the files."""
    before = tree(repo)
    folder = os.open(repo, os.O_RDONLY)
    batch = WriteBatch()
    with batch:
        batch.write("b.py", folder, "b.py", b"B\n", mode=0o644, old=(repo / "b.py").stat())
        batch.delete("run.sh", folder, "run.sh", (repo / "run.sh").stat())
        made = batch.make_directories(folder, ("new", "deep"))
        batch.write("new.py", made, "new.py", b"n\n", mode=0o644, old=None)
        batch.write("late.py", folder, "late.py", b"l\n", mode=0o644, old=None)
        (repo / "late.py").write_text("someone else\n")
        with pytest.raises(FileMoved):
            batch.commit()
    os.close(folder)
    assert batch.stranded == []
    assert tree(repo) == before | {"late.py": (b"someone else\n", 0o644)}


def test_reader_sees_old_or_new_never_a_part(repo: Path) -> None:
    old, new = b"0" * 200_000, b"1" * 200_000
    (repo / "b.py").write_bytes(old)
    workspace = DiskWorkspace(repo)
    done = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not done.is_set():
            seen.add((repo / "b.py").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(15):
            workspace.apply([FileChange("b.py", old, new)])
            workspace.apply([FileChange("b.py", new, old)])
    finally:
        done.set()
        reader.join()
    assert seen <= {old, new}


def test_two_writers_cannot_both_win(repo: Path) -> None:
    workspace = DiskWorkspace(repo)
    results: list[str] = []

    def write(text: bytes) -> None:
        try:
            workspace.apply([FileChange("b.py", b"b\n", text)])
            results.append("written")
        except ToolFailed:
            results.append("refused")

    threads = [threading.Thread(target=write, args=(f"{number}\n".encode(),)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["refused"] * 4 + ["written"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owner_is_kept(repo: Path) -> None:
    os.chown(repo / "b.py", 1234, 1235)
    DiskWorkspace(repo).apply([FileChange("b.py", b"b\n", b"B\n")])
    status = (repo / "b.py").stat()
    assert (status.st_uid, status.st_gid) == (1234, 1235)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "d/a", "d/e/b", "f/g"]),
        st.tuples(st.one_of(st.none(), st.binary(max_size=5)), st.one_of(st.none(), st.binary(max_size=5))),
    ),
    st.booleans(),
)
def test_all_or_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    wanted: dict[str, tuple[bytes | None, bytes | None]],
    spoil: bool,
) -> None:
    root = tmp_path_factory.mktemp("batch")
    for name, (before, _) in wanted.items():
        if before is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(before)
    changes = [FileChange(name, before, after) for name, (before, after) in wanted.items()]
    old = tree(root)
    if spoil:
        with pytest.raises(ToolFailed):
            DiskWorkspace(root).apply([*changes, FileChange("spoilt", b"not there", b"x")])
        assert tree(root) == old
    else:
        DiskWorkspace(root).apply(changes)
        files = {name: content[0] for name, content in tree(root).items() if content is not None}
        assert files == {name: after for name, (_, after) in wanted.items() if after is not None}
