"""Finding protected paths quickly: a directory is listed again only when something in it came or went."""

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.host.protect_store import Kind, Stamp

_COARSEST_CLOCK = 2_000_000_000
"""Nanoseconds. Some file systems count time in steps of two seconds."""
_ANY_NAME = "any name"


@dataclass(frozen=True, slots=True)
class _Listing:
    stamp: Stamp
    settled: bool
    directories: tuple[str, ...]
    covered: tuple[str, ...]


class Scanner:
    """Walks the part of a tree in which something can be protected. Symlinks are entries, never followed."""

    def __init__(
        self,
        root: Path,
        covers: Callable[[str], bool],
        enters: Callable[[str], bool],
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._root = str(root)
        self._now = now
        self._covers = covers
        self._enters = enters
        self._listings: dict[str, _Listing] = {}

    def covers_directory(self, path: str) -> bool:
        """Whether a new file in this directory would be protected, whatever its name."""
        return self._covers(f"{path}/{_ANY_NAME}")

    def scan(self, unlock: Callable[[str], bool] = lambda path: False) -> dict[str, os.stat_result]:
        """Every protected path there is, with the directories that are protected or lead to one.

        A directory that cannot be read is opened up first if `unlock` says so, and passed over if not.
        """
        found: dict[str, os.stat_result] = {}
        directories: dict[str, os.stat_result] = {}
        listings: dict[str, _Listing] = {}
        pending = [""]
        while pending:
            path = pending.pop()
            try:
                status = os.lstat(self.full(path))
                if not stat.S_ISDIR(status.st_mode):
                    continue
                directories[path] = status
                listing = self._list(path, status, unlock)
            except OSError:
                continue  # gone by now, or not ours to read: nothing in it can be known
            listings[path] = listing
            pending.extend(listing.directories)
            found.update(self._look(listing.covered))
        self._listings = listings
        wanted = {path for path in directories if path and self.covers_directory(path)}
        for path in [*found, *wanted]:
            while (path := path.rpartition("/")[0]) and path not in wanted:
                wanted.add(path)
        found.update((path, directories[path]) for path in wanted)
        return found

    def is_settled(self, status: os.stat_result) -> bool:
        """Whether a change from now on is sure to show in the stamp."""
        return status.st_ctime_ns < self._now() - _COARSEST_CLOCK

    def full(self, path: str) -> str:
        """A path for the operating system."""
        return f"{self._root}/{path}" if path else self._root

    def _look(self, paths: tuple[str, ...]) -> dict[str, os.stat_result]:
        found = {}
        for path in paths:
            try:
                found[path] = os.lstat(self.full(path))
            except FileNotFoundError:
                continue  # came and went while we looked
        return found

    def _list(self, path: str, status: os.stat_result, unlock: Callable[[str], bool]) -> _Listing:
        known = self._listings.get(path)
        if known is not None and known.settled and known.stamp == stamp_of(status):
            return known
        settled = self.is_settled(status)
        try:
            return self._list_anew(path, stamp_of(status), settled)
        except PermissionError:
            if not unlock(path):
                raise
            Path(self.full(path)).chmod(0o700)
            return self._list_anew(path, stamp_of(status), settled=False)

    def _list_anew(self, path: str, stamp: Stamp, settled: bool) -> _Listing:
        prefix = f"{path}/" if path else ""
        directories: list[str] = []
        covered: list[str] = []
        with os.scandir(self.full(path)) as entries:
            for entry in entries:
                child = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if self._enters(child):
                        directories.append(child)
                elif self._covers(child):
                    covered.append(child)
        return _Listing(stamp, settled, tuple(directories), tuple(covered))


def stamp_of(status: os.stat_result) -> Stamp:
    """What changes whenever the content, the mode or the owner of a file does."""
    return (
        status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def kind_of(status: os.stat_result) -> Kind:
    """What a path is."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"
