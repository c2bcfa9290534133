"""Copies of the tree: they are like it, and nothing that happens in one reaches it."""

import os
import stat
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import HeadgateError
from headgate.tree import CopyImpossible, FileChange, IgnoredPaths, remove_copies, tree_copy
from headgate.tree.copies import MOST_BYTES, copy_prefix

LATIN = os.fsdecode(b"latin-\xe9.py")
FILES = {
    "a.py": b"a\n",
    "src/deep/b.py": b"b\r\n",
    "run.sh": b"echo run\n",
    LATIN: b"\xff",
    ".gitignore": b"build/\n*.log\n*.bin\n",
    "build/out.txt": b"out\n",
    "small.log": b"log\n",
    "large.bin": b"x" * 1_000_001,
    "src/__pycache__/b.pyc": b"old",
    ".pytest_cache/README": b"cache",
    ".headgate/headgate.db": b"db",
}


def make(repo: Path) -> IgnoredPaths:
    repo.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    for name, data in FILES.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (repo / "run.sh").chmod(0o755)
    (repo / "empty").mkdir()
    return IgnoredPaths(repo)


def state(top: Path) -> dict[str, object]:
    """Everything below a folder: what each name is, its mode and its content."""
    found: dict[str, object] = {}
    for folder, folders, names in os.walk(top):
        for path in (Path(folder, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            content: object = None
            if stat.S_ISLNK(mode):
                content = str(path.readlink())
            elif stat.S_ISREG(mode):
                content = sha256(path.read_bytes()).hexdigest()
            found[path.relative_to(top).as_posix()] = (mode, content)
    return found


def test_a_copy_has_what_counts(tmp_path: Path) -> None:
    ignored = make(tmp_path / "repo")
    with tree_copy(tmp_path / "repo", ignored) as tree:
        assert (tree.name, tree) == ("repo", Path(os.path.realpath(tree)))
        assert sorted(path.name for path in tree.iterdir()) == sorted(
            ["a.py", "src", "run.sh", LATIN, ".gitignore", "build", "small.log", "large.bin", "empty"]
        )
        assert [path.name for path in (tree / "src").iterdir()] == ["deep"]
        for name in ("a.py", "src/deep/b.py", LATIN, "small.log", "build/out.txt", "large.bin"):
            assert (tree / name).read_bytes() == FILES[name]
        assert os.access(tree / "run.sh", os.X_OK)
        assert not any((tree / name).is_symlink() for name in ("build", "large.bin", "small.log"))
    assert not tree.exists()
    assert not tree.parent.exists()


def install(repo: Path) -> None:
    """Packages that git ignores."""
    (repo / "node_modules").mkdir()
    (repo / "node_modules" / "x.js").write_text("x\n")
    with (repo / ".gitignore").open("a") as file:
        file.write("node_modules/\n")


def test_installed_packages_are_linked_to(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make(repo)
    install(repo)
    with tree_copy(repo, IgnoredPaths(repo)) as tree:
        assert (tree / "node_modules").readlink() == (repo / "node_modules").resolve()


def test_what_is_too_much_is_not_copied(tmp_path: Path) -> None:
    ignored = make(tmp_path / "repo")
    with (tmp_path / "repo" / "huge.bin").open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # takes no room
    with pytest.raises(CopyImpossible, match="too large"), tree_copy(tmp_path / "repo", ignored):
        pass


def test_copies_of_a_process_that_is_gone_are_removed(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    make(repo)
    left = Path(mkdtemp(prefix=copy_prefix(repo)))
    other = Path(mkdtemp(prefix=copy_prefix(tmp_path / "other")))
    (left / "repo").mkdir()
    remove_copies(repo)
    assert (left.exists(), other.exists()) == (False, True)
    other.rmdir()


def test_changes_are_made_in_the_copy_alone(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    ignored = make(repo)
    before = state(repo)
    changes = [
        FileChange("a.py", b"a\n", b"A\n"),
        FileChange("new/x.sh", None, b"x\n", 0o755),
        FileChange("run.sh", b"echo run\n", None),
        FileChange("gone.py", None, None),
    ]
    with tree_copy(repo, ignored, changes) as tree:
        assert (tree / "a.py").read_bytes() == b"A\n"
        assert os.access(tree / "new/x.sh", os.X_OK)
        assert not (tree / "run.sh").exists()
    assert state(repo) == before


COMMANDS = [
    "echo new > new.txt",
    "rm -f a.py",
    "rm -rf src",
    "mv run.sh other.sh",
    "chmod 000 a.py",
    "find . -name '*.py' -type f -exec sh -c 'echo broken > \"$1\"' _ {} ';'",
    "ln -sf /nowhere a.py",
    "echo x >> inside/b.py",
    "echo x >> absolute/b.py",
    "rm -f small.log; mkdir small.log",
    "rm -rf ./* ./.gitignore",
    "touch ../beside",
]


@settings(max_examples=12)
@given(st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=6))
def test_whatever_a_command_does_in_a_copy_the_tree_stays_as_it_is(commands: list[str]) -> None:
    with TemporaryDirectory() as place:
        repo = Path(place) / "repo"
        ignored = make(repo)
        (repo / "inside").symlink_to("src/deep")
        (repo / "absolute").symlink_to(repo / "src" / "deep")
        before = state(Path(place))
        with tree_copy(repo, ignored) as tree:
            for command in commands:
                subprocess.run(["sh", "-c", command], cwd=tree, stderr=subprocess.DEVNULL, check=False)
        assert state(Path(place)) == before


def test_links_that_stay_inside_lead_into_the_copy_and_others_where_they_led(tmp_path: Path) -> None:
    repo, beside = tmp_path / "repo", tmp_path / "beside"
    ignored = make(repo)
    beside.mkdir()
    (beside / "data.txt").write_text("data\n")
    links = {
        "near": "src/deep/b.py",
        "src/up": "../a.py",
        "absolute": str(repo / "src"),
        "out": "../beside/data.txt",
        "src/out": "../../beside",
        "far": str(beside / "data.txt"),
        "broken": "nowhere",
        "round": "round",
    }
    for name, target in links.items():
        (repo / name).symlink_to(target)
    with tree_copy(repo, ignored) as tree:
        found = {name: str((tree / name).readlink()) for name in links}
        assert found == {
            **links,
            "absolute": str(tree / "src"),
            "out": str(beside / "data.txt"),
            "src/out": str(beside),
        }
        assert (tree / "src" / "out" / "data.txt").read_text() == "data\n"


@pytest.mark.parametrize("path", ["out/data.txt", "node_modules/x.js", "link.bin", "../x"])
def test_no_change_is_made_behind_a_link_that_leads_out(tmp_path: Path, path: str) -> None:
    repo = tmp_path / "repo"
    ignored = make(repo)
    (tmp_path / "beside").mkdir()
    (repo / "out").symlink_to("../beside")
    (repo / "link.bin").symlink_to("large.bin")
    install(repo)
    ignored = IgnoredPaths(repo)
    before = state(tmp_path)
    with (
        pytest.raises(
            HeadgateError, match="cannot be tried out in a copy: a symbolic link points outside it"
        ),
        tree_copy(repo, ignored, [FileChange(path, None, b"new")]),
    ):
        pass
    assert state(tmp_path) == before


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with names")
def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    ignored = make(tmp_path / "repo")
    os.mkfifo(tmp_path / "repo" / "pipe")
    with tree_copy(tmp_path / "repo", ignored) as tree:
        assert not (tree / "pipe").exists()
