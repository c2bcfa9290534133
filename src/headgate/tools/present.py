"""Whether anything that exists is meant by a pattern, and how people spell the repository's own path."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from headgate.host.internal import internal_name
from headgate.tools.guards import Boundaries

MAX_ENTRIES = 100_000
"""How many entries that git ignores are looked at before it is left open whether a pattern matches one."""


class Present:
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
