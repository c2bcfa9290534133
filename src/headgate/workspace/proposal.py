"""What a dry run proposes: kept as two git trees, shown as a patch, adapted to the current tree.

git works in a temporary folder here, without anybody's configuration, attributes, hooks or filters.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import new as new_hash
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.core import show_path
from headgate.errors import StoreError, ToolDenied, ToolError, ToolFailed
from headgate.reading import FileDiff, read_git_diff
from headgate.workspace.git_repository import Snapshots, failure_of, run_git
from headgate.workspace.overlay import ProposedChange
from headgate.workspace.workspace import NEW_FILE_MODE, File, FileChange, Workspace, ancestors

_SHA256_LENGTH = 64
# Contents are bytes here, whatever a `.gitattributes` among the files says. This file outranks those.
_ATTRIBUTES = "* -text !eol !crlf !ident !filter !working-tree-encoding !diff !whitespace\n"
_SHA256 = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
_FLAGS = (
    *("-c", "core.attributesFile=/dev/null"),
    # Names are checked by the workspace; what is odd on other systems is fine on this one.
    *("-c", "core.protectNTFS=false"),
    *("-c", "core.protectHFS=false"),
    # What is recorded has to survive a power cut.
    *("-c", "core.fsync=loose-object"),
)
_PATCH_FLAGS = (
    *("-r", "--patch", "-M", "--binary", "--full-index", "--unified=3", "--inter-hunk-context=0"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--no-color", "--no-ext-diff", "--no-textconv"),
)
_APPLY = ("apply", "--whitespace=nowarn")
_REJECTED = re.compile(r"^Rejected hunk #(\d+)\.$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _DetachedGit:
    """An empty working tree, and a git folder that knows nothing but, perhaps, where objects are."""

    tree: Path
    environment: dict[str, str]

    def run(self, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Runs git in the tree, whatever comes of it."""
        return run_git(self.tree, *_FLAGS, *args, env=self.environment, stdin=stdin)

    def git(self, *args: str, stdin: bytes = b"") -> bytes:
        """What git printed. GitFailed if it failed."""
        done = self.run(*args, stdin=stdin)
        if done.returncode:
            raise failure_of(done, args[0])
        return done.stdout


@contextmanager
def _detached_git(*, sha256: bool, objects: Path | None = None) -> Iterator[_DetachedGit]:
    """Such a place, gone with the block. Objects are found in, and go to, a folder that stays."""
    with TemporaryDirectory(prefix="headgate-") as temporary:
        top = Path(os.path.realpath(temporary))
        folder, tree = top / "git", top / "tree"
        tree.mkdir()
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(_SHA256 if sha256 else "")
        (folder / "info" / "attributes").write_text(_ATTRIBUTES)
        environment = {
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(tree),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
        }
        if objects is not None:
            environment["GIT_OBJECT_DIRECTORY"] = str(objects)
        yield _DetachedGit(tree, environment)


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
    with _detached_git(sha256=len(baseline) == _SHA256_LENGTH, objects=snapshots.objects) as place:
        place.git("read-tree", baseline)
        _drop_nested_repositories(place, [change.path for change in changes])
        names = _store(place, [data for one in changes for data in (one.before, one.after)])
        before = _write_tree(
            place, {change.path: (change.before, change.before_mode) for change in changes}, names
        )
        after = _write_tree(
            place, {change.path: (change.after, change.after_mode) for change in changes}, names
        )
    return before, after


def tree_with_files(
    snapshots: Snapshots, tree: str, files: Mapping[str, tuple[bytes, int]], gone: Iterable[str] = ()
) -> str:
    """The name of a git tree: another one with these files, given as content and mode, and without some."""
    with _detached_git(sha256=len(tree) == _SHA256_LENGTH, objects=snapshots.objects) as place:
        place.git("read-tree", tree)
        left_out = [
            b"0 %s\t%s\0" % (b"0" * len(tree), path.encode("utf-8", "surrogateescape")) for path in gone
        ]
        place.git("update-index", "-z", "--index-info", stdin=b"".join(left_out))
        names = _store(place, [data for data, _ in files.values()])
        return _write_tree(place, files, names)


def patch_between(snapshots: Snapshots, before: str, after: str) -> bytes:
    """The difference between two trees, such as `git apply` takes in the working tree."""
    with _detached_git(sha256=len(before) == _SHA256_LENGTH, objects=snapshots.objects) as place:
        return place.git("diff-tree", *_PATCH_FLAGS, before, after)


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
        return self.after_hash is None or self.after_hash == _blob_name(data, len(self.after_hash))


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


def _blob_name(data: bytes, length: int) -> str:
    """git's name of a content, by the kind of hash that gives names of this length."""
    algorithm = "sha256" if length == _SHA256_LENGTH else "sha1"
    return new_hash(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


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


def _drop_nested_repositories(place: _DetachedGit, paths: Iterable[str]) -> None:
    """Takes the repositories within the repository out of the index that these files are in.

    A tree has either one of them or files in its place, and its deletion is not what is proposed.
    """
    folders = {folder for path in paths for folder in ancestors(path)}
    rows = [row.partition(b"\t") for row in place.git("ls-files", "-s", "-z").split(b"\0") if row]
    nested = [(entry, path) for entry, _, path in rows if entry.startswith(b"160000 ")]
    gone = [
        b"0 %s\t%s\0" % (b"0" * len(entry.split()[1]), path)
        for entry, path in nested
        if path.decode("utf-8", "surrogateescape") in folders
    ]
    place.git("update-index", "-z", "--index-info", stdin=b"".join(gone))


def _store(place: _DetachedGit, given: Iterable[bytes | None]) -> dict[bytes, str]:
    """Writes contents as objects, as they are; their names by content."""
    contents = list(dict.fromkeys(data for data in given if data is not None))
    for number, data in enumerate(contents):
        (place.tree / str(number)).write_bytes(data)
    listed = "".join(f"{number}\n" for number in range(len(contents))).encode()
    out = place.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listed)
    return dict(zip(contents, out.decode().split(), strict=True))


def _write_tree(
    place: _DetachedGit, files: Mapping[str, tuple[bytes | None, int | None]], names: Mapping[bytes, str]
) -> str:
    gone, there = [], []
    for path, (data, mode) in files.items():
        raw = path.encode("utf-8", "surrogateescape")
        if data is None:
            gone.append(b"0 %s\t%s\0" % (b"0" * len(next(iter(names.values()))), raw))
        else:
            kind = b"100755" if (mode or 0) & 0o100 else b"100644"
            there.append(b"%s %s\t%s\0" % (kind, names[data].encode(), raw))
    place.git("update-index", "-z", "--index-info", stdin=b"".join(gone + there))
    # Objects that nobody touched are the repository's business; it may have left some on a server.
    return place.git("write-tree", "--missing-ok").decode().strip()


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

    def result(self, file: FilePatch, place: _DetachedGit) -> list[FileChange]:
        """What git made of one file, as changes to what is there now."""
        old = None if file.old is None else self.now(file.old)
        changes = []
        if old is not None and file.old != file.new:
            changes.append(FileChange(old.path, old.data, None))
        if file.new is not None:
            made = place.tree / file.new
            executable = _is_executable(made.stat().st_mode)
            mode = _with_executable(NEW_FILE_MODE if old is None else old.mode, executable)
            usual = old.mode if old is not None and file.old == file.new else NEW_FILE_MODE
            before = old.data if old is not None and file.old == file.new else None
            changes.append(FileChange(file.new, before, made.read_bytes(), None if mode == usual else mode))
        return changes

    def lay_out(self, file: FilePatch, place: _DetachedGit) -> None:
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
    with _detached_git(sha256=_uses_sha256(files)) as place:
        for file in files:
            scene.lay_out(file, place)
        done = place.run(*_APPLY, "-", stdin=b"".join(file.raw for file in files))
        if done.returncode:
            raise ToolFailed(f"The patch does not apply: {done.stderr.decode('utf-8', 'replace').strip()}")
        return [change for file in files for change in scene.result(file, place)]


def _explain(scene: _PatchedFiles, files: Sequence[FilePatch]) -> list[str]:
    """Which hunks do not fit, found by trying each file by itself."""
    problems: list[str] = []
    for file in files:
        with _detached_git(sha256=_uses_sha256(files)) as place:
            scene.lay_out(file, place)
            done = place.run(*_APPLY, "--reject", "-", stdin=file.raw)
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
    return any(file.after_hash is not None and len(file.after_hash) == _SHA256_LENGTH for file in files)


def _is_executable(mode: int) -> bool:
    return bool(mode & 0o100)


def _with_executable(mode: int, executable: bool | None) -> int:
    """The mode with or without the right to execute, for everyone who may read."""
    return mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
