"""Packages installed in the repository: closed to tools, and read-only for commands in a sandbox.

Test runners and what they need lie in `node_modules` or in the environments of Python, which git ignores.
Without a sandbox, nothing keeps commands from changing them.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from headgate.core import OWN_FOLDER, Access, Denial, show_path
from headgate.process import TOOL_CACHES
from headgate.reading import is_installed_or_built, is_runner_package

_NODE_MODULES, _BIN = "node_modules", ".bin"
_ENVIRONMENTS = frozenset({".venv", "venv"})
_SITES = frozenset({"site-packages", "dist-packages"})
_MOST_DEEP = 40


class InstalledPackages:
    """What is installed when the first command runs.

    With `everything`, tools may write no package; otherwise they may write those that are no test runner's.
    """

    def __init__(self, repo: Path, *, everything: bool) -> None:
        self._root = os.path.realpath(repo)
        self._everything = everything

    def __call__(self, access: Access, /) -> Denial | None:
        """See Guard."""
        if access.act != "write" or not (place := self._installed_at(access.target)):
            return None
        folder, name = place
        is_there = os.path.lexists(f"{self._root}/{folder}/{name}")
        if not self._everything and not (is_there and (_is_for_programs(folder) or is_runner_package(name))):
            return None
        shown = show_path(access.target)
        return Denial(f"{shown} is part of an installed package: this task may not change it.")

    def _installed_at(self, path: str) -> tuple[str, str] | None:
        """Of what is installed at a path: its folder, and the name of the package or of the program."""
        parts = path.split("/")
        for at, part in enumerate(parts[:-1], 1):
            folder, first = "/".join(parts[:at]), parts[at]
            if part == _NODE_MODULES and first == _BIN and at + 1 < len(parts):
                return f"{folder}/{_BIN}", parts[at + 1]
            if part == _NODE_MODULES or part in _SITES:
                return folder, "/".join(parts[at : at + 2]) if first.startswith("@") else first
            if part == "bin" and self._is_environment(parts[: at - 1]):
                return folder, first
        return None

    def _is_environment(self, parts: list[str]) -> bool:
        above = "/".join((self._root, *parts))
        return bool(parts) and (parts[-1] in _ENVIRONMENTS or os.path.lexists(f"{above}/pyvenv.cfg"))

    def folders(self) -> tuple[Path, ...]:
        """The folders of packages, and whole environments: read-only for commands that do not install."""
        return tuple(place for place in self._found if place.is_dir())

    def caches(self) -> tuple[Path, ...]:
        """The caches in those folders, which tools may write. Those that are missing are made."""
        places = [place for place in self.folders() if place.name == _NODE_MODULES]
        found: list[Path] = []
        for path in (place / name for place in places for name in TOOL_CACHES):
            with suppress(OSError):
                path.mkdir(exist_ok=True)
            if path.is_dir() and os.path.realpath(path) == str(path):
                found.append(path)
        return tuple(found)

    def holds(self, path: Path) -> bool:
        """Whether a path is inside one of the folders."""
        return any(place in path.parents for place in self._found)

    @cached_property
    def _found(self) -> list[Path]:
        places = {os.path.realpath(place) for place in self._find()}
        return sorted(Path(place) for place in places if place.startswith(f"{self._root}/"))

    def _find(self) -> Iterator[str]:
        pending = [(self._root, 0)]
        while pending:
            folder, depth = pending.pop()
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if not leads_to_folder(entry):
                        continue
                    if entry.name == _NODE_MODULES or _is_environment(entry):
                        yield entry.path
                    elif not entry.is_symlink() and depth < _MOST_DEEP and not _is_skipped(entry.name):
                        pending.append((entry.path, depth + 1))


def leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry is a folder or a link to one."""
    try:
        return entry.is_dir()
    except OSError:
        return False  # such as a link to itself


def _is_environment(entry: "os.DirEntry[str]") -> bool:
    if entry.name in _ENVIRONMENTS:
        return True
    marks = ("pyvenv.cfg", "conda-meta")
    return not entry.is_symlink() and any(os.path.lexists(f"{entry.path}/{mark}") for mark in marks)


def _is_for_programs(folder: str) -> bool:
    return folder.rpartition("/")[2] in ("bin", _BIN)


def _is_skipped(name: str) -> bool:
    return name in (".git", OWN_FOLDER) or (is_installed_or_built(name) and name not in (".tox", ".nox"))
