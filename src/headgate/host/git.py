"""What Headgate asks of git: snapshots of the tree, diffs between them, and to be left out of them.

Snapshots are git trees in an object folder of our own: the user's index, refs and objects are not touched.
"""

import os
import subprocess
from functools import cached_property
from pathlib import Path

from headgate.errors import HeadgateError

INTERNAL = ".headgate"
# The repository's own configuration must not make git run programs for us.
_QUIET = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.quotePath=false"),
    *("-c", "advice.addEmbeddedRepo=false"),
)


class GitFailed(HeadgateError):
    """git did not do what was asked."""


def git(repo: Path, *args: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> bytes:
    """Runs git and returns what it printed. GIT_DIR and the like, set by a hook around us, do not count."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *_QUIET, "-C", str(repo), *args],
            env={**inherited, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(env or {})},
            input=stdin,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise GitFailed("git is not installed: install it and run again") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(f"git {args[0]} failed: {message[-1] if message else f'exit code {done.returncode}'}")
    return done.stdout


class Snapshots:
    """Trees of a repository, untracked files included, ignored ones not."""

    def __init__(self, repo: Path) -> None:
        self.repo = repo

    def take(self) -> str:
        """Records the working tree as it is and returns the tree's name."""
        if not self._index.exists():
            self._copy_index()
        try:
            self._git("add", "--all", "--", ".")
        except GitFailed:
            # A file that cannot be read, or a nested repository without commits, must not stop the task.
            self._add_readable()
        # A `.gitignore` of the repository could undo our own exclusion.
        self._git("rm", "-r", "-f", "-q", "--cached", "--ignore-unmatch", "--", INTERNAL)
        return self._git("write-tree").decode().strip()

    def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that differ between two trees."""
        out = self._git("diff-tree", "-r", "-z", "--name-only", before, after)
        return tuple(os.fsdecode(path) for path in out.split(b"\0") if path)

    @cached_property
    def _index(self) -> Path:
        return self.repo / INTERNAL / "snapshot.index"

    @cached_property
    def _environment(self) -> dict[str, str]:
        """An index and an object folder of our own, which falls back on the repository's."""
        objects = self.repo / INTERNAL / "objects"
        shared = (self.repo / git_path(self.repo, "objects")).resolve()
        (objects / "info").mkdir(parents=True, exist_ok=True)
        (objects / "info" / "alternates").write_bytes(os.fsencode(shared) + b"\n")
        return {"GIT_INDEX_FILE": str(self._index), "GIT_OBJECT_DIRECTORY": str(objects)}

    def _git(self, *args: str, stdin: bytes = b"") -> bytes:
        return git(self.repo, *args, env=self._environment, stdin=stdin)

    def _copy_index(self) -> None:
        """Starting from the user's index spares git from reading files that have not changed."""
        source = self.repo / git_path(self.repo, "index")
        if source.is_file():
            self._index.parent.mkdir(parents=True, exist_ok=True)
            self._index.write_bytes(source.read_bytes())

    def _add_readable(self) -> None:
        listed = self._git("ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard")
        paths = {path for path in listed.split(b"\0") if path and not path.endswith(b"/")}
        readable = [path for path in sorted(paths) if _addable(self.repo / os.fsdecode(path))]
        if not readable:
            return
        flags = ("--all", "--pathspec-from-file=-", "--pathspec-file-nul")
        git(
            self.repo,
            "add",
            *flags,
            env={**self._environment, "GIT_LITERAL_PATHSPECS": "1"},
            stdin=b"\0".join(readable),
        )


def _addable(path: Path) -> bool:
    """A link, a file that can be read, or nothing at all any more."""
    return path.is_symlink() or not path.exists() or (path.is_file() and os.access(path, os.R_OK))


def git_path(repo: Path, name: str) -> str:
    """Where git keeps one of its own files; right for worktrees and submodules too."""
    return os.fsdecode(git(repo, "rev-parse", "--git-path", name)).rstrip("\n")


def exclude_internal(repo: Path) -> None:
    """Keeps `.headgate/` out of git without touching a tracked file."""
    path = repo / git_path(repo, "info/exclude")
    line = f"/{INTERNAL}/"
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    if line not in text.splitlines():
        path.parent.mkdir(parents=True, exist_ok=True)
        joint = "" if not text or text.endswith("\n") else "\n"
        path.write_text(f"{text}{joint}{line}\n", encoding="utf-8", errors="surrogateescape")
