"""The walk finds exactly what git does not ignore."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.tree import DiskWorkspace, Rules, ancestors, expand_braces

GIT = shutil.which("git")
ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "HOME": "/nonexistent",
    "PATH": "/usr/bin:/bin",
}


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def git_files(root: Path) -> list[str]:
    """What git would show as untracked: everything that is not ignored, in an empty repository."""
    assert GIT is not None
    if not (root / ".git").exists():
        subprocess.run([GIT, "init", "-q", "--template="], cwd=root, env=ENV, check=True)
    done = subprocess.run(
        [GIT, "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=root,
        env=ENV,
        check=True,
        capture_output=True,
    )
    return sorted(name.decode() for name in done.stdout.split(b"\0") if name)


def test_rules_at_every_level(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.log\nbuild/\n/only-here\n!keep.log\n",
            ".git/info/exclude": "excluded.txt\n",
            "a.log": "",
            "keep.log": "",
            "excluded.txt": "",
            "only-here": "",
            "build/out.py": "",
            "sub/only-here": "",
            "sub/.gitignore": "!a.log\nlocal\n",
            "sub/a.log": "",
            "sub/b.log": "",
            "sub/local": "",
            "sub/src/build/x": "",
            "sub-x.py": "",
            "sub.py": "",
            ".hidden/x": "",
            ".headgate/outputs/x": "",
        },
    )
    workspace = DiskWorkspace(tmp_path)
    assert list(workspace.files()) == [
        ".gitignore",
        ".hidden/x",
        "keep.log",
        "sub-x.py",
        "sub.py",
        "sub/.gitignore",
        "sub/a.log",
        "sub/only-here",
    ]
    assert list(workspace.files("sub")) == ["sub/.gitignore", "sub/a.log", "sub/only-here"]
    assert list(workspace.files("build")) == ["build/out.py"]


def test_exclude_file_of_a_worktree(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "main/info/exclude": "skip\n",
            "main/worktrees/w/commondir": "../..\n",
            "tree/.git": f"gitdir: {tmp_path}/main/worktrees/w\n",
            "tree/skip": "",
            "tree/keep": "",
        },
    )
    assert list(DiskWorkspace(tmp_path / "tree").files()) == ["keep"]


def test_symlinks_are_not_listed(tmp_path: Path) -> None:
    write(tmp_path, {"real/x": ""})
    (tmp_path / "linked").symlink_to("real")
    (tmp_path / "file").symlink_to("real/x")
    assert list(DiskWorkspace(tmp_path).files()) == ["real/x"]


NAMES = ["a", "b", "ab", "a.py", "b.log", ".x", "a b", "[a]", "!a"]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
PIECES = st.one_of(
    st.sampled_from(
        ("a", "b", "ab", "*", "**", "?", ".py", ".log", "/", ".", "-", "#", "!", " ", "**/", "/**")
    ),
    st.sampled_from(("[ab]", "[!a]", "[^b]", "[a-b]", "[b-a]", "[]a]", "[[:alpha:]]", "[", "]")),
    st.sampled_from((r"\*", r"\!", "\\", r"\ ", r"[\]a]")),
)
LINES = st.builds(
    lambda negated, pieces, slash: ("!" if negated else "") + "".join(pieces) + ("/" if slash else ""),
    st.booleans(),
    st.lists(PIECES, max_size=4),
    st.booleans(),
)


@pytest.mark.skipif(GIT is None, reason="needs git")
@settings(max_examples=60)
@given(st.sets(PATHS, min_size=1, max_size=10), st.lists(LINES, max_size=5), st.lists(LINES, max_size=3))
def test_same_as_git(
    tmp_path_factory: pytest.TempPathFactory, paths: set[str], top: list[str], nested: list[str]
) -> None:
    root = tmp_path_factory.mktemp("git")
    for path in sorted(paths):
        folders = path.split("/")[:-1]
        if any((root / "/".join(folders[: depth + 1])).is_file() for depth in range(len(folders))):
            continue
        if not (root / path).is_dir():
            write(root, {path: ""})
    (root / ".gitignore").write_text("\n".join(top) + "\n")
    for folder in ("a", "b/ab"):
        if (root / folder).is_dir():
            (root / folder / ".gitignore").write_text("\r\n".join(nested) + "\r\n")
    assert list(DiskWorkspace(root).files()) == git_files(root)


def test_covers_goes_by_the_nearest_directory() -> None:
    rules = Rules(["secret/", "*.pem", "!public.pem", "!secret/open/"])
    paths = ["secret/x", "a/secret/b/c", "x.pem", "d/public.pem", "secret", "secret/open/x", "other"]
    assert [path for path in paths if rules.covers(path)] == ["secret/x", "a/secret/b/c", "x.pem"]
    assert Rules(["MIGRATIONS"], ignore_case=True).covers("db/Migrations/1.sql")


@given(st.lists(PATHS, max_size=10), st.lists(LINES, max_size=4), st.booleans())
def test_many_paths_are_judged_as_each_is(paths: list[str], lines: list[str], ignore_case: bool) -> None:
    rules = Rules(lines, ignore_case=ignore_case)

    def is_meant(path: str) -> bool:
        folders = (rules.verdict(folder, is_dir=True) for folder in ancestors(path))
        verdicts = (rules.verdict(path, is_dir=False), *folders)
        return bool(next((one for one in verdicts if one is not None), False))

    meant = [path for path in paths if is_meant(path)]
    assert (rules.covered(paths), [*filter(rules.covers, paths)]) == (meant, meant)


def test_braces() -> None:
    assert expand_braces("*.{ts,tsx}") == ["*.ts", "*.tsx"]
    assert expand_braces("{a,b}/{c,d}") == ["a/c", "a/d", "b/c", "b/d"]
    assert expand_braces("{a,{b,c}}") == ["a", "b", "c"]
    assert expand_braces("{single}") == ["{single}"]
    assert len(expand_braces("{a,b}" * 20)) <= 65
