"""git's hooks and settings: they make git run programs when a person next uses it.

The index, refs and objects are free. In a sandbox all of `.git` is read-only. Repositories within the
repository, and settings outside it, are not looked at.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from headgate.core import Access, Denial, show_path
from headgate.first_use import regex
from headgate.guard.guards import Rule
from headgate.tree import Entry, Reverter, Setting, common_folder, git_folder, read_regular

_PREFIX = ".git/"
_NAMES = ("config", "config.worktree", "commondir", "info/attributes", "info/exclude")
_OF_WORKTREE = ("config.worktree", "commondir")
_INCLUDES = regex(r"include(if\..*)?\.path", re.IGNORECASE | re.DOTALL)
_MOST_READ = 10_000_000


class GitSettings:
    """Those of one repository. In a worktree, those that it shares with the repository are meant too."""

    def __init__(self, repo: Path, aside: Path, settings: Callable[[], Iterable[Setting]]) -> None:
        self._repo, self._aside, self._settings = Path(os.path.realpath(repo)), aside, settings
        self.rule = Rule(
            "git",
            "commands may not change git's hooks and settings",
            covers=self.covers,
            enters=self._enters,
        )

    @cached_property
    def _common(self) -> Path:
        return Path(os.path.realpath(common_folder(self._repo)))

    @cached_property
    def _of_worktree(self) -> list[str]:
        own = Path(os.path.realpath(git_folder(self._repo)))
        if own == self._common or not own.is_relative_to(self._common):
            return []
        return [f"{own.relative_to(self._common)}/{name}" for name in _OF_WORKTREE]

    @cached_property
    def _reverter(self) -> Reverter:
        return Reverter(self._common, self._aside)

    def __call__(self, access: Access, /) -> Denial | None:
        """A guard: what tools write is not compared afterwards."""
        if access.act == "write" and self.covers(access.target):
            shown = show_path(access.target)
            return Denial(f"{shown} is one of git's hooks and settings: a task may not change it.")
        return None

    def place(self, path: str) -> tuple[Reverter, str] | None:
        """What puts a file of git's folder back, and the path that it knows it by; None for other files."""
        return (self._reverter, path.removeprefix(_PREFIX)) if path.startswith(_PREFIX) else None

    def look(self, keep: Callable[[bytes], str]) -> tuple[dict[str, Entry], dict[str, int]]:
        """The hooks and settings in git's folder, and their modes; `keep` stores a content."""
        entries: dict[str, Entry] = {}
        modes: dict[str, int] = {}
        for path, place in self._files():
            with suppress(OSError):
                status = place.lstat()
                if stat.S_ISLNK(status.st_mode):
                    entries[path] = ("120000", keep(os.fsencode(place.readlink())))
                elif stat.S_ISREG(status.st_mode):
                    kind = "100755" if status.st_mode & 0o100 else "100644"
                    entries[path] = (kind, keep(read_regular(place, _MOST_READ)))
                else:
                    entries[path] = ("100644", keep(b""))  # a pipe, which git would wait for
                modes[path] = status.st_mode
        return entries, modes

    def _files(self) -> Iterator[tuple[str, Path]]:
        names = [*_NAMES, *self._of_worktree]
        hooks = self._common / "hooks"
        names += ["hooks"] if hooks.is_symlink() else []
        for folder, _, files in os.walk(hooks) if not hooks.is_symlink() else ():
            names += [str(Path(folder, name).relative_to(self._common)) for name in files]
        yield from ((f"{_PREFIX}{name}", self._common / name) for name in names)
        if not (self._repo / ".git").is_dir():
            yield ".git", self._repo / ".git"

    def covers(self, path: str) -> bool:
        """Whether git may run what a file says."""
        in_place = (path == place or path.startswith(f"{place}/") for place in self.places)
        return path == ".git" or path.startswith(_PREFIX) or any(in_place)

    def _enters(self, directory: str) -> bool:
        below = f"{directory}/"
        return below.startswith(_PREFIX) or any(
            f"{place}/".startswith(below) or below.startswith(f"{place}/") for place in self.places
        )

    @cached_property
    def places(self) -> frozenset[str]:
        """The hooks' folder, and files with settings, that the configuration names within the repository.

        They are found out before a command can change the configuration.
        """
        found: set[str] = set()
        hooks = ""
        for one in self._settings():
            if one.file:
                found.add(one.file)
                if _INCLUDES.fullmatch(one.key):  # it need not be there yet
                    found.add(str(Path(one.file).parent / Path(one.value).expanduser()))
                hooks = one.value if one.key == "core.hookspath" else hooks
        if hooks:
            folder = Path(hooks).expanduser()
            # husky's own folder has scripts that run those in the folder above it.
            found.add(str(folder.parent if folder.name == "_" else folder))
        places = {Path(os.path.realpath(self._repo / name)) for name in found}
        inside = {str(place.relative_to(self._repo)) for place in places if self._is_inside(place)}
        return frozenset(inside)

    def _is_inside(self, place: Path) -> bool:
        return self._repo in place.parents and self._common not in (place, *place.parents)
