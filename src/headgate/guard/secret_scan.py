"""Finds the files with secrets in a repository, also after they were renamed.

Commands rename folders, and programs make files with secrets while a task runs. The scan is therefore
repeated for each command. A folder is listed again only if it has changed since.
"""

import os
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Lock

from headgate.core import OWN_FOLDER, Access, Denial
from headgate.file_stamps import Stamp, is_settled, stamp_of
from headgate.first_use import dataclass
from headgate.guard.secrets import DEFAULT_SECRETS, SecretNames, deny_secret
from headgate.process import MOST_MOUNTS
from headgate.tree import ancestors

_LONGEST_PATH = 3000
_UNLISTED = (".git", OWN_FOLDER)
"""Folders of the root that commands in a sandbox cannot move anything into."""
_KERNEL_FOLDERS = ("/proc/", "/sys/", "/dev/")

Identity = tuple[int, int, int, int]
"""What stays the same when a file gets another name: device, inode, time of the last write, size."""


@dataclass(frozen=True, slots=True)
class SecretsFound:
    """What a scan found, as absolute paths."""

    named: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The files whose names say that they hold secrets, each with what changes when its content does."""
    hidden: tuple[Path, ...] = ()
    """What to hide from commands: those files, other names of them, and folders that cannot be listed."""
    inside: frozenset[str] = frozenset()
    """Those of them that are in the repository, by their paths in it."""


@dataclass(slots=True)
class _Folder:
    path: str
    stamp: Stamp
    """What changes when the folder does; empty if it changed too recently to tell."""
    folders: list[str]
    named: list[str]
    is_secret: bool
    """Its own name makes everything in it secret."""
    listed: dict[int, list[str]] | None = None

    def files(self) -> dict[int, list[str]]:
        """The regular files, by their inodes. Few tasks need them."""
        if self.listed is None:
            self.listed = {}
            with suppress(OSError), os.scandir(self.path) as scan:
                for entry in scan:
                    with suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            inode = entry.stat(follow_symlinks=False).st_ino
                            self.listed.setdefault(inode, []).append(entry.path)
        return self.listed


class SecretScan:
    """Finds the secret files of a repository, and remembers them for the time of a task."""

    def __init__(self, root: Path, patterns: Sequence[str] = DEFAULT_SECRETS) -> None:
        self._root = os.path.realpath(root)
        self._secret = SecretNames(patterns)
        self._folders: dict[str, _Folder] = {}
        self._seen: set[Identity] = set()
        self._lock = Lock()
        self._found: tuple[int, SecretsFound] | None = None
        self.version = 0
        """Changes when a command has run, which may have changed files, and when a look finds others."""

    def expect_changes(self) -> None:
        """To be called when a command has ended."""
        self.version += 1

    def latest(self) -> SecretsFound:
        """What there was at the last look, if no command has run since."""
        found = self._found
        return found[1] if found is not None and found[0] == self.version else self.look()

    def look(self) -> SecretsFound:
        """What there is now."""
        with self._lock:
            started = self.version  # a command may end meanwhile: then this look is out of date at once
            unlisted = self._walk()
            named: dict[str, tuple[int, ...]] = {}
            real: dict[str, os.stat_result] = {}
            for path in [name for folder in self._folders.values() for name in folder.named]:
                try:
                    target = os.path.realpath(path)  # a link counts for what it leads to
                    status = Path(target).stat()
                except (OSError, ValueError):
                    continue  # it is gone, or leads nowhere
                if stat.S_ISREG(status.st_mode):
                    named[path] = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
                    if target == path or not self._is_open(target):
                        real[target] = status
            hidden = {*real, *self._renamed(real), *unlisted}
            if len(hidden) > MOST_MOUNTS:  # such as a virtual environment that is called `.env`
                hidden = _joined(hidden, {path for path, one in self._folders.items() if one.is_secret})
            inside = frozenset(path[len(self._root) + 1 :] for path in hidden if self._is_inside(path))
            found = SecretsFound(named, tuple(map(Path, sorted(hidden))), inside)
            is_new = self._found is None or self._found[1] != found
            self.version += is_new
            self._found = started + is_new, found
            return found

    def _is_inside(self, path: str) -> bool:
        return path.startswith(self._root + "/")

    def _is_open(self, target: str) -> bool:
        """Whether a link leads to a file such as `.env.example`, or to one of the kernel."""
        if self._is_inside(target):
            return self._secret.excepts(target[len(self._root) + 1 :])
        return target.startswith(_KERNEL_FOLDERS) and not target.startswith("/dev/shm/")

    def _walk(self) -> list[str]:
        """Brings the list of folders up to date; returns those that cannot be listed."""
        before, self._folders = self._folders, {}
        unlisted: list[str] = []
        pending = [self._root]
        while pending:
            path = pending.pop()
            try:
                known = _list_folder(path, before.get(path), self._root, self._secret)
            except FileNotFoundError:
                continue
            except OSError:  # one without permissions: a command may give them back
                unlisted.append(path)
                continue
            self._folders[path] = known
            for name in known.folders:
                if len(name) > _LONGEST_PATH:  # too long for a mount: hide the outermost folder
                    top = name[len(self._root) + 1 :].partition("/")[0]
                    unlisted.append(f"{self._root}/{top}")
                else:
                    pending.append(name)
        return [path for path in unlisted if path != self._root]

    def _renamed(self, real: dict[str, os.stat_result]) -> Iterable[str]:
        """Other names of secret files: hard links, and files in a folder whose name made them secret."""
        now = {_identity(status) for status in real.values()}
        self._seen |= now
        linked = any(status.st_nlink > 1 for status in real.values())
        if not linked and now == self._seen:
            return
        inodes = {(status.st_dev, status.st_ino) for status in real.values()}
        wanted = {identity[1] for identity in self._seen}
        for folder in self._folders.values():
            files = folder.files()
            for inode in files.keys() & wanted:
                for path in files[inode]:
                    try:
                        status = os.lstat(path)
                    except OSError:
                        continue
                    if (status.st_dev, status.st_ino) in inodes or _identity(status) in self._seen:
                        yield path


class RenamedSecrets:
    """Denies reading and writing secret files under other names, which do not match the patterns."""

    def __init__(self, scan: SecretScan) -> None:
        self._scan = scan

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "run":
            return None
        inside = self._scan.latest().inside
        if not inside or inside.isdisjoint((access.target, *ancestors(access.target))):
            return None
        return deny_secret(access.target)


def _joined(paths: set[str], folders: set[str]) -> set[str]:
    """The paths, but folders instead of what is in them."""
    joined: set[str] = set()
    for path in paths:
        outermost = [folder for folder in ancestors(path) if folder in folders][-1:]
        joined.update(outermost or [path])
    return joined


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _list_folder(path: str, before: _Folder | None, root: str, secret: SecretNames) -> _Folder:
    """What is in a folder. OSError if it cannot be listed."""
    status = os.lstat(path)
    stamp = stamp_of(status)
    if before is not None and before.stamp == stamp:
        return before
    kept = stamp if is_settled(stamp, time.time_ns()) else ()
    found = _Folder(path, kept, [], [], secret.covers_folder(path[len(root) + 1 :]))
    if not os.access(path, os.R_OK | os.X_OK):
        raise PermissionError(path)
    with os.scandir(path) as scan:
        for entry in scan:
            if entry.is_dir(follow_symlinks=False):
                if path != root or entry.name not in _UNLISTED:
                    found.folders.append(entry.path)
            elif secret.covers(entry.path[len(root) + 1 :]):
                found.named.append(entry.path)
    return found
