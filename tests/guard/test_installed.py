"""Installed packages: what counts as a change of them, and which steps install."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core import Access
from headgate.guard import InstalledPackages, preparing_steps

SITE = ".venv/lib/python3.11/site-packages"
FILES = {
    ".venv/pyvenv.cfg": "home = /usr/bin",
    ".venv/bin/pytest": "#!/bin/sh",
    f"{SITE}/pytest/__main__.py": "run()",
    f"{SITE}/pytest/__pycache__/__main__.cpython-311.pyc": "compiled",
    f"{SITE}/requests/api.py": "get()",
    "node_modules/jest/index.js": "1",
    "node_modules/@jest/core/index.js": "1",
    "node_modules/lodash/index.js": "1",
    "packages/a/node_modules/b/index.js": "1",
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        write(tmp_path / "repo" / name, text)
    return tmp_path / "repo"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def packages(repo: Path, *, everything: bool = True, watched: bool = True) -> InstalledPackages:
    file = repo / ".git/headgate/protected/t1/installed.json"
    file.parents[3].mkdir(exist_ok=True)
    return InstalledPackages(repo, file, lambda path: False, everything=everything, watched=watched)


def nothing_changed(installed: InstalledPackages) -> bool:
    found = installed.find_changes()
    return not found.changed and not found.created


def rewrite_in_place(repo: Path) -> None:
    path = repo / SITE / "pytest/__main__.py"
    status = path.stat()
    path.write_text("run!)")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_folder(repo: Path) -> None:
    (repo / "node_modules").rename(repo / "old")
    write(repo / "node_modules/jest/index.js", "1")


def link_folder(repo: Path) -> None:
    (repo / "node_modules").rename(repo / "old")
    (repo / "node_modules").symlink_to("old")


def link_cache(repo: Path) -> None:
    (repo / SITE / "pytest/__pycache__").rename(repo / "old")
    (repo / SITE / "pytest/__pycache__").symlink_to(repo / "old")


def add_to_package(repo: Path) -> None:
    write(repo / "node_modules/@jest/core/package.json", "{}")


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize(
    "change", [rewrite_in_place, replace_folder, link_folder, link_cache, add_to_package]
)
def test_a_changed_package_is_found(repo: Path, everything: bool, change: Callable[[Path], None]) -> None:
    installed = packages(repo, everything=everything)
    installed.begin()
    assert installed.find_changes().changed == ()
    change(repo)
    assert installed.find_changes().changed
    assert [one.problem for one in installed.check_and_restore()]


def test_a_later_process_goes_by_the_same_start(repo: Path) -> None:
    packages(repo).begin()
    rewrite_in_place(repo)
    later = packages(repo)
    later.begin()
    assert later.find_changes().changed == (f"{SITE}/pytest",)
    later.adopt()  # a step that installs does not make it good
    assert later.find_changes().changed == (f"{SITE}/pytest",)


def test_compiled_modules_that_are_new_or_changed_are_removed(repo: Path) -> None:
    installed = packages(repo)
    installed.begin()
    forged = repo / SITE / "pytest/__pycache__/__init__.cpython-311.pyc"
    write(forged, "forged")
    write(repo / SITE / "pytest/__pycache__/__main__.cpython-311.pyc", "forged")
    assert nothing_changed(installed)
    assert [path.name for path in forged.parent.iterdir()] == []


def test_new_packages(repo: Path) -> None:
    installed, runners = packages(repo), packages(repo, everything=False)
    installed.begin()
    write(repo / "node_modules/left-pad/index.js", "1")
    write(repo / "packages/c/node_modules/jest/index.js", "1")
    write(repo / "node_modules/.cache/x", "1")
    assert set(installed.find_changes().created) >= {"node_modules/left-pad", "packages/c/node_modules"}
    runners.forget()
    runners.begin()
    write(repo / "node_modules/other/index.js", "1")
    write(repo / "node_modules/lodash/index.js", "2")
    assert nothing_changed(runners)


def test_what_a_step_installs_is_adopted(repo: Path) -> None:
    installed = packages(repo)
    installed.begin()
    write(repo / "node_modules/jest/index.js", "2")
    write(repo / "node_modules/left-pad/index.js", "1")
    installed.adopt()
    assert nothing_changed(installed)


def test_in_a_sandbox_only_what_was_moved_is_found(repo: Path) -> None:
    installed = packages(repo, watched=False)
    installed.begin()
    rewrite_in_place(repo)  # a link elsewhere changes the times of a file, too
    assert installed.find_changes().changed == ()
    (repo / "packages/a").rename(repo / "packages/old")
    write(repo / "packages/a/node_modules/b/index.js", "1")
    assert installed.find_changes().changed == ("packages/a/node_modules/b",)
    assert {str(path.relative_to(repo)) for path in installed.read_only()} == {
        ".venv",
        "node_modules",
        "packages/a/node_modules",
    }


@pytest.mark.parametrize(
    ("path", "everything", "runners"),
    [
        (f"{SITE}/pytest/__main__.py", True, True),
        (f"{SITE}/requests/api.py", True, False),
        ("node_modules/@jest/core/new.js", True, True),
        ("node_modules/new/index.js", True, False),
        ("src/pytest/x.py", False, False),
    ],
)
def test_tools_do_not_write_there(repo: Path, path: str, everything: bool, runners: bool) -> None:
    access = Access("write", path, None, b"x")
    assert (packages(repo)(access) is not None) == everything
    assert (packages(repo, everything=False)(access) is not None) == runners
    assert packages(repo)(Access("read", path)) is None


@pytest.mark.parametrize(
    ("command", "prepares"),
    [
        ("pip install -e .", True),
        (".venv/bin/python -m pip install -r dev.txt && pytest", True),
        ("npm ci", True),
        ("npm test", False),
        ("npm run check", False),
        ("yarn", True),
        ("yarn test", False),
        ("uv sync --locked", True),
        ("uv run pytest", True),
        ("uv run --no-sync pytest", False),
        ("poetry run pytest", False),
        ("cd build && cmake ..", True),
        ("./configure && make check", True),
        ("make setup", True),
        ("make test", False),
        ("python -m pytest -k install", False),
    ],
)
def test_steps_that_install_or_configure(tmp_path: Path, command: str, prepares: bool) -> None:
    write(tmp_path / "Makefile", "setup:\n\tpip install -e .\n\ntest:\n\tpytest\n")
    assert preparing_steps([command], "", tmp_path) == (frozenset({command}) if prepares else frozenset())


def test_a_link_to_itself_is_passed_over(repo: Path) -> None:
    for name in ("loop", "packages/node_modules", ".venv/lib64", f"{SITE}/loop", ".venv/lib/python3.12"):
        (repo / name).symlink_to(Path(name).name)
    installed = packages(repo)
    installed.begin()
    assert nothing_changed(installed)
    rewrite_in_place(repo)
    assert installed.find_changes().changed == (f"{SITE}/pytest",)
    installed.forget()
    installed.begin()
    (repo / SITE / "pytest").chmod(0o600)
    assert installed.find_changes().changed == (f"{SITE}/pytest",)
    (repo / SITE / "pytest").chmod(0o755)
