"""Rules over the tree, and guards: what tools may access.

Each guard is a callable that returns a denial or None. `InternalFiles` is part of every DiskWorkspace; the
engine adds the others, from configuration and task.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from headgate.core import Access, Denial, show_path
from headgate.first_use import dataclass
from headgate.guard.boundaries import fixed_prefix
from headgate.tree import Rules, expand_braces, fold_case, internal_name


@dataclass(frozen=True, slots=True)
class Rule:
    """Says of each path whether it may change. Paths are relative to the repository's root, with `/`."""

    name: str
    reason: str
    """For people and models: `it is out of bounds for this task`."""
    covers: Callable[[str], bool]
    enters: Callable[[str], bool] = lambda directory: True
    """Whether anything below a directory can be covered: others are not walked where git ignores them."""
    allows: Callable[[str, bytes | None, bytes], bool] = lambda path, before, after: False
    """Whether new content of a covered file may stay: its path, what it was (None: not there), what it is."""

    def forbids(self, path: str) -> bool:
        """Whether a file, or a part of it, may not change. A directory that is not entered has none."""
        parts = path.split("/")
        above = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
        return all(map(self.enters, above)) and self.covers(path)


class Boundaries:
    """Denies writing to paths that match a pattern as in .gitignore; a directory covers all that is below it.

    Letter case is ignored, since file systems exist that ignore it. The shell is not judged here: what a
    command writes can only be seen afterwards, by a `ProtectedTree` with a rule.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        plain = [pattern.strip().removeprefix("./").replace("/./", "/") for pattern in patterns]
        tidied = list(dict.fromkeys(one for pattern in plain for one in (pattern, *expand_braces(pattern))))
        self._rules = Rules(tidied, ignore_case=True)
        self._taken = [pattern for pattern in tidied if not pattern.startswith("!")]
        self._prefixes = frozenset(fold_case(fixed_prefix(pattern)) for pattern in self._taken)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "write" and self.covers(access.target):
            return Denial(
                f"{show_path(access.target)} is out of bounds for this task{self._named(access.target)}:"
                " do not change it."
            )
        return None

    def covers(self, path: str) -> bool:
        """Whether a file is out of bounds."""
        return self._rules.covers(path)

    def takes_back(self, path: str) -> bool:
        """Whether the last pattern that matches a file, or a directory above it, begins with `!`."""
        return self._rules.takes_back(path)

    def _named(self, path: str) -> str:
        """The pattern that says so, in brackets, where it says more than the path."""
        covering = (
            pattern for pattern in reversed(self._taken) if Rules([pattern], ignore_case=True).covers(path)
        )
        pattern = next(covering, path)
        return f" ({pattern})" if pattern != path else ""

    def enters(self, directory: str) -> bool:
        """Whether anything below a directory can be out of bounds. git's files and ours are not looked at."""
        if _is_internal(directory):
            return False
        place = fold_case(directory)
        return any(
            not prefix or _is_inside(place, prefix) or _is_inside(prefix, place) for prefix in self._prefixes
        )


class OnlyInside:
    """Denies writing anywhere but in one package of a monorepo.

    What git ignores is not kept from commands: they leave caches and installed packages where they please.
    """

    def __init__(
        self,
        package: str,
        ignores_file: Callable[[str], bool] = lambda path: False,
        ignores_directory: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.package = package
        self._ignores_file = ignores_file
        self._ignores_directory = ignores_directory

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "write" and not _is_inside(access.target, self.package):
            return Denial(
                f"{show_path(access.target)} is outside the package {show_path(self.package)}: this task"
                " may only write inside it."
            )
        return None

    def covers(self, path: str) -> bool:
        """Whether a command may not change a file."""
        return not _is_inside(path, self.package) and not self._ignores_file(path)

    def enters(self, directory: str) -> bool:
        """Whether anything below a directory is kept from commands."""
        if _is_internal(directory) or directory == self.package:
            return False
        return not self._ignores_directory(directory)


class ConfigFiles:
    """Denies writing to the files that configure Headgate: a task does not decide what binds the next one.

    Letter case is ignored, since file systems exist that ignore it.
    """

    reason = "it configures Headgate, and allow_config_edits is not set"

    def __init__(self, paths: Sequence[str]) -> None:
        """One that ends in a slash stands for all that is in a directory, or will be."""
        self._paths = frozenset(fold_case(path) for path in paths)
        self._directories = tuple(path for path in self._paths if path.endswith("/"))

    def __bool__(self) -> bool:
        return bool(self._paths)

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "write" and self.covers(access.target):
            return Denial(
                f"{show_path(access.target)} configures Headgate: a task may not change it. "
                "Only a person can allow this, with `allow_config_edits: true`."
            )
        return None

    def covers(self, path: str) -> bool:
        """Whether a file configures Headgate."""
        folded = fold_case(path)
        return folded in self._paths or folded.startswith(self._directories)

    def enters(self, directory: str) -> bool:
        """Whether such a file can be below a directory."""
        below = f"{fold_case(directory)}/"
        return below.startswith(self._directories) or any(path.startswith(below) for path in self._paths)


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _is_internal(directory: str) -> bool:
    return "/" not in directory and internal_name(directory) is not None


# Whether anything that exists is meant by a pattern, and how people spell the repository's own path.


MAX_ENTRIES = 100_000
"""How many entries that git ignores are looked at before it is left open whether a pattern matches one."""


class PatternPresence:
    """Says whether a pattern matches anything in the repository, files that git ignores included."""

    def __init__(self, root: Path, files: Sequence[str]) -> None:
        self._root = root
        self._files = files

    def __call__(self, pattern: str) -> bool:
        covers = Boundaries([pattern]).covers
        if any(map(covers, self._files)):
            return True
        return len(self._entries) >= MAX_ENTRIES or any(map(covers, self._entries))

    @cached_property
    def _entries(self) -> list[str]:
        """Everything there is; an empty folder stands for a file in it."""
        found: list[str] = []
        for folder, folders, files in os.walk(self._root):
            place = os.path.relpath(folder, self._root)
            prefix = "" if place == os.curdir else f"{place}/"
            if not prefix:
                folders[:] = [name for name in folders if internal_name(name) is None]
            found += [f"{prefix}{name}" for name in files]
            found += [f"{prefix}{name}" for name in folders if Path(folder, name).is_symlink()]
            if not files and not folders:
                found.append(f"{prefix}-")
            if len(found) >= MAX_ENTRIES:
                break
        return found


def spellings_of(root: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """How the repository's own path may be written in a boundary."""
    real = root.resolve()
    plain = {str(root), str(real), *_by_links(real, environ.get("PWD", ""))}
    home = environ.get("HOME", "").rstrip("/")
    below = [path[len(home) :] for path in sorted(plain) if home and path.startswith(f"{home}/")]
    at_home = [f"{sign}{rest}" for rest in below for sign in ("~", "$HOME", "${HOME}")]
    return ("$PWD", "${PWD}", "$(pwd)", *sorted(plain), *at_home)


def _by_links(real: Path, working: str) -> list[str]:
    """The root's path by the links that a shell came through to its working directory."""
    inside = Path(working).resolve() if working.startswith("/") else None
    if inside is None or not inside.is_relative_to(real):
        return []
    depth = len(inside.relative_to(real).parts)
    above = [Path(working), *Path(working).parents][depth : depth + 1]
    return [str(path) for path in above if path.resolve() == real]
