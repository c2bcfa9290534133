"""Files that tools leave out: what git ignores, and what `.git` and `.headgate` hold."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from headgate.core import Access, Denial
from headgate.file_stamps import Stamp, is_settled, stamp_of
from headgate.first_use import dataclass, regex
from headgate.reading import Command, split_commands
from headgate.regular_files import TEMPORARY
from headgate.tree.git_repository import common_folder, read_regular
from headgate.tree.globs import Rules, fold_case
from headgate.tree.paths import ConfinedTree

RESERVED = frozenset({".git", ".headgate"})
_READABLE = (".headgate/outputs", ".headgate/runs")
_WRITERS = regex(
    r"chgrp|chmod|chown|cp|dd|install|ln|mkdir|mktemp|mv|rename|rm|rmdir|rsync|shred|tee|touch|truncate|unlink"
    r"|unzip"
)
_IN_PLACE = frozenset({"sed", "gsed", "perl", "ruby"})
_FIND_ACTIONS = frozenset({"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls"})
# Some file systems drop these characters from names, so that a name with one of them is `.git` after all.
_IGNORABLE = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


class InternalFiles:
    """No writing below any `.git` or `.headgate`, no reading there but of saved outputs and run logs."""

    def __call__(self, access: Access, /) -> Denial | None:
        if access.act == "run":
            return _judge(access.target)
        name = internal_name(access.target)
        if name is None:
            return None
        if access.act == "write":
            return Denial(f"{access.target}: tools must not change {name}.")
        if any(access.target == top or access.target.startswith(top + "/") for top in _READABLE):
            return None
        return Denial(f"{access.target}: tools must not read {name}.")


def internal_name(path: str) -> str | None:
    """The component that makes a path internal, in its plain spelling."""
    if path.isascii():
        lowered = path.lower()  # every file of every walk comes by here
        if ".git" not in lowered and ".headgate" not in lowered:
            return None
    for part in path.split("/"):
        plain = fold_case(part).translate(_IGNORABLE)
        if plain in RESERVED:
            return plain
    return None


def _judge(text: str) -> Denial | None:
    """Best effort: commands that plainly write there, by redirection or with a program that writes files."""
    for command in split_commands(text):
        if _cleans_ignored_files(command):
            return Denial("git clean with -x or -X would remove Headgate's own files: leave out that option.")
        targets = list(command.written)
        if _changes_files(command):
            targets += command.arguments
        for target in targets:
            # An option's value counts as well: dd of=.git/x
            name = internal_name(target.rpartition("=")[2])
            if name is not None:
                return Denial(f"The command would change {name}, which tools must not change.")
    return None


def _cleans_ignored_files(command: Command) -> bool:
    words = command.arguments
    flags = (word for word in words if word.startswith("-") and not word.startswith("--"))
    return command.program == "git" and "clean" in words and any("x" in flag.lower() for flag in flags)


def _changes_files(command: Command) -> bool:
    program = command.program.rpartition("/")[2]
    if program in _IN_PLACE:
        return any(
            word.startswith("--in-place") or (word.startswith("-") and word[1:2] != "-" and "i" in word[:4])
            for word in command.arguments
        )
    if program == "find":
        return not _FIND_ACTIONS.isdisjoint(command.arguments)
    return _WRITERS.fullmatch(program) is not None


# The ignore files as they are now, and every file of a tree that they leave, in order.


_IGNORE_FILE = ".gitignore"
MAX_IGNORE_FILE = 1_000_000


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


def _levels_above(tree: ConfinedTree, under: str) -> _Level | None:
    """The rules that hold for a directory, from those above it."""
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
                rules = _read_ignore_file(_IGNORE_FILE, descriptor)
            finally:
                os.close(descriptor)
        level = _level_of(tree, prefix, rules, level)
    return level


def _level_of(tree: ConfinedTree, prefix: str, on_disk: str, above: _Level | None) -> _Level | None:
    """The rules that hold in a directory, with the text of the ignore file that is there on disk."""
    return _level(_laid_rules(tree, prefix, on_disk), prefix, above)


def _laid_rules(tree: ConfinedTree, prefix: str, on_disk: str) -> str:
    """The text of a directory's ignore file, which may be one that is not on disk."""
    path = prefix + _IGNORE_FILE
    kind = tree.layer.kind(path)
    if kind is None:
        return on_disk
    content = tree.layer.content(path)
    return "" if content is None else content.data[:MAX_IGNORE_FILE].decode("utf-8", "surrogateescape")


@lru_cache(maxsize=4096)  # of the same text comes the same object
def _level(text: str, prefix: str, above: _Level | None) -> _Level | None:
    rules = Rules(text.removeprefix("\ufeff").split("\n"))
    return _Level(rules, len(prefix), above) if rules else above


def _read_ignore_file(name: str, directory: int) -> str:
    """A small text file; nothing where there is none or it cannot be read, as in git."""
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            return ""
    except OSError:
        return ""
    return read_regular(name, MAX_IGNORE_FILE, directory).decode("utf-8", "surrogateescape")


def _read_exclude(root: Path) -> str:
    """`info/exclude` of the repository, found through the `.git` file of a worktree or submodule as well."""
    return _read(common_folder(root) / "info" / "exclude")


def is_ignored_now(tree: ConfinedTree, path: str) -> bool:
    """Whether the ignore files as they are now ignore a directory, or all that is in it."""
    within = f"{path}/any name"
    return any(
        level is not None and level.ignores(what, what == path)
        for what in (path, within)
        for level in [_levels_above(tree, what)]
    )


@dataclass(slots=True, eq=False)
class _Folder:
    """What a folder was found to hold. It counts while neither it nor its ignore file has changed."""

    stamps: tuple[Stamp, ...]
    """Of the folder, and of the ignore file in it; empty if something may change without that showing."""
    above: _Level | None
    verdicts: object
    inside: _Level | None
    """The rules that hold in it."""
    parts: list[str | list[str]]
    """In order: the paths of files, all that come between two folders, and the paths of folders."""
    is_whole: bool
    """Whether these are all files that it has."""


class FileList:
    """The regular files of a tree, sorted; no symlinks.

    A folder that cannot be read is passed over, and so is everything for which `may_read` says no. The tree's
    layer counts, ignore files included. `verdicts` tells of what, besides the path, `may_read` depends on.
    """

    def __init__(
        self,
        tree: ConfinedTree,
        may_read: Callable[[str], bool],
        verdicts: Callable[[], object] = lambda: None,
    ) -> None:
        self._tree, self._may_read, self._verdicts = tree, may_read, verdicts
        self._root = str(tree.root)
        self._known: dict[str, _Folder] = {}

    def below(self, under: str) -> list[str]:
        """The paths below a folder. It may be ignored itself: who names a folder means it."""
        found: list[str] = []
        verdicts = self._verdicts()
        pending: list[tuple[str | list[str], _Level | None]] = [(under, _levels_above(self._tree, under))]
        while pending:
            part, level = pending.pop()
            if isinstance(part, list):
                found += part
                continue
            folder = self._known.get(part)
            if folder is None or not self._is_as_before(part, folder, level, verdicts):
                try:
                    folder = self._scan(part, level, verdicts)
                except OSError:
                    continue  # unreadable, or gone meanwhile: as git does, go on with the rest
                if folder.stamps:
                    self._known[part] = folder
            pending += [(one, folder.inside) for one in reversed(folder.parts)]
        return found

    def joined(self, paths: Sequence[str]) -> Sequence[str]:
        """The same files for a program that looks at what is in a folder, but not below: the fewest names.

        Such a folder may have as many other files that are listed, but none that are not.
        """
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            by_folder.setdefault(path.rpartition("/")[0], []).append(path)
        joined: list[str] = []
        for name, files in by_folder.items():
            folder = self._known.get(name)
            is_joined = folder and folder.is_whole and 2 * len(files) >= sum(map(len, _lists(folder.parts)))
            joined += [name] if is_joined else files
        return joined

    def _is_as_before(self, path: str, folder: _Folder, above: _Level | None, verdicts: object) -> bool:
        if folder.above is not above or folder.verdicts != verdicts:
            return False
        place = f"{self._root}/{path}"
        try:
            now = [stamp_of(os.lstat(place))]
            if len(folder.stamps) > 1:
                now.append(stamp_of(os.lstat(f"{place}/{_IGNORE_FILE}")))
        except OSError:
            return False
        return folder.stamps == tuple(now)

    def _scan(self, path: str, above: _Level | None, verdicts: object) -> _Folder:
        prefix = path + "/" if path else ""
        names: dict[str, bool] = {}
        stamps: list[Stamp] = []
        rules, layer = "", self._tree.layer
        if path not in layer.directories:
            descriptor = self._tree.open_directory(path)
            try:
                stamps.append(stamp_of(os.fstat(descriptor)))
                with os.scandir(descriptor) as scan:
                    for entry in scan:
                        is_dir = entry.is_dir(follow_symlinks=False)
                        if is_dir or entry.is_file(follow_symlinks=False):
                            names[entry.name] = is_dir
                if names.get(_IGNORE_FILE) is False:
                    stamps.append(stamp_of(os.stat(_IGNORE_FILE, dir_fd=descriptor, follow_symlinks=False)))
                    rules = _read_ignore_file(_IGNORE_FILE, descriptor)
            finally:
                os.close(descriptor)
        for name, kind in layer.children(path).items():
            if kind == "absent":
                names.pop(name, None)
            else:
                names[name] = kind == "directory"
        level = _level_of(self._tree, prefix, rules, above)
        entries = [
            (prefix + name, is_dir)
            for name, is_dir in names.items()
            if name.lower() not in RESERVED
            and not name.startswith(TEMPORARY)
            and not (level is not None and level.ignores(prefix + name, is_dir))
            and self._may_read(prefix + name)
        ]
        # With its slash a directory sorts where its files belong, so the whole list comes out in path order.
        entries.sort(key=lambda entry: entry[0] + "/" if entry[1] else entry[0])
        files = sum(not is_dir for is_dir in names.values())
        is_whole = files == sum(not is_dir for _, is_dir in entries)
        is_sure = all(is_settled(stamp, time.time_ns()) for stamp in stamps)
        return _Folder(tuple(stamps) if is_sure else (), above, verdicts, level, _grouped(entries), is_whole)


def _lists(parts: Iterable[str | list[str]]) -> Iterator[list[str]]:
    return (part for part in parts if isinstance(part, list))


def _grouped(entries: list[tuple[str, bool]]) -> list[str | list[str]]:
    parts: list[str | list[str]] = []
    for path, is_dir in entries:
        if is_dir:
            parts.append(path)
        elif parts and isinstance(parts[-1], list):
            parts[-1].append(path)
        else:
            parts.append([path])
    return parts


def walk_files(tree: ConfinedTree, under: str, may_read: Callable[[str], bool]) -> Iterator[str]:
    """The same, once."""
    return iter(FileList(tree, may_read).below(under))


# Which paths git ignored at one moment: the ignore files are read once, and new ones change nothing.


class IgnoredPaths:
    """Answers for any path, whether it exists or not. A repository's own files count, a user's do not.

    `recorded` has the ignore files of an earlier moment, by their folders. `of_user` is a user's own file.
    """

    def __init__(self, repo: Path, *, recorded: Mapping[str, str] | None = None, of_user: str = "") -> None:
        exclude = _read_exclude(repo)
        self._exclude = Rules([*of_user.split("\n"), *exclude.split("\n")])
        self._rules = {folder: Rules(text.split("\n")) for folder, text in (recorded or {}).items()}
        self._ignored_directory = lru_cache(maxsize=65536)(self._judge_directory)
        if recorded is not None:
            return
        for place, directories, files in os.walk(repo):
            base = "" if place == str(repo) else Path(place).relative_to(repo).as_posix()
            prefix = f"{base}/" if base else ""
            if _IGNORE_FILE in files:
                self._rules[base] = Rules(_read(Path(place, _IGNORE_FILE)).split("\n"))
            directories[:] = [
                name
                for name in directories
                if name.lower() not in RESERVED and not self.directory(prefix + name)
            ]

    def file(self, path: str) -> bool:
        """Whether a file of this path is ignored, by itself or with a directory above it."""
        parent = path.rpartition("/")[0]
        return (bool(parent) and self.directory(parent)) or self._judge(path, is_dir=False)

    def directory(self, path: str) -> bool:
        """Whether a directory, and with it all that is below, is ignored."""
        return self._ignored_directory(path)

    def _judge_directory(self, path: str) -> bool:
        parts = path.split("/")
        return any(self._judge("/".join(parts[:depth]), is_dir=True) for depth in range(1, len(parts) + 1))

    def _judge(self, path: str, *, is_dir: bool) -> bool:
        base = path
        while base:
            base = base.rpartition("/")[0]
            rules = self._rules.get(base)
            verdict = rules.verdict(path[len(base) + 1 if base else 0 :], is_dir=is_dir) if rules else None
            if verdict is not None:
                return verdict
        return bool(self._exclude.verdict(path, is_dir=is_dir))


def _read(path: Path) -> str:
    """Nothing for an ignore file that cannot be read, as in git."""
    return read_regular(path, MAX_IGNORE_FILE).decode("utf-8", "surrogateescape").removeprefix("\ufeff")
