"""Repositories without a `.git` folder: any folder with a HEAD and what git keeps beside it.

git takes such a folder for a repository as soon as a person runs a git command in it, and then runs the
programs that its settings name. Commands may make such folders, but none with settings that run programs.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from headgate.core import OWN_FOLDER, show_path
from headgate.guard.records import Scanner
from headgate.guard.restore import Restored
from headgate.tree import read_regular

_REASON = "commands may not make repositories whose settings run programs; it was renamed to HEAD.disabled"
_MOST_READ = 1_000_000


class BareRepositories:
    """See Protected. A HEAD is renamed if settings that run programs came to its folder."""

    def __init__(self, repo: Path, acting_lines: Callable[[bytes], Iterator[tuple[str, str]]]) -> None:
        self._root, self._acting_lines = Path(os.path.realpath(repo)), acting_lines
        self._scanner = Scanner(self._root, _is_head, _may_hold_one)
        self._before: dict[str, frozenset[object]] | None = None

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        if self._before is not None:
            return self._check(between=True)
        self._before = {folder: self._acting(folder) for folder in self._find()}
        return ()

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        return () if self._before is None else self._check(between=False)

    def adopt(self) -> None:
        """See Protected."""

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See Protected."""
        return ()

    def forget(self) -> None:
        """See Protected."""

    def _check(self, *, between: bool) -> tuple[Restored, ...]:
        done: list[Restored] = []
        for folder in self._find():
            if self._acting(folder) <= (self._before or {}).get(folder, frozenset()):
                continue
            problem = ""
            try:
                (self._root / folder / "HEAD").replace(self._root / folder / "HEAD.disabled")
            except OSError as error:
                problem = (error.strerror or str(error)).lower()
            done.append(
                Restored(show_path(f"{folder}/HEAD".lstrip("/")), "created", _REASON, problem, between)
            )
        return tuple(done)

    def _find(self) -> list[str]:
        """The folders that git may take for a repository."""
        found = (path for path, status in self._scanner.scan().items() if not stat.S_ISDIR(status.st_mode))
        return [path.rpartition("/")[0] for path in found if _names_a_commit(self._root / path)]

    def _acting(self, folder: str) -> frozenset[object]:
        """What of a folder would make git run something, or read settings elsewhere."""
        place = self._root / folder
        found: set[object] = set()
        for name in ("config", "config.worktree"):
            if (place / name).is_symlink():
                found.add((name, (place / name).readlink()))
            content = read_regular(Path(os.path.realpath(place / name)), _MOST_READ)
            found.update(self._acting_lines(content))
            if len(content) == _MOST_READ:
                found.add((name, "more than was read"))
        if os.path.lexists(place / "commondir"):
            found.add(("commondir", read_regular(place / "commondir", _MOST_READ)))
        with suppress(OSError), os.scandir(place / "hooks") as scan:
            for entry in scan:
                if not entry.name.endswith(".sample"):
                    content = read_regular(Path(entry.path), _MOST_READ)
                    found.add(("hooks", entry.name, sha256(content).hexdigest()))
        return frozenset(found)


def _is_head(path: str) -> bool:
    return path.rpartition("/")[2] == "HEAD"


def _may_hold_one(folder: str) -> bool:
    return folder != OWN_FOLDER and folder.rpartition("/")[2] != ".git"


def _names_a_commit(head: Path) -> bool:
    """Whether git would take it for a HEAD: a link, the name of a branch, or that of a commit."""
    if head.is_symlink():
        return True
    text = read_regular(head, 100)
    # git does not look at what comes after the name of a commit.
    return text.startswith(b"ref:") or (len(text) >= 40 and not text[:40].strip(b"0123456789abcdefABCDEF"))
