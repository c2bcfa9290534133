"""Packages installed in the repository: whether they still are what they were when the task began.

Test runners and what they need lie in `node_modules` or in the environments of Python. Git ignores them, and
they are too large to keep copies. Without a sandbox, the status of each file is compared: every write changes
the time of its last change (ctime), which no program can set. In a sandbox they are read-only.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock

from headgate.core import Access, Denial, show_path
from headgate.guard.package_folders import (
    NODE_MODULES,
    SITES,
    compiled_modules,
    entries_of,
    environment_of,
    find_places,
    package_name,
    packages_in,
)
from headgate.guard.protected_tests import REASON
from headgate.guard.restore import Restored
from headgate.process import TOOL_CACHES
from headgate.reading import is_runner_package
from headgate.regular_files import make_own_folder, read_own, write_own

_FOLDERS = 3
"""The folders of `headgate/protected/TASK` in git's own folder."""


@dataclass(slots=True)
class Installed:
    """What is installed. Paths are relative to the repository."""

    places: dict[str, str] = field(default_factory=dict)
    """Folders of packages, each with where it really is."""
    packages: dict[str, str] = field(default_factory=dict)
    """Packages and programs, each with a hash of what the file system says of its files."""
    caches: dict[str, list[int]] = field(default_factory=dict)
    """Modules that Python has compiled, which it would run in place of the source."""
    whole: bool = False
    """Whether all files of each package were looked at."""


@dataclass(frozen=True, slots=True)
class PackageChanges:
    """What has become of the packages since the task began."""

    changed: tuple[str, ...] = ()
    created: tuple[str, ...] = ()


class InstalledPackages:
    """See Protected. The first `begin` notes what is installed.

    With `everything`, that is all packages, and new packages are reported; otherwise it is the packages of
    test runners. With `watched`, all files of a package are compared. Without it, a sandbox mounts them
    read-only, and only packages that were moved, or are new, are found. `covered` tells which files another
    part protects, with copies.
    """

    def __init__(
        self, repo: Path, file: Path, covered: Callable[[str], bool], *, everything: bool, watched: bool
    ) -> None:
        self._root = os.path.realpath(repo)
        self._file = file
        self._covered = covered
        self._everything = everything
        self._watched = watched
        self._start: Installed | None = None
        self._changed: tuple[str, ...] = ()
        self._is_changed = False
        self._lock = Lock()

    def __call__(self, access: Access, /) -> Denial | None:
        """See Guard: what tools may not write, whatever commands have done."""
        parts = access.target.split("/")
        depth = next(
            (at for at, part in enumerate(parts[:-1], 1) if part == NODE_MODULES or part in SITES), 0
        )
        if access.act != "write" or not depth:
            return None
        package = "/".join(parts[: depth + 2 if parts[depth].startswith("@") else depth + 1])
        if not self._everything and not (
            is_runner_package(package_name(package)) and os.path.lexists(f"{self._root}/{package}")
        ):
            return None
        shown = show_path(access.target)
        return Denial(f"{shown} is part of an installed package: this task may not change it.")

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        with self._lock:
            if self._start is None:
                self._start = self._load()
            if self._start is None:
                self._note()
        return self._lost()

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected. It says what `find_changes` has found: no copies are kept."""
        return self._lost()

    def adopt(self) -> None:
        """See Protected."""
        with self._lock:
            # What somebody else has changed before is not what the step has installed.
            if self._start is not None and not self._is_changed:
                self._note()

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See Protected. They are `read_only`, as whole folders."""
        return ()

    def forget(self) -> None:
        """See Protected."""
        with self._lock:
            self._start, self._changed, self._is_changed = None, (), False
            self._file.unlink(missing_ok=True)

    def find_changes(self) -> PackageChanges:
        """Compares what is installed with what was. Modules that were compiled since then are removed."""
        with self._lock:
            start = self._start
            if start is None:
                return PackageChanges()
            now = self._look()
            moved = [path for path, real in start.places.items() if now.places.get(path) != real]
            gone = [path for path, digest in start.packages.items() if now.packages.get(path) != digest]
            changed = [path for path in gone if not path.startswith(tuple(f"{place}/" for place in moved))]
            compiled = [path for path, at in now.caches.items() if start.caches.get(path) != at]
            changed += [path for path in compiled if not self._remove(path)]
            created: list[str] = []
            if self._everything:
                created = [path for path in now.places if path not in start.places]
                created += [path for path in now.packages if path not in start.packages]
            self._changed = tuple(map(show_path, [*moved, *changed]))
            self._is_changed = bool(self._changed or created)
            return PackageChanges(self._changed, tuple(map(show_path, created)))

    def holds(self, path: Path) -> bool:
        """Whether a path is inside an environment or a folder of packages."""
        return any(place in path.parents for place in map(Path, self._outermost()))

    def read_only(self) -> tuple[Path, ...]:
        """What commands that do not install can only read in a sandbox."""
        if self._start is None:
            return ()
        if self._everything:
            return tuple(map(Path, self._outermost()))
        runners = (
            path
            for place, real in self._start.places.items()
            for path, _ in packages_in(place, real)
            if is_runner_package(package_name(path))
        )
        return tuple(Path(real) for path in runners if self._is_inside(real := self._real(path)))

    def writable(self) -> tuple[Path, ...]:
        """The caches in those folders, which tools may write. Those that are missing are made."""
        places = [place for place in self.read_only() if place.name == NODE_MODULES]
        found: list[Path] = []
        for path in (place / name for place in places for name in TOOL_CACHES):
            with suppress(OSError):
                path.mkdir(exist_ok=True)
            if path.is_dir() and os.path.realpath(path) == str(path):
                found.append(path)
        return tuple(found)

    def _outermost(self) -> list[str]:
        """The real folders of environments and packages that lie in the repository."""
        places = self._start.places.values() if self._start else ()
        return sorted({place for place in map(environment_of, places) if self._is_inside(place)})

    def _is_inside(self, real: str) -> bool:
        return real.startswith(f"{self._root}/")

    def _real(self, path: str) -> str:
        return os.path.realpath(f"{self._root}/{path}")

    def _lost(self) -> tuple[Restored, ...]:
        problem = "no copy of an installed package is kept"
        return tuple(Restored(path, "changed", REASON, problem) for path in self._changed)

    def _remove(self, path: str) -> bool:
        try:
            Path(self._root, path).unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def _look(self) -> Installed:
        found = Installed(places=dict(find_places(self._root)), whole=self._watched)
        for place, real in found.places.items():
            for path, entry in packages_in(place, real):
                if self._everything or is_runner_package(package_name(path)):
                    self._describe(path, entry, found)
        return found

    def _describe(self, package: str, entry: "os.DirEntry[str]", found: Installed) -> None:
        """Adds a package, and the modules in it that Python has compiled."""
        if not entry.is_dir(follow_symlinks=False) and self._covered(package):
            return
        if not self._watched:
            found.packages[package] = str(entry.inode())
            return
        digest = sha256()
        pending = [(package, entry)]
        while pending:
            path, one = pending.pop()
            is_folder = one.is_dir(follow_symlinks=False)
            if is_folder and one.name == "__pycache__":
                found.caches |= compiled_modules(path, one.path)
                continue
            if not is_folder and self._covered(path):
                continue
            try:
                status = one.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError:  # its folder cannot be entered: nothing else is known of it
                digest.update(repr([path]).encode())
                continue
            said: list[object] = [path, status.st_mode]
            if is_folder:
                below = sorted(entries_of(one.path), key=lambda inner: inner.name)
                pending += [(f"{path}/{inner.name}", inner) for inner in below]
            else:
                said += [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
            digest.update(repr(said).encode())
        if entry.name != "__pycache__":
            found.packages[package] = digest.hexdigest()

    def _note(self) -> None:
        self._start = self._look()
        make_own_folder(self._file.parent, folders=_FOLDERS, mode=0o700)
        draft = self._file.with_name(self._file.name + ".new")
        draft.unlink(missing_ok=True)
        write_own(draft, json.dumps(asdict(self._start)).encode(), folders=_FOLDERS)
        draft.replace(self._file)

    def _load(self) -> Installed | None:
        """What an earlier process of this task has noted."""
        try:
            match json.loads(read_own(self._file, folders=_FOLDERS)):
                case {
                    "places": dict(places),
                    "packages": dict(packages),
                    "caches": dict(caches),
                    "whole": whole,
                }:
                    return Installed(places, packages, caches) if whole == self._watched else None
        except (OSError, ValueError):
            pass
        return None
