"""Paths cannot leave the repository, whatever they are made of."""

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core import Access, Ask, Denial, show_path
from headgate.errors import ToolDenied, ToolError, ToolFailed
from headgate.tree import DirectoryEntry, DiskWorkspace, File


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a\n")
    (root / "src" / "deep" / "b.py").write_text("b\n")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    (tmp_path / "outside.txt").write_text("secret\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.py").write_text("secret\n")
    return root


@pytest.mark.parametrize(
    "path",
    [
        "src/a.py",
        "./src/a.py",
        "src//a.py",
        "src/./a.py",
        "src/deep/../a.py",
        "src/new/../a.py",
        '"src/a.py"',
    ],
)
def test_spellings_of_one_path(repo: Path, path: str) -> None:
    workspace = DiskWorkspace(repo)
    assert workspace.read(path) == File("src/a.py", b"a\n", 0o644)
    assert workspace.locate(path) == "src/a.py"


def test_absolute_path_into_the_repository(repo: Path, tmp_path: Path) -> None:
    assert DiskWorkspace(repo).locate(str(repo / "src" / "a.py")) == "src/a.py"
    (tmp_path / "alias").symlink_to(repo)
    assert DiskWorkspace(tmp_path / "alias").locate(str(tmp_path / "alias" / "src" / "a.py")) == "src/a.py"


def test_root_is_the_empty_path(repo: Path) -> None:
    workspace = DiskWorkspace(repo)
    assert [workspace.locate(path) for path in ("", ".", "./", "src/..", str(repo))] == [""] * 5


@pytest.mark.parametrize(
    "path",
    [
        "../outside.txt",
        "src/../../outside.txt",
        "/etc/passwd",
        "/",
        "src/deep/../../../repo/src/a.py",
        "..",
        "//etc/passwd",
    ],
)
def test_paths_outside_are_denied(repo: Path, path: str) -> None:
    workspace = DiskWorkspace(repo)
    for method in (workspace.read, workspace.locate, workspace.exists, workspace.list, workspace.files):
        with pytest.raises(ToolDenied, match="outside the repository"):
            method(path)


def test_absolute_path_of_a_sibling_with_the_same_prefix(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    with pytest.raises(ToolDenied):
        DiskWorkspace(repo).locate(str(tmp_path / "repository" / "x"))


def test_symlinks_inside_are_followed(repo: Path) -> None:
    (repo / "link.py").symlink_to("src/a.py")
    (repo / "folder").symlink_to(repo / "src" / "deep")
    (repo / "src" / "up").symlink_to("../src/deep/../a.py")
    workspace = DiskWorkspace(repo)
    assert workspace.locate("link.py") == "src/a.py"
    assert workspace.read("folder/b.py").path == "src/deep/b.py"
    assert workspace.read("src/up").path == "src/a.py"
    assert workspace.locate("folder/../a.py") == "src/a.py"


@pytest.mark.parametrize("target", ["../outside.txt", "/etc/passwd", "src/../../outside.txt"])
def test_symlinks_outside_are_denied(repo: Path, target: str) -> None:
    (repo / "link").symlink_to(target)
    with pytest.raises(ToolDenied, match="outside the repository"):
        DiskWorkspace(repo).read("link")


def test_symlinked_directory_outside_is_denied(repo: Path, tmp_path: Path) -> None:
    (repo / "out").symlink_to("../elsewhere")
    workspace = DiskWorkspace(repo)
    with pytest.raises(ToolDenied):
        workspace.read("out/x.py")
    with pytest.raises(ToolDenied):
        workspace.list("out")
    assert [path for path in workspace.files() if "out" in path] == []


def test_symlink_loop_ends(repo: Path) -> None:
    (repo / "one").symlink_to("two")
    (repo / "two").symlink_to("one")
    with pytest.raises(ToolFailed, match="too many symbolic links"):
        DiskWorkspace(repo).read("one")


def test_race_between_check_and_use_never_shows_what_is_outside(repo: Path, tmp_path: Path) -> None:
    """A directory that is swapped for a symlink all the time: the reader gets the inside or an error."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (repo / "swap").mkdir()
            (repo / "swap" / "x.py").write_text("inside\n")
            (repo / "swap" / "x.py").unlink()
            (repo / "swap").rmdir()
            (repo / "swap").symlink_to("../elsewhere")
            (repo / "swap").unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(2000):
            try:
                seen.add(DiskWorkspace(repo).read("swap/x.py").data)
            except ToolError:
                seen.add(b"error")
    finally:
        stop.set()
        swapper.join()
    assert seen <= {b"inside\n", b"", b"error"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "", "src", "deep", "in", "out", "abs", "a.py", "/"]), max_size=8))
def test_no_combination_leads_outside(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    top = tmp_path_factory.getbasetemp() / "combinations"
    root = top / "repo"
    if not root.exists():
        (root / "src" / "deep").mkdir(parents=True)
        (top / "a.py").write_text("outside")
        (root / "a.py").write_text("inside")
        (root / "src" / "in").symlink_to("../src/deep")
        (root / "out").symlink_to("..")
        (root / "src" / "out").symlink_to("../..")
        (root / "abs").symlink_to(root / "src")
    workspace = DiskWorkspace(root)
    path = "/".join(parts)
    try:
        located = workspace.locate(path)
    except ToolError:
        return
    real = Path(os.path.realpath(root / located))
    assert real == root.resolve() / located
    assert workspace.locate(show_path(located) if located else "") == located


class TestAnswers:
    def test_missing_file_with_suggestions(self, repo: Path) -> None:
        workspace = DiskWorkspace(repo)
        with pytest.raises(ToolFailed, match=r"^src/aa\.py does not exist\. Did you mean src/a\.py\?$"):
            workspace.read("src/aa.py")
        with pytest.raises(ToolFailed, match=r"Did you mean src/deep/b\.py\?"):
            workspace.read("lib/b.py")
        with pytest.raises(ToolFailed, match=r"^scr does not exist\. Did you mean src\?$"):
            workspace.list("scr")
        with pytest.raises(ToolFailed, match=r"^nothing-like-it\.txt does not exist\.$"):
            workspace.read("nothing-like-it.txt")

    def test_directory_where_a_file_is_expected(self, repo: Path) -> None:
        with pytest.raises(ToolFailed, match="src is a directory, not a file"):
            DiskWorkspace(repo).read("src")

    def test_file_where_a_directory_is_expected(self, repo: Path) -> None:
        workspace = DiskWorkspace(repo)
        for call in (workspace.list, workspace.files):
            with pytest.raises(ToolFailed, match=r"src/a\.py is a file, not a directory"):
                call("src/a.py")
        with pytest.raises(ToolFailed, match=r"src/a\.py is a file, not a directory"):
            workspace.read("src/a.py/x")

    def test_special_files_are_never_waited_for(self, repo: Path) -> None:
        os.mkfifo(repo / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(repo / "sock"))
            workspace = DiskWorkspace(repo)
            with pytest.raises(ToolFailed, match="pipe is a named pipe, not a regular file"):
                workspace.read("pipe")
            with pytest.raises(ToolFailed, match="sock is a socket, not a regular file"):
                workspace.read("sock")
        assert DirectoryEntry("pipe", "other") in workspace.list()
        assert "pipe" not in list(workspace.files())

    def test_odd_names(self, repo: Path) -> None:
        workspace = DiskWorkspace(repo)
        with pytest.raises(ToolFailed, match="NUL"):
            workspace.read("a\0b")
        with pytest.raises(ToolFailed, match="too long"):
            workspace.read("x" * 5000)
        with pytest.raises(ToolFailed, match="no file name can have"):
            workspace.read("a\ud800")
        with pytest.raises(ToolFailed, match="does not exist"):
            workspace.read('"\\999"')

    def test_too_large(self, repo: Path) -> None:
        (repo / "big").write_bytes(b"x" * 101)
        with pytest.raises(ToolFailed, match=r"big is too large to read \(101 bytes, the limit is 100\)"):
            DiskWorkspace(repo, max_bytes=100).read("big")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_permission_denied(self, repo: Path) -> None:
        (repo / "src" / "a.py").chmod(0)
        with pytest.raises(ToolFailed, match="permission denied"):
            DiskWorkspace(repo).read("src/a.py")


class TestGuards:
    def test_guards_see_the_canonical_path_and_the_links_on_the_way(self, repo: Path) -> None:
        (repo / "link.py").symlink_to("src/a.py")
        asked: list[Access] = []

        def guard(access: Access, /) -> None:
            asked.append(access)

        DiskWorkspace(repo, [guard]).read("./link.py")
        assert asked == [Access("read", "src/a.py"), Access("read", "link.py")]

    def test_denial_and_question(self, repo: Path) -> None:
        def deny(access: Access, /) -> Denial | None:
            return Denial("Not this one.") if access.target == "src/a.py" else None

        def ask(access: Access, /) -> Ask | None:
            return Ask("Really?") if access.target == "src/deep/b.py" else None

        workspace = DiskWorkspace(repo, [deny, ask])
        with pytest.raises(ToolDenied, match=r"^Not this one\.$"):
            workspace.read("src/a.py")
        with pytest.raises(ToolDenied, match=r"^Only a person can allow this\.$"):
            workspace.read("src/deep/b.py")
        assert list(workspace.files()) == []

    @pytest.mark.parametrize(
        "path",
        [
            ".git/config",
            ".git",
            ".GIT/config",
            "src/.git",
            "src/.Git/hooks/x",
            ".headgate/headgate.db",
            "l/config",
        ],
    )
    def test_internal_files(self, repo: Path, path: str) -> None:
        (repo / "l").symlink_to(".git")
        with pytest.raises(ToolDenied, match=r"\.git|\.headgate"):
            DiskWorkspace(repo).read(path)

    def test_saved_outputs_can_be_read(self, repo: Path) -> None:
        for folder in ("outputs", "runs/run_1"):
            (repo / ".headgate" / folder).mkdir(parents=True)
            (repo / ".headgate" / folder / "x.log").write_text("log\n")
        workspace = DiskWorkspace(repo)
        assert workspace.read(".headgate/outputs/x.log").text == "log\n"
        assert workspace.read(".headgate/runs/run_1/x.log").text == "log\n"
        assert workspace.list() == [DirectoryEntry("src", "dir")]
        assert workspace.list(".headgate/outputs") == [DirectoryEntry("x.log", "file", 4)]
        with pytest.raises(ToolDenied):
            workspace.read(".headgate/outputs/../headgate.db")


def test_names_of_any_kind_can_be_given_back(repo: Path) -> None:
    names = [
        "with space",
        "tab\there",
        'quo"te',
        '"quoted"',
        "new\nline",
        "odd\udcff",
        "ünï",
        " lead",
        "back\\slash",
    ]
    for name in names:
        (repo / name).write_text(ascii(name))
    workspace = DiskWorkspace(repo)
    listed = [entry.name for entry in workspace.list() if entry.kind == "file"]
    assert listed == sorted(names)
    for name in names:
        assert workspace.read(show_path(name)) == File(name, ascii(name).encode(), 0o644)


def test_many_threads(repo: Path) -> None:
    workspace = DiskWorkspace(repo)
    wrong: list[object] = []

    def work() -> None:
        for _ in range(100):
            if workspace.read("src/a.py").data != b"a\n" or list(workspace.files("src")) != [
                "src/a.py",
                "src/deep/b.py",
            ]:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_descriptor_is_left_open(repo: Path) -> None:
    workspace = DiskWorkspace(repo)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("src/a.py", "nope/x", "../x", ".git/config", "src", "src/a.py/x"):
        for method in (workspace.read, workspace.list, workspace.locate, workspace.exists):
            try:
                method(path)
            except ToolError:
                continue
    assert len(list(Path("/proc/self/fd").iterdir())) == before
