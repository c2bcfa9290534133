"""What Headgate asks of git: snapshots of the tree, diffs between them, and to be left out of them.

Snapshots are git trees in an object folder of our own: the user's index, refs and objects are not touched.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from headgate.core import OWN_FOLDER, show_path
from headgate.errors import HeadgateError
from headgate.regular_files import PlantedFile, check_own, make_own_folder, read_own, write_own

_SAFE = "headgate"
# The repository's own configuration must not make git run programs for us, nor look away from files.
_QUIET = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.quotePath=false"),
    *("-c", "advice.addEmbeddedRepo=false"),
    *("-c", "core.safecrlf=false"),
    *("-c", "core.sparseCheckout=false"),
    # The other half of a split index would be put into the user's git folder.
    *("-c", "core.splitIndex=false"),
)


# Events name what snapshots record, so that has to survive a power cut as they do.
_DURABLE = ("-c", "core.fsync=loose-object", "-c", "core.fsyncMethod=batch")


class GitFailed(HeadgateError):
    """git did not do what was asked."""


def git(repo: Path, *args: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> bytes:
    """Runs git and returns what it printed. GIT_DIR and the like, set by a hook around us, do not count."""
    done = run_git(repo, *args, env=env, stdin=stdin)
    if done.returncode:
        raise failure_of(done, next(arg for arg in args if arg != "-c" and "=" not in arg))
    return done.stdout


def run_git(
    folder: Path, *args: str, env: dict[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Runs git, whatever comes of it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", *_QUIET, "-C", str(folder), *args],
            env={**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(env or {})},
            input=stdin,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise GitFailed("git is not installed: install it and run again.") from None


def failure_of(done: subprocess.CompletedProcess[bytes], command: str) -> GitFailed:
    """What a failed git gave as its reason, or said last."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    reasons = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    said = (reasons or lines or [f"exit code {done.returncode}"])[-1]
    return GitFailed(f"git {command} failed: {said}")


LARGE = 20_000_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A path in two trees: its mode and its blob in each, None where it is not there."""

    path: str
    before: tuple[str, str] | None
    after: tuple[str, str] | None

    @classmethod
    def of(cls, row: bytes, path: str) -> "Difference":
        """From a line such as `:100644 100755 OLD NEW M`."""
        old_mode, new_mode, old, new = row.decode()[1:].split()[:4]
        before = (old_mode, old) if old.strip("0") else None
        return cls(path, before, (new_mode, new) if new.strip("0") else None)

    @property
    def is_plain(self) -> bool:
        """Whether it is an ordinary file wherever it is there."""
        return all(side is None or side[0].startswith("100") for side in (self.before, self.after))


class Snapshots:
    """Trees of a repository, untracked files included, ignored and very large new ones not.

    One at a time: git locks its index, and a cancelled task may ask again while git still works. Only the
    holder of the repository's lock may take one; who only reads takes them `apart`.
    """

    def __init__(self, repo: Path) -> None:
        self.repo = repo
        self._one_at_a_time = Lock()
        self._folder = safe_folder(repo)
        self._index = self._folder / "snapshot.index"

    @classmethod
    @contextmanager
    def apart(cls, repo: Path) -> "Iterator[Snapshots]":
        """Snapshots for a process beside the one that works: all that they write is gone with the block."""
        with TemporaryDirectory(prefix="headgate-") as folder:
            snapshots = cls(repo)
            shared, snapshots._index = snapshots._index, Path(folder) / "index"
            snapshots._folder = Path(folder)
            with suppress(FileNotFoundError, PlantedFile):  # then git's own index is what to begin with
                snapshots._index.write_bytes(read_own(shared))
            yield snapshots

    def take(self) -> str:
        """Records the working tree as it is and returns the tree's name."""
        with self._one_at_a_time:
            # Only one process works in a repository, so a lock that is there now was left by a crash.
            self._index.with_name(self._index.name + ".lock").unlink(missing_ok=True)
            make_own_folder(self._folder)
            try:
                check_own(self._index)
            except PlantedFile:  # git would wait for a pipe, and write through a link
                self._index.unlink()
            try:
                return self._take()
            except GitFailed:
                self._index.unlink(missing_ok=True)
                return self._take()

    def _take(self) -> str:
        if not self._index.exists():
            self._copy_index()
        new = self._list("--others", "--exclude-standard")
        large = [f":(exclude,literal){path}" for path in new if _size(self.repo / path) > LARGE]
        try:
            self._git("add", "--all", "--", ".", *large)
        except GitFailed:
            # A file that cannot be read, or a nested repository without commits, must not stop the task.
            self._add_one_by_one()
        # A `.gitignore` of the repository could undo our own exclusion.
        self._git("rm", "-r", "-f", "-q", "--cached", "--ignore-unmatch", "--", OWN_FOLDER)
        return self._git("write-tree").decode().strip()

    def files(self, tree: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The paths in a tree: of files and links, and of repositories within the repository."""
        rows = [row.partition(b"\t") for row in self._git("ls-tree", "-r", "-z", tree).split(b"\0") if row]
        nested = tuple(os.fsdecode(path) for mode, _, path in rows if mode.startswith(b"160000 "))
        return tuple(os.fsdecode(path) for _, _, path in rows if os.fsdecode(path) not in nested), nested

    def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that differ between two trees."""
        return self._differing(before, after)

    def new_files(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that only the second tree has."""
        return self._differing(before, after, "--diff-filter=A")

    def differences(self, before: str, after: str) -> "tuple[Difference, ...]":
        """Every path that differs between two trees, with what it is in each of them."""
        out = self._git("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", before, after)
        fields = [field for field in out.split(b"\0") if field]
        rows = zip(fields[::2], fields[1::2], strict=True)
        return tuple(Difference.of(row, os.fsdecode(path)) for row, path in rows)

    def contents(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """The contents of blobs, by their names; those that a partial clone does not have are left out."""
        names = list(dict.fromkeys(blobs))
        out = self._git("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
        found: dict[str, bytes] = {}
        at = 0
        for name in names:
            end = out.index(b"\n", at)
            words = out[at:end].split()
            at = end + 1
            if len(words) == 3:
                found[name] = out[at : at + int(words[2])]
                at += int(words[2]) + 1
        return found

    def diff(self, before: str, after: str) -> str:
        """A git-style unified diff between two trees."""
        flags = ("--patch", "--no-color", "--no-ext-diff", "--no-textconv", "-r", "-M")
        return self._git("diff-tree", *flags, before, after).decode("utf-8", "surrogateescape")

    def diffstat(self, before: str, after: str) -> tuple[str, ...]:
        """One line for each file that differs: the lines added and removed."""
        out = self._git("diff-tree", "-r", "-z", "--no-renames", "--numstat", before, after)
        rows = [os.fsdecode(row).split("\t", 2) for row in out.split(b"\0") if row]
        return tuple(
            f"{show_path(path)}: {'binary' if added == '-' else f'+{added} -{removed}'}"
            for added, removed, path in rows
        )

    def _differing(self, before: str, after: str, *flags: str) -> tuple[str, ...]:
        out = self._git("diff-tree", "-r", "-z", "--no-renames", "--name-only", *flags, before, after)
        return tuple(os.fsdecode(path) for path in out.split(b"\0") if path)

    @cached_property
    def _environment(self) -> dict[str, str]:
        """An index and an object folder of our own."""
        own = {"GIT_INDEX_FILE": str(self._index), "GIT_OBJECT_DIRECTORY": str(self.objects)}
        return {**own, **_without_filters(self.repo)}

    @cached_property
    def objects(self) -> Path:
        """The folder of our own objects, which falls back on the shared one and on the repository's."""
        objects, kept = self._folder / "objects", safe_folder(self.repo) / "objects"
        others = [(self.repo / git_path(self.repo, "objects")).resolve()]
        if objects != kept:
            others.append(kept.resolve())
        make_own_folder(objects / "info", folders=3)
        alternates, lines = objects / "info" / "alternates", b"".join(os.fsencode(o) + b"\n" for o in others)
        if alternates.is_symlink() or not alternates.is_file() or read_own(alternates, folders=3) != lines:
            # Whole at any moment: another process may have git read it just now.
            draft = alternates.with_name(f"alternates.{os.getpid()}")
            draft.unlink(missing_ok=True)
            write_own(draft, lines, folders=3)
            draft.replace(alternates)
        return objects

    def _git(self, *args: str, stdin: bytes = b"") -> bytes:
        return git(self.repo, *_DURABLE, *args, env=self._environment, stdin=stdin)

    def _list(self, *flags: str) -> list[str]:
        out = self._git("ls-files", "-z", *flags)
        return [os.fsdecode(path) for path in out.split(b"\0") if path]

    def _copy_index(self) -> None:
        """Starting from the user's index spares git from reading files that have not changed.

        Marks that make git look away from a file (assume-unchanged, skip-worktree) are taken off our copy.
        """
        source = self.repo / git_path(self.repo, "index")
        if source.is_symlink() or not source.is_file():
            return
        write_own(self._index, read_own(source, folders=0))
        listed = self._git("ls-files", "-v", "-z").split(b"\0")
        marked = [line[2:] for line in listed if line[:1] == b"S" or line[:1].islower()]
        if marked:
            for flag in ("--no-assume-unchanged", "--no-skip-worktree"):
                self._git("update-index", flag, "-z", "--stdin", stdin=b"\0".join(marked) + b"\0")

    def _add_one_by_one(self) -> None:
        paths = set(self._list("--others", "--modified", "--deleted", "--exclude-standard"))
        literal = {**self._environment, "GIT_LITERAL_PATHSPECS": "1"}
        addable = [path for path in sorted(paths) if not path.endswith("/") and _addable(self.repo / path)]
        if not addable:
            return
        try:
            flags = ("--all", "--pathspec-from-file=-", "--pathspec-file-nul")
            listed = b"\0".join(map(os.fsencode, addable))
            git(self.repo, *_DURABLE, "add", *flags, env=literal, stdin=listed)
        except GitFailed:
            for path in addable:
                with suppress(GitFailed):
                    git(self.repo, *_DURABLE, "add", "--all", "--", path, env=literal)


def _without_filters(repo: Path) -> dict[str, str]:
    """Settings that switch the repository's content filters off: they run programs, which may be missing."""
    try:
        listed = git(repo, "config", "--name-only", "--get-regexp", r"^filter\.").decode("utf-8", "replace")
    except GitFailed:
        return {}
    names = sorted({line.rpartition(".")[0] for line in listed.splitlines()})
    settings = [(f"{name}.{key}", value) for name in names for key, value in _OFF]
    numbered = {f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(settings)}
    numbered |= {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(settings)}
    return {"GIT_CONFIG_COUNT": str(len(settings)), **numbered}


_OFF = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _addable(path: Path) -> bool:
    """A link, a file that can be read, or nothing at all any more."""
    return path.is_symlink() or not path.exists() or (path.is_file() and os.access(path, os.R_OK))


def git_path(repo: Path, name: str) -> str:
    """Where git keeps one of its own files; right for worktrees and submodules too."""
    return os.fsdecode(git(repo, "rev-parse", "--git-path", name)).rstrip("\n")


def safe_folder(repo: Path) -> Path:
    """Headgate's folder within git's own, for what has to survive whatever a command does to `.headgate`.

    `git clean -fdx` leaves it alone. A worktree or a submodule has one of its own.
    """
    mark = repo / ".git"
    if mark.is_file():
        named = mark.read_text(encoding="utf-8", errors="surrogateescape")
        return repo / named.removeprefix("gitdir:").strip() / _SAFE
    return mark / _SAFE


def exclude_internal(repo: Path) -> None:
    """Keeps `.headgate/` out of git without touching a tracked file."""
    path = repo / git_path(repo, "info/exclude")
    line = f"/{OWN_FOLDER}/"
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    if line not in text.splitlines():
        path.parent.mkdir(parents=True, exist_ok=True)
        joint = "" if not text or text.endswith("\n") else "\n"
        path.write_text(f"{text}{joint}{line}\n", encoding="utf-8", errors="surrogateescape")
