"""Installed packages: who may not write them, and which steps install."""

import shutil
from pathlib import Path

import pytest

from headgate.core import Access
from headgate.guard import InstalledPackages, preparing_steps

SITE = ".venv/lib/python3.11/site-packages"
FILES = {
    ".venv/pyvenv.cfg": "home = /usr/bin",
    ".venv/bin/pytest": "#!/bin/sh",
    f"{SITE}/pytest/__main__.py": "run()",
    f"{SITE}/requests/api.py": "get()",
    "node_modules/jest/index.js": "1",
    "node_modules/.bin/jest": "#!/bin/sh",
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


def packages(repo: Path, *, everything: bool = True) -> InstalledPackages:
    return InstalledPackages(repo, everything=everything)


def test_what_commands_in_a_sandbox_can_only_read(repo: Path) -> None:
    for name in ("loop", "packages/node_modules", ".venv/lib64"):
        (repo / name).symlink_to(Path(name).name)
    write(repo / "envs/py/pyvenv.cfg", "")
    write(repo / "build/node_modules/x.js", "1")
    (repo / "apps").mkdir()
    (repo / "apps/node_modules").symlink_to(repo / "node_modules")
    (repo / "venv").symlink_to("/usr")
    installed = packages(repo)
    names = {str(path.relative_to(repo)) for path in installed.folders()}
    assert names == {".venv", "envs/py", "node_modules", "packages/a/node_modules"}
    assert installed.holds(repo / SITE / "pytest/__main__.py")
    assert not installed.holds(repo / "packages/a/index.js")
    caches = installed.caches()
    assert repo / "packages/a/node_modules/.cache" in caches
    assert all(path.is_dir() for path in caches)
    shutil.rmtree(repo / "node_modules")  # as some installers do
    assert repo / "node_modules" not in installed.folders()


def test_folders_that_commands_put_in_the_place_of_packages(repo: Path) -> None:
    (repo / "envs").mkdir()
    (repo / ".venv").rename(repo / "envs/py")
    (repo / ".venv").symlink_to("envs/py")
    installed = packages(repo)
    assert installed.adopt() == ()
    write(repo / ".venv/bin/new", "a package that somebody installs")
    assert installed.check() == ()
    (repo / ".venv").unlink()
    write(repo / ".venv/bin/pytest", "exit 0")
    (repo / "packages/a").rename(repo / "packages/c")
    said = [one.sentence() for one in installed.check()]
    assert said == [
        "Could not be restored: .venv (installed packages are protected; the command had changed it,"
        " and another folder is in its place).",
        "Could not be restored: packages/a/node_modules (installed packages are protected; the command"
        " had deleted it, and it is not there).",
    ]
    assert all(one.decides for one in installed.check())
    (repo / "packages/c").rename(repo / "packages/a")
    assert [one.path for one in installed.adopt()] == [".venv"]  # what was lost stays so
    shutil.rmtree(repo / ".venv")
    (repo / ".venv").symlink_to("envs/py")
    (repo / "node_modules").rename(repo / "old")
    (repo / "node_modules").mkdir()
    assert installed.adopt() == installed.check() == ()  # somebody, or a step, has installed anew


@pytest.mark.parametrize(
    ("path", "everything", "runners"),
    [
        (f"{SITE}/pytest/__main__.py", True, True),
        (f"{SITE}/requests/api.py", True, False),
        ("node_modules/@jest/core/new.js", True, True),
        ("node_modules/new/index.js", True, False),
        ("src/pytest/x.py", False, False),
        (".venv/bin/pytest", True, True),
        (".venv/bin/new", True, False),
        ("node_modules/.bin/jest", True, True),
        ("bin/pytest", False, False),
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
