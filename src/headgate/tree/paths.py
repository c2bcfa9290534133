"""Finding a path inside the repository without ever leaving it.

The path is walked one component at a time. Each step is a single system call relative to the directory that
the last one opened, and never follows a symlink; symlinks are read and resolved by hand, from the root on.
What is opened, renamed or removed in the end is a plain name in an open directory, so there is no moment
between check and use at which someone could put something else in its place.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import field
from pathlib import Path

from headgate.core import parse_path, show_path
from headgate.errors import ToolDenied, ToolFailed
from headgate.first_use import dataclass
from headgate.tree.workspace import NOTHING, OverlaidKind, OverlayLayer

MAX_SYMLINKS = 40
# With O_PATH a directory that may be entered but not listed can still be walked through.
MOST_DEEP = 200
LONGEST_PATH = 3000
_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def is_too_deep(path: str) -> bool:
    """Whether a folder lies so deep that neither git nor a system call could name what is in it."""
    return path.count("/") > MOST_DEEP or len(os.fsencode(path)) > LONGEST_PATH


def leads_out(root: Path, name: str) -> bool:
    """Whether a path leads out of `root`: by `..`, as an absolute path, or by a link."""
    return not Path(os.path.realpath(root / name)).is_relative_to(os.path.realpath(root))


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a path leads: a name in an open directory. It need not exist."""

    path: str
    """The canonical path; empty for the root."""
    directory: int
    """The innermost directory on the way that exists, open while the spot is used."""
    missing: tuple[str, ...]
    """Directories below it that do not exist yet."""
    name: str
    """The last component; `.` for the root."""
    aliases: tuple[str, ...]
    """The paths that symlinks on the way were reached by."""

    @property
    def shown(self) -> str:
        return show_path(self.path) if self.path else "the repository's root"

    def status(self) -> os.stat_result | None:
        """What is there, symlinks not followed; None if nothing is."""
        if self.missing:
            return None
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ToolFailed(explain(error, self.shown)) from error

    def open_file(self) -> tuple[int, os.stat_result]:
        """A descriptor for reading a regular file, and its status. FileNotFoundError if nothing is there."""
        status = self.status()
        if status is None:
            raise FileNotFoundError(errno.ENOENT, "missing", self.path)
        self._refuse_unless_regular(status)
        try:
            descriptor = os.open(self.name, _READ, dir_fd=self.directory)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ToolFailed(explain(error, self.shown)) from error
        try:
            status = os.fstat(descriptor)
            self._refuse_unless_regular(status)
        except ToolFailed:
            os.close(descriptor)
            raise
        return descriptor, status

    def open_directory(self) -> int:
        """A descriptor for listing a directory. FileNotFoundError if nothing is there."""
        if self.missing:
            raise FileNotFoundError(errno.ENOENT, "missing", self.path)
        try:
            return os.open(self.name, _LIST, dir_fd=self.directory)
        except FileNotFoundError:
            raise
        except NotADirectoryError:
            raise self.not_a_directory() from None
        except OSError as error:
            raise ToolFailed(explain(error, self.shown)) from error

    def not_a_directory(self) -> ToolFailed:
        """What to say of a file that is used as a directory."""
        return ToolFailed(f"{self.shown} is a file, not a directory.")

    def not_a_file(self) -> ToolFailed:
        """What to say of a directory that is used as a file."""
        return ToolFailed(f"{self.shown} is a directory, not a file.")

    def _refuse_unless_regular(self, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise self.not_a_file()
        if not stat.S_ISREG(status.st_mode):
            raise ToolFailed(f"{self.shown} is {describe_kind(status.st_mode)}, not a regular file.")


class ConfinedTree:
    """One directory tree, and the paths that lie in it; a layer may hide some of it."""

    def __init__(self, root: Path, layer: OverlayLayer = NOTHING) -> None:
        self.root = Path(os.path.realpath(root))
        self.layer = layer
        self._prefixes = {str(self.root), str(root.absolute())}

    def under(self, layer: OverlayLayer) -> "ConfinedTree":
        """The same tree as it looks under a layer."""
        covered = copy(self)
        covered.layer = layer
        return covered

    @contextmanager
    def find(self, path: str) -> Iterator[Spot]:
        """The spot a path names: ToolDenied where it leads outside, ToolFailed where it cannot be walked."""
        walk = _Walk(self, path)
        try:
            yield walk.run()
        finally:
            walk.close()

    def open_directory(self, path: str) -> int:
        """A directory by its canonical path, for listing. OSError if a symlink is in the way by now."""
        current = os.open(self.root, _WALK)
        try:
            for part in path.split("/") if path else ():
                following = os.open(part, _WALK, dir_fd=current)
                os.close(current)
                current = following
            return os.open(".", _LIST, dir_fd=current)
        finally:
            os.close(current)

    def parts(self, path: str) -> list[str]:
        """The components of a path as a model wrote it."""
        plain = parse_path(path)
        if "\0" in plain:
            raise ToolFailed("A path cannot contain a NUL character.")
        if plain.count("/") > MOST_DEEP:
            raise ToolFailed(f"The path is more than {MOST_DEEP} directories deep, which is not supported.")
        try:
            os.fsencode(plain)
        except UnicodeEncodeError:
            raise ToolFailed("The path contains characters that no file name can have.") from None
        return self.below_root(plain, show_path(plain)) if plain.startswith("/") else plain.split("/")

    def below_root(self, absolute: str, shown: str) -> list[str]:
        """The components of an absolute path from the root on."""
        clean = "/" + "/".join(part for part in absolute.split("/") if part and part != ".")
        for prefix in self._prefixes:
            if clean == prefix or clean.startswith(prefix.rstrip("/") + "/"):
                return clean[len(prefix) :].split("/")
        raise ToolDenied(f"{shown} is outside the repository. Give a path relative to its root.")


@dataclass(slots=True)
class _Walk:
    """One resolution: a stack of open directories, and the components still ahead."""

    tree: ConfinedTree
    wanted: str
    open: list[tuple[str, int]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    links: int = 0

    def run(self) -> Spot:
        ahead = deque(self.tree.parts(self.wanted))
        try:
            self.open.append(("", os.open(self.tree.root, _WALK)))
            leaf = self._advance(ahead)
        except OSError as error:
            raise ToolFailed(explain(error, self._shown())) from error
        names = [name for name, _ in self.open[1:]] + self.missing
        if leaf is None and self.missing:
            leaf = self.missing.pop()
        elif leaf is None and len(self.open) > 1:
            leaf, descriptor = self.open.pop()
            os.close(descriptor)
        else:
            names += [leaf] if leaf else []
        for _, descriptor in self.open[:-1]:
            os.close(descriptor)
        del self.open[:-1]
        directory = self.open[-1][1]
        return Spot("/".join(names), directory, tuple(self.missing), leaf or ".", tuple(self.aliases))

    def close(self) -> None:
        while self.open:
            os.close(self.open.pop()[1])

    def _advance(self, ahead: deque[str]) -> str | None:
        """Walks to the end; the last component is returned, not entered."""
        while ahead:
            part = ahead.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                self._go_up()
                continue
            is_last = not any(rest not in ("", ".") for rest in ahead)
            laid = self._laid(part)
            if laid == "file" and not is_last:
                raise self._not_a_directory(part)
            if self.missing or (laid is not None and not is_last):
                self.missing.append(part)
            elif is_last:
                target = self._read_link(part) if laid is None else None
                if target is None:
                    return part
                self._follow(part, target, ahead)
            else:
                self._enter(part, ahead)
        return None

    def _go_up(self) -> None:
        if self.missing:
            self.missing.pop()
        elif len(self.open) > 1:
            os.close(self.open.pop()[1])
        else:
            raise ToolDenied(f"{self._shown()} points outside the repository.")

    def _enter(self, part: str, ahead: deque[str]) -> None:
        try:
            self.open.append((part, os.open(part, _WALK, dir_fd=self.open[-1][1])))
        except FileNotFoundError:
            self.missing.append(part)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise
            target = self._read_link(part)
            if target is None:
                raise self._not_a_directory(part) from None
            self._follow(part, target, ahead)

    def _laid(self, part: str) -> OverlaidKind | None:
        return self.tree.layer.kind(self._path_of(part))

    def _not_a_directory(self, part: str) -> ToolFailed:
        return ToolFailed(f"{show_path(self._path_of(part))} is a file, not a directory.")

    def _path_of(self, part: str) -> str:
        return "/".join([*(name for name, _ in self.open[1:]), *self.missing, part])

    def _read_link(self, part: str) -> str | None:
        try:
            return os.readlink(part, dir_fd=self.open[-1][1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, part: str, target: str, ahead: deque[str]) -> None:
        self.links += 1
        if self.links > MAX_SYMLINKS:
            raise ToolFailed(f"{self._shown()} goes through too many symbolic links.")
        here = [name for name, _ in self.open[1:]]
        self.aliases.append(_normal([*here, part, *ahead]))
        if target.startswith("/"):
            link = show_path("/".join([*here, part]))
            try:
                parts = self.tree.below_root(target, link)
            except ToolDenied:
                raise ToolDenied(f"{link} is a symbolic link that points outside the repository.") from None
            while len(self.open) > 1:
                os.close(self.open.pop()[1])
        else:
            parts = target.split("/")
        ahead.extendleft(reversed(parts))

    def _shown(self) -> str:
        if not self.wanted:
            return "the repository's root"
        return self.wanted if self.wanted.isprintable() else show_path(self.wanted)


def _normal(parts: list[str]) -> str:
    out: list[str] = []
    for part in parts:
        if part == "..":
            del out[-1:]
        elif part not in ("", "."):
            out.append(part)
    return "/".join(out)


def describe_kind(mode: int) -> str:
    """What a file is that is not a regular one."""
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((text for test, text in kinds if test(mode)), "a special file")


def explain(error: OSError, shown: str) -> str:
    """What went wrong with a path, in a sentence."""
    match error.errno:
        case errno.ENOENT:
            return f"{shown} does not exist."
        case errno.EACCES | errno.EPERM:
            return f"{shown}: permission denied."
        case errno.ENAMETOOLONG:
            return "That path has a name that is too long."
        case errno.EISDIR:
            return f"{shown} is a directory, not a file."
        case errno.ENOTDIR:
            return f"{shown}: a part of the path is not a directory."
        case errno.ELOOP | errno.EMLINK:
            return f"{shown} became a symbolic link while it was used; try again."
        case errno.ENXIO | errno.ENODEV:
            return f"{shown} is not a regular file."
        case errno.ENOSPC | errno.EDQUOT:
            return f"{shown}: the disk is full."
        case errno.EROFS:
            return f"{shown}: the file system is read-only."
        case _:
            return f"{shown}: {(error.strerror or str(error)).lower()}."
