"""Whatever a command does to protected files, they are as before afterwards. Real files, real commands."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.guard import Boundaries, OnlyInside, ProtectedTree, Restored, Rule
from headgate.tree import IgnoredPaths, Snapshots

WHY = "it is protected"
Picture = dict[str, tuple[str, int, bytes]]


def picture(root: Path, covers: Callable[[str], bool] = lambda path: True) -> Picture:
    """Every file that is covered, with kind, mode and content; symlinks are not followed."""
    found: Picture = {}
    for place, directories, files in os.walk(root):
        if ".git" in directories:
            directories.remove(".git")
        for name in directories + files:
            full = Path(place, name)
            path = full.relative_to(root).as_posix()
            if covers(path) and full.is_symlink():
                found[path] = ("link", 0, os.fsencode(full.readlink()))
            elif covers(path) and full.is_file():
                found[path] = ("file", stat.S_IMODE(full.stat().st_mode), full.read_bytes())
    return found


def sh(root: Path, script: str) -> None:
    subprocess.run(["bash", "-c", script], cwd=root, check=False, capture_output=True, timeout=60)


def fill(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "kept" / "deep" / "er").mkdir(parents=True)
    (root / "kept" / "empty").mkdir()
    (root / "free").mkdir()
    (root / "kept" / "a.txt").write_bytes(b"one\r\ntwo")
    (root / "kept" / "none.txt").write_bytes(b"")
    (root / "kept" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "kept" / "run.sh").chmod(0o755)
    (root / "kept" / "deep" / "same.bin").write_bytes(bytes(range(256)))
    (root / "kept" / "deep" / "er" / "same.bin").write_bytes(bytes(range(256)))
    (root / "kept" / "link").symlink_to("deep/./same.bin")
    (root / "kept" / "away").symlink_to("/nowhere//at all")
    (root / "kept" / "odd \udcff\nname").write_bytes(b"odd")
    (root / "free" / "f.txt").write_bytes(b"free")
    (root / "free" / "x.lock").write_bytes(b"locked")


class Place:
    """A tree with `kept/` and every lock file out of bounds."""

    def __init__(self, folder: Path, patterns: tuple[str, ...] = ("kept/**", "*.lock"), **more: Any) -> None:
        self.root = folder / "repo"
        fill(self.root)
        self.rules = Boundaries(patterns)
        self.folder = self.root / ".git/headgate/protected/t1"
        self.more = more
        self.protected = self.reopen()
        self.before = self.look()

    def reopen(self) -> ProtectedTree:
        """What a new process has."""
        rule = Rule("kept", WHY, self.rules.covers, self.rules.enters)
        return ProtectedTree(Snapshots(self.root), [rule], self.folder, **self.more)

    def look(self) -> Picture:
        return picture(self.root, self.rules.covers)

    def run(self, script: str) -> tuple[Restored, ...]:
        assert self.protected.begin() == ()
        sh(self.root, script)
        return self.protected.check_and_restore()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


CASES = {
    "modify": ("echo x > kept/a.txt", [("changed", "kept/a.txt")]),
    "append": ("echo x >> kept/a.txt", [("changed", "kept/a.txt")]),
    "same size, old time": (
        "touch -r kept/a.txt t; printf 'ONE..TWO' > kept/a.txt; touch -r t kept/a.txt",
        [("changed", "kept/a.txt")],
    ),
    "delete": ("rm kept/a.txt", [("deleted", "kept/a.txt")]),
    "delete a directory": (
        "rm -rf kept/deep",
        [("deleted", "kept/deep/er/same.bin"), ("deleted", "kept/deep/same.bin")],
    ),
    "create": ("echo x > kept/new.txt", [("created", "kept/new.txt")]),
    "create in directories": ("mkdir -p kept/n/m; echo x > kept/n/m/o", [("created", "kept/n/m/o")]),
    "create elsewhere": ("mkdir n; touch n/y.lock n/other", [("created", "n/y.lock")]),
    "rename": (
        "mv kept/a.txt kept/b.txt",
        [("deleted", "kept/a.txt"), ("created", "kept/b.txt")],
    ),
    "rename out": ("mv kept/a.txt free/", [("deleted", "kept/a.txt")]),
    "chmod": ("chmod 600 kept/run.sh", [("changed", "kept/run.sh")]),
    "unreadable": ("chmod 000 kept/a.txt", [("changed", "kept/a.txt")]),
    "replace by a symlink": ("ln -sf ../free/f.txt kept/a.txt", [("changed", "kept/a.txt")]),
    "replace by a copy": ("cp -p kept/a.txt t; mv t kept/a.txt", []),
    "replace a symlink": ("ln -sf elsewhere kept/link", [("changed", "kept/link")]),
    "symlink by its content": ("rm kept/link; cp kept/deep/same.bin kept/link", [("changed", "kept/link")]),
    "file by a directory": (
        "rm kept/a.txt; mkdir -p kept/a.txt/in; touch kept/a.txt/in/x",
        [("deleted", "kept/a.txt"), ("created", "kept/a.txt/in/x")],
    ),
    "directory by a symlink": (
        "mv kept real; ln -s real kept",
        [
            ("deleted", "kept/a.txt"), ("deleted", "kept/away"), ("deleted", "kept/deep/er/same.bin"),
            ("deleted", "kept/deep/same.bin"), ("deleted", "kept/link"),
            ("deleted", "kept/none.txt"), ("deleted", '"kept/odd \\377\\nname"'), ("deleted", "kept/run.sh"),
        ],
    ),
    "through a hard link": ("ln kept/a.txt free/h; echo x >> free/h", [("changed", "kept/a.txt")]),
    "a broken symlink": ("ln -s nowhere kept/broken", [("created", "kept/broken")]),
    "another letter case": (
        "mkdir KEPT; touch KEPT/x Y.LOCK", [("created", "KEPT/x"), ("created", "Y.LOCK")],
    ),
    "a hidden new directory": ("mkdir kept/n; touch kept/n/x; chmod 000 kept/n", [("created", "kept/n/x")]),
    "touch": ("touch kept/a.txt kept/deep", []),
    "what is free": ("echo x > free/f.txt; rm -r free/f.txt; touch new", []),
    "caches": ("mkdir kept/__pycache__; touch kept/__pycache__/a.pyc", []),
    "nothing": ("true", []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_command_did_is_undone(place: Place, name: str) -> None:
    script, told = CASES[name]
    restored = place.run(script)
    assert place.look() == place.before
    assert sorted(restored, key=lambda one: one.path) == sorted(
        (Restored(path, change, WHY) for change, path in told), key=lambda one: one.path
    )
    assert place.run("true") == ()


def test_the_same_change_is_undone_each_time(place: Place) -> None:
    assert place.protected.begin() == ()
    for look in (place.protected.begin, place.protected.begin, place.protected.check_and_restore):
        sh(place.root, "echo other > kept/a.txt")
        assert [one.path for one in look()] == ["kept/a.txt"]
        assert place.look() == place.before


def test_what_was_free_stays(place: Place) -> None:
    place.run("echo x > free/f.txt; mkdir -p n; touch n/y.lock n/other; mv kept/a.txt free/moved.txt")
    assert (place.root / "free" / "f.txt").read_text() == "x\n"
    assert (place.root / "free" / "moved.txt").read_bytes() == b"one\r\ntwo"
    assert [path.name for path in (place.root / "n").iterdir()] == ["other"]


def test_new_directories_stay_if_something_free_is_in_them(tmp_path: Path) -> None:
    place = Place(tmp_path, ("kept/**", "!kept/**/*.log"))
    assert [one.path for one in place.run("mkdir kept/n; touch kept/n/a.log kept/n/b.txt")] == [
        "kept/n/b.txt"
    ]
    assert [path.name for path in (place.root / "kept" / "n").iterdir()] == ["a.log"]


def test_sentences() -> None:
    assert [
        Restored("a.py", "changed", "it is out of bounds for this task").sentence(),
        Restored("b.py", "created", WHY).sentence(),
        Restored("c.bin", "deleted", WHY, "no copy of its content was kept").sentence(),
    ] == [
        "Restored: a.py (it is out of bounds for this task; the command had changed it).",
        "Removed: b.py (it is protected; the command had created it).",
        "Could not be restored: c.bin (it is protected; the command had deleted it, and no copy of its"
        " content was kept).",
    ]


class TestBetweenCommands:
    def test_what_the_first_command_found_counts(self, place: Place) -> None:
        """A process that outlived its command changes files while none runs."""
        place.run("true")
        (place.root / "kept" / "a.txt").write_text("a daemon's")
        (place.root / "kept" / "new.txt").write_text("too")
        (place.root / "kept" / "run.sh").unlink()
        assert place.protected.begin() == (
            Restored("kept/a.txt", "changed", WHY, between=True),
            Restored("kept/new.txt", "created", WHY, between=True),
            Restored("kept/run.sh", "deleted", WHY, between=True),
        )
        assert place.look() == place.before
        sh(place.root, "echo x > kept/a.txt")
        assert place.protected.check_and_restore() == (Restored("kept/a.txt", "changed", WHY),)

    def test_a_check_undoes_it_at_any_time(self, place: Place) -> None:
        assert place.protected.check_and_restore() == ()
        place.run("true")
        sh(place.root, "rm kept/a.txt")
        told = (Restored("kept/a.txt", "deleted", WHY, between=True),)
        assert place.protected.check_and_restore() == told
        assert place.look() == place.before

    def test_what_stood_in_the_way_is_moved_aside(self, place: Place) -> None:
        place.run("echo precious > kept/a.txt; echo new > kept/new.txt; ln -s / kept/l")
        aside = {
            path.relative_to(place.folder / "aside").as_posix()[5:]: path.read_text()
            for path in (place.folder / "aside").rglob("*")
            if path.is_file()
        }
        assert aside == {"kept/a.txt": "precious\n", "kept/new.txt": "new\n"}
        place.protected.forget()
        assert [path.name for path in place.folder.iterdir()] == ["aside"]


class TestCrash:
    def test_a_command_that_outlived_us_is_undone(self, place: Place) -> None:
        place.protected.begin()
        sh(place.root, "rm -r kept/deep; echo x > kept/a.txt; touch kept/new")
        paths = ["kept/a.txt", "kept/deep/er/same.bin", "kept/deep/same.bin", "kept/new"]
        assert [one.path for one in place.reopen().begin()] == paths
        assert place.look() == place.before
        assert place.reopen().begin() == ()

    def test_modes_are_as_before(self, place: Place) -> None:
        for name, mode in (("a.txt", 0o600), ("none.txt", 0o660), ("run.sh", 0o700)):
            (place.root / "kept" / name).chmod(mode)
        before = place.look()
        place.protected.begin()
        sh(place.root, "cd kept; echo x > a.txt; rm none.txt; chmod 777 run.sh deep/same.bin")
        told = [one.path for one in place.reopen().check_and_restore()]
        assert told == ["kept/a.txt", "kept/deep/same.bin", "kept/none.txt", "kept/run.sh"]
        assert place.look() == before

    def test_a_check_does_it_too(self, place: Place) -> None:
        place.protected.begin()
        sh(place.root, "rm kept/a.txt")
        again = place.reopen()
        assert [one.path for one in again.check_and_restore()] == ["kept/a.txt"]
        assert again.check_and_restore() == place.reopen().check_and_restore() == ()

    def test_after_a_finished_command_nothing_is_undone(self, place: Place) -> None:
        place.run("true")
        (place.root / "kept" / "a.txt").write_text("a person's")
        assert place.reopen().check_and_restore() == place.reopen().begin() == ()
        assert (place.root / "kept" / "a.txt").read_text() == "a person's"

    def test_a_torn_note(self, place: Place) -> None:
        place.protected.begin()
        note = place.folder / "running.json"
        note.write_text(note.read_text()[:20])
        assert place.reopen().begin() == ()

    def test_what_git_ignores_and_what_stayed(self, place: Place) -> None:
        (place.root / ".gitignore").write_text("*.lock\n")
        place.protected.begin()
        sh(place.root, "rm free/x.lock; echo x > kept/a.txt; echo x > .git/config")
        told = [one.path for one in place.reopen().check_and_restore()]
        assert told == [".git/config", "free/x.lock", "kept/a.txt"]
        assert place.look() == place.before


class TestContents:
    def test_what_is_too_large_is_said_not_hidden(self, place: Place) -> None:
        with (place.root / "kept" / "large").open("wb") as file:
            file.truncate(21_000_000)
        lost = place.run("echo x >> kept/large; echo x > kept/a.txt")
        problem = "no copy of its content was kept"
        large = Restored("kept/large", "changed", WHY, problem)
        assert lost == (Restored("kept/a.txt", "changed", WHY), large)
        assert place.protected.begin() == place.protected.check_and_restore() == (large,)
        assert [one.path for one in place.reopen().check_and_restore()] == ["kept/large"]

    def test_an_object_that_was_written_over_is_not_believed(self, place: Place) -> None:
        damage = "for f in $(find .git/headgate/objects -type f); do chmod +w $f; echo x > $f; done"
        told = place.run(f"rm kept/a.txt; {damage}")
        assert [(one.path, bool(one.problem)) for one in told] == [("kept/a.txt", True)]


class TestGit:
    @pytest.fixture
    def repo(self, tmp_path: Path) -> Path:
        repo = tmp_path / "repo"
        subprocess.run(["git", "init", "-q", "-b", "main", str(repo)], check=True)
        (repo / "a").write_text("a")
        sh(
            repo,
            "git config user.name T; git config user.email t@localhost; git add -A; git commit -qm start",
        )
        return repo

    def test_ordinary_work_is_free(self, repo: Path, tmp_path: Path) -> None:
        protected = ProtectedTree(Snapshots(repo), [], tmp_path / "a/b/store")
        assert protected.begin() == ()
        sh(
            repo,
            "git checkout -qb new; echo b > b; git add b; git commit -qm b; git stash; git gc -q; git tag x",
        )
        assert protected.check_and_restore() == ()
        tags = subprocess.run(["git", "-C", str(repo), "tag"], capture_output=True, check=True, text=True)
        assert tags.stdout == "x\n"


def test_outside_a_package(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    fill(repo)
    sh(
        repo,
        "printf 'build/\\n*.log\\n' > .gitignore; mkdir -p free/sub; echo '!x.log' > free/.gitignore",
    )
    ignored = IgnoredPaths(repo)
    inside = OnlyInside("kept", ignored.file, ignored.directory)
    rule = Rule("package", WHY, inside.covers, inside.enters)
    protected = ProtectedTree(Snapshots(repo), [rule], tmp_path / "a/b/store")
    protected.begin()
    sh(
        repo,
        "touch kept/new build.txt a.log free/x.log; mkdir -p build/deep free/sub/build sly;"
        " touch build/deep/x; echo '*' > sly/.gitignore; touch sly/x; rm -r kept/deep; rm free/f.txt;"
        " git add -A",
    )
    assert [(one.change, one.path) for one in protected.check_and_restore()] == [
        ("created", "build.txt"),
        ("deleted", "free/f.txt"),
        ("created", "free/x.log"),
        ("created", "sly/.gitignore"),
        ("created", "sly/x"),
    ]
    assert sorted(path.name for path in repo.iterdir()) == [
        ".git", ".gitignore", "a.log", "build", "free", "kept",
    ]  # fmt: skip
    assert not (repo / "kept" / "deep").exists()


NAMES = ["kept", "kept/a.txt", "kept/deep", "kept/deep/same.bin", "kept/deep/er", "kept/link", "kept/empty",
         "kept/run.sh", "kept/new", "kept/new/er", "free", "free/f.txt", "free/x.lock", "free/y.lock",
         "z.lock", "kept/__pycache__", "kept/deep/er/same.bin"]  # fmt: skip
NAME = st.sampled_from(NAMES)
STEPS = st.one_of(
    st.builds("echo {1} > {0}".format, NAME, st.sampled_from(["x", "one", "two"])),
    st.builds("printf 'one\\r\\ntwx' > {0}; touch -d @0 {0}".format, NAME),
    st.builds("echo more >> {0}".format, NAME),
    st.builds("rm -rf {0}".format, NAME),
    st.builds("mkdir -p {0}".format, NAME),
    st.builds("mv -T {0} {1}".format, NAME, NAME),
    st.builds("mv {0} {1}".format, NAME, NAME),
    st.builds("cp -a {0} {1}".format, NAME, NAME),
    st.builds("ln -f {0} {1}".format, NAME, NAME),
    st.builds("ln -sfn $PWD/{0} {1}".format, NAME, NAME),
    st.builds("chmod {1} {0}".format, NAME, st.sampled_from(["000", "777", "u+s", "-R 700"])),
    st.builds("truncate -s 1 {0}".format, NAME),
    st.builds("touch {0}".format, NAME),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=8), min_size=1, max_size=3))
def test_whatever_commands_do(scripts: list[list[str]]) -> None:
    """The protected part of the tree is the same after any commands, and nothing is told twice."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        for script in scripts:
            restored = place.run("\n".join(script))
            assert [one for one in restored if one.problem] == []
            assert place.look() == place.before
        assert place.run("true") == ()
        assert place.reopen().begin() == ()


@settings(max_examples=12, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=8))
def test_whatever_a_command_did_before_we_died(script: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        place.protected.begin()
        sh(place.root, "\n".join(script))
        assert [one for one in place.reopen().begin() if one.problem] == []
        assert place.look() == place.before


class TestFoldersThatCannotBeWalked:
    """A command can lock folders, or nest them deeper than a path can say."""

    def test_what_a_command_locks_is_opened_up(self, place: Place) -> None:
        (place.root / "mine").mkdir()
        (place.root / "mine").chmod(0o000)
        (place.root / "other").mkdir(0o750)
        place.run("chmod 000 other; mkdir -p new/in; chmod 200 new/in; chmod 444 new; chmod 311 .")
        modes = [
            stat.S_IMODE((place.root / path).stat().st_mode) for path in ("other", "new/in", "new", "mine")
        ]
        assert modes == [0o750, 0o700, 0o744, 0o000]
        (place.root / "mine").chmod(0o700)

    def test_what_is_too_deep_is_removed(self, place: Place) -> None:
        script = (
            "import os\nfor _ in range(1500):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('x', 'w')"
        )
        assert place.run(f'cd free && python3 -c "{script}"') == ()
        assert sum(1 for _ in os.walk(place.root / "free")) < 20
