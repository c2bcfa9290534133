"""Every file of a tree that git would not ignore, in order."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from headgate.file_stamps import Stamp, is_settled, stamp_of
from headgate.first_use import dataclass
from headgate.regular_files import TEMPORARY
from headgate.tree.ignore import RESERVED, Level, level_of, levels_above, read_ignore_file
from headgate.tree.paths import ConfinedTree

_IGNORE_FILE = ".gitignore"


@dataclass(slots=True, eq=False)
class _Folder:
    """What a folder was found to hold. It counts while neither it nor its ignore file has changed."""

    stamps: tuple[Stamp, ...]
    """Of the folder, and of the ignore file in it; empty if something may change without that showing."""
    above: Level | None
    verdicts: object
    inside: Level | None
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
        pending: list[tuple[str | list[str], Level | None]] = [(under, levels_above(self._tree, under))]
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

    def _is_as_before(self, path: str, folder: _Folder, above: Level | None, verdicts: object) -> bool:
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

    def _scan(self, path: str, above: Level | None, verdicts: object) -> _Folder:
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
                        if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
                            names[entry.name] = entry.is_dir(follow_symlinks=False)
                if names.get(_IGNORE_FILE) is False:
                    stamps.append(stamp_of(os.stat(_IGNORE_FILE, dir_fd=descriptor, follow_symlinks=False)))
                    rules = read_ignore_file(_IGNORE_FILE, descriptor)
            finally:
                os.close(descriptor)
        for name, kind in layer.children(path).items():
            if kind == "absent":
                names.pop(name, None)
            else:
                names[name] = kind == "directory"
        level = level_of(self._tree, prefix, rules, above)
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
