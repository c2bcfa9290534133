"""What is read from git's own files is what git itself says, whatever form they have."""

import os
import subprocess
from pathlib import Path

import pytest

from headgate.errors import HeadgateError
from headgate.tree import GitFailed, git, tracked_files
from headgate.tree.git_files import Setting, UnusualFiles, objects_in, read_settings

WHO = "git config user.name T; git config user.email t@localhost; git config commit.gpgsign false;"
COMMIT = f"{WHO} echo a > a; mkdir -p d; echo b > 'd/b \"q\" é'; chmod +x a; git add -A; git commit -qm x;"


def sh(place: Path, command: str) -> None:
    subprocess.run(["sh", "-euc", command], cwd=place, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of a user with settings of their own."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/ignore\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    path = tmp_path / "repo"
    path.mkdir()
    sh(path, "git init -q -b main")
    return path


def files_of_git(repo: Path) -> dict[str, tuple[str, str]]:
    rows = [row.partition(b"\t") for row in git(repo, "ls-files", "-s", "-z").split(b"\0") if row]
    return {os.fsdecode(path): (mode.decode()[:6], mode.decode().split()[1]) for mode, _, path in rows}


def settings_of_git(repo: Path) -> list[Setting]:
    out = git(repo, "config", "--list", "--show-scope", "--show-origin", "-z")
    fields = [os.fsdecode(field) for field in out.split(b"\0")]
    rows = zip(fields[::3], fields[1::3], fields[2::3], strict=False)
    return [
        Setting(scope, origin.removeprefix("file:"), text.partition("\n")[0], text.partition("\n")[2])
        for scope, origin, text in rows
        if origin.startswith("file:")
    ]


DEEP = "/".join(["folder"] * 60)
INDEXES = {
    "none": "",
    "some files": COMMIT,
    "an added file without content": f"{COMMIT} echo n > new; git add -N new",
    "a conflict": f"{COMMIT} git checkout -qb o; echo o > a; git commit -qam o; git checkout -q main;"
    " echo m > a; git commit -qam m; git merge -q o || true",
    "shortened paths": f"{COMMIT} git update-index --index-version 4",
    "a split index": f"{COMMIT} echo c > c; git update-index --split-index; git add c",
    "folders for files": f"{COMMIT} git sparse-checkout init --cone --sparse-index",
    "a link and a long path": f"{COMMIT} ln -s a b; mkdir -p {DEEP}; echo > {DEEP}/x; git add -A",
    "another repository": f"{COMMIT} git init -q sub; cd sub; {COMMIT} cd ..; git add sub",
    "SHA-256": f"rm -rf .git; git init -q --object-format=sha256; {COMMIT}",
}


@pytest.mark.parametrize("made", INDEXES.values(), ids=INDEXES)
def test_the_index(repo: Path, made: str) -> None:
    sh(repo, made)
    assert tracked_files(repo) == files_of_git(repo)
    for worktree in [repo.parent / "other"] if "commit" in made and "sub" not in made else []:
        sh(repo, f"git worktree add -q -b other {worktree} || true")
        assert tracked_files(worktree) == files_of_git(worktree)


SETTINGS = {
    "usual": 'git config a.b c; git config x.url "https://x/y z"; git config branch."M a.in".merge x',
    "quoted": "git config a.b 'c # d'; git config a.c ' e '; git config a.d 'x\"y\\z'",
    "odd": "printf '[A.B] c\\n[D]e=f\\n[x]\\n\\tg\\n;;\\n\\th =  i\\tj k ; l\\n' >> .git/config",
    "continued": "printf '[x]\\n\\tm = n\\\\\\n o\\n' >> .git/config",
    "empty values": "printf '[x]\\n\\ta =\\n\\tb=1\\n\\tc-d   =   2\\n' >> .git/config",
    "capital letters": "printf '[Core]\\n\\tHooksPath = H\\n[a \"B\"]\\n\\tC = D\\n' >> .git/config",
    "an include": "git config include.path ../more; git config --file more x.y z",
    "a condition": "git config --global includeIf.onbranch:main.path more; git config -f ~/more x.y z",
    "settings of a worktree": "git config extensions.worktreeConfig true; git config --worktree a.b c",
    "lines of Windows": "printf '[x]\\r\\n\\ty = z\\r\\n' >> .git/config",
    "wrong": "printf '[x\\n' >> .git/config",
}


@pytest.mark.parametrize("made", SETTINGS.values(), ids=SETTINGS)
def test_settings(repo: Path, made: str) -> None:
    sh(repo, f"{COMMIT} {made}")
    for _ in range(2):
        try:
            expected = settings_of_git(repo)
        except GitFailed:
            expected = []
        assert [one for one in read_settings(repo) if one.file] == expected


def test_settings_that_change_outside_the_repository(repo: Path) -> None:
    read_settings(repo)
    for number in range(3):
        sh(repo, f"git config --global x.y {number}")
        assert [one for one in read_settings(repo) if one.file] == settings_of_git(repo)


def test_a_folder_that_git_refuses(repo: Path) -> None:
    sh(repo, f"{COMMIT} echo nonsense > .git/HEAD")
    with pytest.raises(GitFailed):
        tracked_files(repo)
    with pytest.raises(HeadgateError):
        tracked_files(repo / "d")


@pytest.mark.parametrize("packed", ["", "git gc -q;", "git gc -q; echo n > new; git add new;"])
def test_objects(repo: Path, packed: str) -> None:
    sh(repo, f"{COMMIT} for n in $(seq 300); do echo $n > $n; done; git add -A; git commit -qm y; {packed}")
    names = {name for _, name in tracked_files(repo).values()}
    assert objects_in(repo / ".git" / "objects", {*names, "0" * 40, "f" * 40}) == names


def test_objects_of_another_repository_are_left_to_git(repo: Path) -> None:
    sh(repo, f"{COMMIT} git clone -q --shared . ../clone")
    with pytest.raises(UnusualFiles):
        objects_in(repo.parent / "clone" / ".git" / "objects", {"0" * 40})
