"""What a dry run proposes: kept as two git trees, shown as a patch, and fitted to files as they are now.

What somebody else has changed as well is merged line by line.
"""

from collections.abc import Sequence
from dataclasses import replace

from headgate.core import show_path
from headgate.errors import ToolDenied, ToolError, ToolFailed
from headgate.first_use import dataclass
from headgate.tree.git_repository import GitFailed
from headgate.tree.objects import Entry, detached_git
from headgate.tree.overlay import ProposedChange
from headgate.tree.snapshots import Difference, Snapshots
from headgate.tree.workspace import File, Workspace, ancestors

_MINE = "as it is now"
_PATCH_FLAGS = (
    *("--patch", "-M", "--binary", "--full-index", "--unified=3", "--inter-hunk-context=0"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--no-color"),
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a diff does not fit the tree as it is: a line for each file."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Version:
    """A file at one moment."""

    data: bytes
    is_executable: bool


def record_proposal(
    snapshots: Snapshots, baseline: str, changes: Sequence[ProposedChange]
) -> tuple[str, str]:
    """Keeps a proposal as two git trees, before and after, and returns their names.

    Before is the baseline with each file as it was when the proposal first touched it.
    """
    before = snapshots.tree_with(baseline, {one.path: _file(one.before, one.before_mode) for one in changes})
    after = snapshots.tree_with(before, {one.path: _file(one.after, one.after_mode) for one in changes})
    return before, after


def _file(data: bytes | None, mode: int | None) -> tuple[bytes, int] | None:
    return None if data is None else (data, mode or 0)


def patch_between(snapshots: Snapshots, before: str, after: str) -> bytes:
    """The difference between two trees, such as `git apply` takes in the working tree."""
    return snapshots.compare(before, after, *_PATCH_FLAGS)


def fit(
    workspace: Workspace, snapshots: Snapshots, found: Sequence[Difference]
) -> tuple[ProposedChange, ...] | Misfit:
    """What to write so that the differences are in the tree: all of them, or why not. Nothing is written.

    A path may have several, which are worked in one after the other. What is in the tree already is left out.
    """
    sides = [side for one in found for side in (one.before, one.after) if side]
    contents = snapshots.contents(name for _, name in sides)
    if lost := [name for _, name in sides if name not in contents]:
        raise GitFailed(f"The git object {lost[0]} is gone, which a diff needs: fetch it again.")

    def version(side: Entry | None) -> _Version | None:
        return _Version(contents[side[1]], side[0] == "100755") if side else None

    scene = _Scene(workspace, found)
    changes, problems = list[ProposedChange](), list[str]()
    for path, ones in _by_path(found).items():
        try:
            now = scene.look(path)
            wanted = _Version(now.data, _is_executable(now.mode)) if now else None
            for one in ones:
                wanted = _worked_in(path, wanted, version(one.before), version(one.after))
            changes += _change(path, now, wanted)
        except ToolError as error:
            problems.append(str(error))
    return Misfit(tuple(sorted(problems))) if problems else tuple(changes)


def _by_path(found: Sequence[Difference]) -> dict[str, list[Difference]]:
    by_path: dict[str, list[Difference]] = {}
    for one in found:
        by_path.setdefault(one.path, []).append(one)
    return {path: by_path[path] for path in sorted(by_path)}


class _Scene:
    """The files that a diff is about, as they are now."""

    def __init__(self, workspace: Workspace, found: Sequence[Difference]) -> None:
        self._workspace = workspace
        self._leaving = {one.path for one in found if one.after is None}
        self._folders = {folder for one in found if one.after for folder in ancestors(one.path)}

    def look(self, path: str) -> File | None:
        """A file as it is now; None if it is not there. ToolError if something is in the way."""
        shown = show_path(path)
        try:
            if self._workspace.locate(shown) != path:
                raise ToolDenied(f"{shown}: is now reached through a symbolic link")
            return self._workspace.read(shown) if self._workspace.exists(shown) else None
        except ToolFailed:
            if not self._leaving.isdisjoint(ancestors(path)):
                return None  # in the way is a file that the diff takes away
            if path in self._leaving & self._folders:
                self._workspace.list(shown)
                return None  # the directory that takes the file's place is there already
            raise


def _worked_in(
    path: str, now: _Version | None, base: _Version | None, wanted: _Version | None
) -> _Version | None:
    """`now` with what was changed from `base` to `wanted`. ToolFailed where the two meet."""
    if _data(now) == _data(wanted):
        merged = now
    elif _data(now) == _data(base):
        merged = wanted
    else:
        merged = _merge(show_path(path), now, base, wanted)
    if merged and wanted and (base is None or base.is_executable != wanted.is_executable):
        return replace(merged, is_executable=wanted.is_executable)
    return replace(merged, is_executable=now.is_executable) if merged and now else merged


def _merge(shown: str, now: _Version | None, base: _Version | None, wanted: _Version | None) -> _Version:
    if now is None:
        raise ToolFailed(f"{shown}: no longer exists")
    if base is None:
        raise ToolFailed(f"{shown}: already exists")
    if wanted is None:
        raise ToolFailed(f"{shown}: has changed, and would be deleted")
    merged = merge_lines(base.data, wanted.data, now.data)
    if merged is None:
        raise ToolFailed(f"{shown}: has changed, and is not text")
    if isinstance(merged, int):
        raise ToolFailed(f"{shown}: has changed at the same place, near line {merged}")
    return _Version(merged, now.is_executable)


def merge_lines(base: bytes, changed: bytes, other: bytes) -> bytes | int | None:
    """`other` with what was changed from `base` to `changed`.

    The number of the first line where the two meet, if they do; None for binary content.
    """
    with detached_git(sha256=False) as place:
        names = ("other", "base", "changed")
        for name, data in zip(names, (other, base, changed), strict=True):
            (place.tree / name).write_bytes(data)
        done = place.run("merge-file", "--stdout", "-L", _MINE, "-L", "before", "-L", "after", *names)
    if not done.returncode:
        return done.stdout
    lines = done.stdout.split(b"\n")
    mark = f"<<<<<<< {_MINE}".encode()
    return lines.index(mark) + 1 if mark in lines else None


def _change(path: str, now: File | None, wanted: _Version | None) -> list[ProposedChange]:
    if now is None:
        if wanted is None:
            return []
        return [ProposedChange(path, None, wanted.data, 0o755 if wanted.is_executable else None)]
    if wanted is None:
        return [ProposedChange(path, now.data, None, None, now.mode)]
    same = wanted.is_executable == _is_executable(now.mode)
    mode = None if same else _with_executable(now.mode, wanted.is_executable)
    if mode is None and wanted.data == now.data:
        return []
    return [ProposedChange(path, now.data, wanted.data, mode, now.mode)]


def _data(version: _Version | None) -> bytes | None:
    return None if version is None else version.data


def _is_executable(mode: int) -> bool:
    return bool(mode & 0o100)


def _with_executable(mode: int, executable: bool) -> int:
    """The mode with or without the right to execute, for everyone who may read."""
    return mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
