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
from headgate.guard.restore import Restored
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
        self._kept: dict[str, tuple[int, int]] = {}
        self._lost: set[str] = set()

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
        """The folders of packages, and whole environments: read-only for commands that do not install.

        What lies in the place of one that was taken away may be removed again.
        """
        return tuple(place for place in self._found if place.is_dir() and str(place) not in self._lost)

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

    def adopt(self) -> tuple[Restored, ...]:
        """Takes note of which folders lie where packages are installed; says which were taken away before.

        A command in a sandbox cannot change them, but it can replace a link to one, and move a folder above.
        """
        now = self._folders_now()
        self._lost = {place for place in self._lost if now.get(place) != self._kept[place]}
        self._kept |= {place: folder for place, folder in now.items() if place not in self._lost}
        return self._say_lost(now)

    def check(self) -> tuple[Restored, ...]:
        """Says which are not where they were."""
        now = self._folders_now()
        self._lost = {place for place, folder in self._kept.items() if now.get(place) != folder}
        return self._say_lost(now)

    def _say_lost(self, now: dict[str, tuple[int, int]]) -> tuple[Restored, ...]:
        return tuple(
            Restored(
                path=show_path(place[len(self._root) + 1 :]),
                change="changed" if place in now else "deleted",
                reason="installed packages are protected",
                problem="another folder is in its place" if place in now else "it is not there",
                decides=True,
            )
            for place in sorted(self._lost)
        )

    def _folders_now(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for place in self._places:
            with suppress(OSError):
                status = Path(place).stat()
                found[place] = status.st_dev, status.st_ino
        return found

    @cached_property
    def _places(self) -> list[str]:
        """The folders, and links to such."""
        return list(self._find())

    @cached_property
    def _found(self) -> list[Path]:
        places = {os.path.realpath(place) for place in self._places}
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
