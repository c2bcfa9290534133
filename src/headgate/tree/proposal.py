"""What a dry run proposes: kept as two git trees, shown as a patch, adapted to the current tree.

git works in a temporary folder here, without anybody's configuration, attributes, hooks or filters.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.core import show_path
from headgate.errors import StoreError, ToolDenied, ToolError, ToolFailed
from headgate.patterns import regex
from headgate.reading import FileDiff, read_git_diff
from headgate.tree.objects import SHA256_LENGTH, DetachedGit, detached_git, object_name
from headgate.tree.overlay import ProposedChange
from headgate.tree.snapshots import Difference, Snapshots
from headgate.tree.workspace import NEW_FILE_MODE, File, FileChange, Workspace, ancestors

_PATCH_FLAGS = (
    *("--patch", "-M", "--binary", "--full-index", "--unified=3", "--inter-hunk-context=0"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--no-color"),
)
_APPLY = ("apply", "--whitespace=nowarn")
_NO_LINES_BEFORE = regex(r"@@ -\d+,0 ")
_REJECTED = regex(r"^Rejected hunk #(\d+)\.$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AdaptedProposal:
    """What to write so that the proposal is in the tree; nothing if it is there already."""

    changes: tuple[FileChange, ...]


@dataclass(frozen=True, slots=True)
class ProposalConflicts:
    """Why the proposal does not fit the tree as it is: a line for each file or hunk."""

    problems: tuple[str, ...]


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


def strict_patch(snapshots: Snapshots, found: Sequence[Difference]) -> bytes:
    """A patch of these differences that takes no file for a moved one: it deletes only what it knows."""
    return snapshots.patch(found, *("--no-renames" if flag == "-M" else flag for flag in _PATCH_FLAGS))


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file."""

    raw: bytes
    old: str | None
    """The path before; None for a new file."""
    new: str | None
    """The path after; None for a file that is deleted, another one for a file that is moved."""
    is_executable: bool | None
    """Whether the file is to be executable; None if that stays."""
    after_hash: str | None
    """git's name of the content after; None if the content stays."""
    hunks: tuple[str, ...]
    """The places of the hunks, as their headers name them; none for a binary file."""
    is_binary: bool

    def leaves(self, data: bytes) -> bool:
        """Whether this is the content that the patch makes; what it does not change counts as that."""
        return self.after_hash is None or self.after_hash == object_name("blob", data, len(self.after_hash))


def _files_of(patch: bytes) -> tuple[FilePatch, ...]:
    """The files of a patch, in order. StoreError if it is not one of ours."""
    text = patch.decode("utf-8", "surrogateescape")
    if text and not text.startswith("diff --git "):
        raise StoreError("The proposal's patch does not start with a file.")
    lines = [line + b"\n" for line in patch.split(b"\n")]
    lines[-1] = lines[-1].removesuffix(b"\n")
    return tuple(
        _file_patch(file, b"".join(lines[file.first - 1 : file.last])) for file in read_git_diff(text)
    )


def _file_patch(file: FileDiff, raw: bytes) -> FilePatch:
    index = file.header("index ")
    after_hash = None if index is None else index.partition(" ")[0].partition("..")[2]
    return FilePatch(
        raw,
        None if file.is_new else file.old,
        None if file.is_deleted else file.new,
        file.is_executable,
        after_hash,
        tuple(hunk.place.text for hunk in file.hunks if hunk.place),
        file.is_binary,
    )


def adapt_proposal(workspace: Workspace, patch: bytes) -> AdaptedProposal | ProposalConflicts:
    """What a patch makes of the tree as it is now; nothing is written.

    Lines may have moved. What is in the tree already is left out; of a file that was only moved, the patch
    does not tell the content, so that it counts as moved if it is gone here and there is one there.
    """
    files = _files_of(patch)
    scene = _PatchedFiles(workspace, files)
    changes: list[FileChange] = []
    todo: list[FilePatch] = []
    problems: list[str] = []
    for file in files:
        try:
            if scene.needs_git(file):
                todo.append(file)
            else:
                changes += scene.remaining(file)
        except ToolError as error:
            problems.append(str(error))
    try:
        changes += _apply(scene, todo)
    except ToolFailed as error:
        problems += _explain(scene, todo) or [str(error)]
    if problems:
        return ProposalConflicts(tuple(sorted(problems)))
    return AdaptedProposal(tuple(sorted(changes, key=lambda change: change.path)))


class _PatchedFiles:
    """The files that a patch is about, as they are now."""

    def __init__(self, workspace: Workspace, files: Iterable[FilePatch]) -> None:
        self._workspace = workspace
        self._leaving = {file.old for file in files if file.old is not None and file.old != file.new}
        self._folders = {folder for file in files if file.new is not None for folder in ancestors(file.new)}
        self._read: dict[str, File | None] = {}

    def now(self, path: str) -> File | None:
        """A file as it is now; None if it is not there. ToolError if something is in the way."""
        if path not in self._read:
            self._read[path] = self._look(path)
        return self._read[path]

    def needs_git(self, file: FilePatch) -> bool:
        """Whether the patch is still to be worked in. ToolFailed if it cannot be, whatever the content is."""
        old = None if file.old is None else self.now(file.old)
        new = None if file.new is None else self.now(file.new)
        if file.new is None:
            return old is not None
        if old is None and new is None and file.old is not None:
            raise ToolFailed(f"{show_path(file.old)}: no longer exists")
        if file.old == file.new:
            return new is not None and not file.leaves(new.data)
        if new is None:
            return True
        if old is not None or not file.leaves(new.data):
            raise ToolFailed(f"{show_path(file.new)}: already exists")
        return False

    def remaining(self, file: FilePatch) -> list[FileChange]:
        """What is left to do where the content is right: the mode, perhaps."""
        now = None if file.new is None else self.now(file.new)
        if now is None or file.is_executable in (None, _is_executable(now.mode)):
            return []
        return [FileChange(now.path, now.data, now.data, _with_executable(now.mode, file.is_executable))]

    def result(self, file: FilePatch, place: DetachedGit) -> list[FileChange]:
        """What git made of one file, as changes to what is there now."""
        old = None if file.old is None else self.now(file.old)
        changes = []
        if old is not None and file.old != file.new:
            changes.append(FileChange(old.path, old.data, None))
        if file.new is not None:
            made = place.tree / file.new
            if made.is_symlink() or not made.is_file():
                raise ToolFailed(f"{show_path(file.new)}: is not a file, and links are not applied")
            executable = _is_executable(made.stat().st_mode)
            mode = _with_executable(NEW_FILE_MODE if old is None else old.mode, executable)
            usual = old.mode if old is not None and file.old == file.new else NEW_FILE_MODE
            before = old.data if old is not None and file.old == file.new else None
            changes.append(FileChange(file.new, before, made.read_bytes(), None if mode == usual else mode))
        return changes

    def lay_out(self, file: FilePatch, place: DetachedGit) -> None:
        """Puts the file as it is now where git is to work on it."""
        old = None if file.old is None else self.now(file.old)
        if old is not None:
            copy = place.tree / old.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(old.data)
            copy.chmod(_with_executable(NEW_FILE_MODE, _is_executable(old.mode)))

    def _look(self, path: str) -> File | None:
        shown = show_path(path)
        try:
            if self._workspace.locate(shown) != path:
                raise ToolDenied(f"{shown}: is now reached through a symbolic link")
            return self._workspace.read(shown) if self._workspace.exists(shown) else None
        except ToolFailed:
            if not self._leaving.isdisjoint(ancestors(path)):
                return None  # in the way is a file that the patch takes away
            if path in self._leaving & self._folders:
                self._workspace.list(shown)
                return None  # the directory that takes the file's place is there already
            raise


def _apply(scene: _PatchedFiles, files: Sequence[FilePatch]) -> list[FileChange]:
    """All that the patches make of their files. ToolFailed if one does not fit."""
    if not files:
        return []
    with detached_git(sha256=_uses_sha256(files)) as place:
        for file in files:
            scene.lay_out(file, place)
        done = place.run(*_flags(files), "-", stdin=b"".join(file.raw for file in files))
        if done.returncode:
            raise ToolFailed(f"The patch does not apply: {done.stderr.decode('utf-8', 'replace').strip()}")
        return [change for file in files for change in scene.result(file, place)]


def _flags(files: Sequence[FilePatch]) -> tuple[str, ...]:
    """How the patches are applied: a hunk at a file's first or last line may be elsewhere now.

    One that only adds lines, to a file that had none, must not be put just anywhere.
    """
    only_adds = any(file.old and _NO_LINES_BEFORE.match(hunk) for file in files for hunk in file.hunks)
    return _APPLY if only_adds else (*_APPLY, "--unidiff-zero")


def _explain(scene: _PatchedFiles, files: Sequence[FilePatch]) -> list[str]:
    """Which hunks do not fit, found by trying each file by itself."""
    problems: list[str] = []
    for file in files:
        with detached_git(sha256=_uses_sha256(files)) as place:
            scene.lay_out(file, place)
            done = place.run(*_flags(files), "--reject", "-", stdin=file.raw)
        if done.returncode:
            problems += _rejections(file, done.stderr.decode("utf-8", "replace"))
    return problems


def _rejections(file: FilePatch, told: str) -> list[str]:
    shown = show_path(file.old or file.new or "")
    if not file.hunks:
        return [f"{shown}: has changed, and a patch for binary or empty content applies only to the original"]
    # Of a file to be deleted, git names no hunk when more is left than the one hunk takes away.
    numbers = [int(number) for number in _REJECTED.findall(told)] or [1]
    return [f"{shown}: hunk {number} ({file.hunks[number - 1]}) does not apply" for number in numbers]


def _uses_sha256(files: Iterable[FilePatch]) -> bool:
    return any(file.after_hash is not None and len(file.after_hash) == SHA256_LENGTH for file in files)


def _is_executable(mode: int) -> bool:
    return bool(mode & 0o100)


def _with_executable(mode: int, executable: bool | None) -> int:
    """The mode with or without the right to execute, for everyone who may read."""
    return mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
