"""Every file of a tree that git would not ignore, in order."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headgate.host.globs import Rules
from headgate.host.internal import RESERVED
from headgate.host.paths import Tree

MAX_IGNORE_FILE = 1_000_000
TEMPORARY = ".headgate-tmp-"
"""How the names of files start that a write has not put in place yet."""


@dataclass(frozen=True, slots=True)
class _Level:
    """The rules of one directory, and of those above it."""

    rules: Rules
    base: int
    """The length of the directory's path with its slash: rules see what comes behind."""
    above: "_Level | None"

    def ignores(self, path: str, is_dir: bool) -> bool:
        level: _Level | None = self
        while level is not None:
            verdict = level.rules.verdict(path[level.base :], is_dir=is_dir)
            if verdict is not None:
                return verdict
            level = level.above
        return False


def walk_files(tree: Tree, under: str, may_read: Callable[[str], bool]) -> Iterator[str]:
    """The paths of the regular files below `under` (canonical), sorted; no symlinks.

    A directory that cannot be read is passed over, and so is everything for which `may_read` says no. The
    tree's layer counts, ignore files included.
    `under` itself may be ignored: who names a directory means it.
    """
    pending: list[tuple[str, _Level | None, bool]] = [(under, _levels_above(tree, under), True)]
    while pending:
        path, level, is_dir = pending.pop()
        if not is_dir:
            yield path
            continue
        try:
            found, level = _scan(tree, path, level)
        except OSError:
            continue  # unreadable, or gone meanwhile: as git does, go on with the rest
        pending.extend((entry, level, entry_is_dir) for entry, entry_is_dir in found if may_read(entry))


def _scan(tree: Tree, path: str, level: _Level | None) -> tuple[list[tuple[str, bool]], _Level | None]:
    """A directory's entries that are not ignored, last first, and the rules that hold inside."""
    prefix = path + "/" if path else ""
    names: dict[str, bool] = {}
    rules = ""
    if path not in tree.layer.directories:
        descriptor = tree.open_directory(path)
        try:
            with os.scandir(descriptor) as scan:
                for entry in scan:
                    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
                        names[entry.name] = entry.is_dir(follow_symlinks=False)
            if names.get(".gitignore") is False:
                rules = _read_at(".gitignore", descriptor)
        finally:
            os.close(descriptor)
    for name, kind in tree.layer.children(path).items():
        if kind == "absent":
            names.pop(name, None)
        else:
            names[name] = kind == "directory"
    level = _level(_laid_rules(tree, prefix, rules), prefix, level)
    entries = [
        (prefix + name, is_dir)
        for name, is_dir in names.items()
        if name.lower() not in RESERVED
        and not name.startswith(TEMPORARY)
        and not (level is not None and level.ignores(prefix + name, is_dir))
    ]
    # With its slash a directory sorts where its files belong, so the whole walk comes out in path order.
    entries.sort(key=lambda entry: entry[0] + "/" if entry[1] else entry[0], reverse=True)
    return entries, level


def _levels_above(tree: Tree, under: str) -> _Level | None:
    level = _level(_read_exclude(tree.root), "", None)
    parts = under.split("/") if under else []
    for depth in range(len(parts)):
        path = "/".join(parts[:depth])
        prefix = path + "/" if path else ""
        rules = ""
        if path not in tree.layer.directories:
            try:
                descriptor = tree.open_directory(path)
            except OSError:
                return level
            try:
                rules = _read_at(".gitignore", descriptor)
            finally:
                os.close(descriptor)
        level = _level(_laid_rules(tree, prefix, rules), prefix, level)
    return level


def _laid_rules(tree: Tree, prefix: str, on_disk: str) -> str:
    """The text of a directory's ignore file, which may be one that is not on disk."""
    path = prefix + ".gitignore"
    kind = tree.layer.kind(path)
    if kind is None:
        return on_disk
    content = tree.layer.content(path)
    return "" if content is None else content.data[:MAX_IGNORE_FILE].decode("utf-8", "surrogateescape")


def _level(text: str, prefix: str, above: _Level | None) -> _Level | None:
    rules = Rules(text.removeprefix("\ufeff").split("\n"))
    return _Level(rules, len(prefix), above) if rules else above


def _read_at(name: str, directory: int) -> str:
    """A small text file; nothing where there is none or it cannot be read."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
            return file.read(MAX_IGNORE_FILE).decode("utf-8", "surrogateescape")
    except OSError:
        return ""  # git takes an ignore file that it cannot read for an empty one


def _read_exclude(root: Path) -> str:
    """`info/exclude` of the repository, found through the `.git` file of a worktree or submodule as well."""
    git = root / ".git"
    try:
        if git.is_file():
            text = git.read_text("utf-8", "surrogateescape")
            git = root / text.removeprefix("gitdir:").strip()
            common = git / "commondir"
            if common.is_file():
                git = git / common.read_text("utf-8", "surrogateescape").strip()
        with (git / "info" / "exclude").open("rb") as file:
            return file.read(MAX_IGNORE_FILE).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return ""  # no repository, or no exclude file: nothing is excluded
