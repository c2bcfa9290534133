"""What Headgate asks of git: snapshots of the tree, diffs between them, and to be left out of them.

Snapshots are git trees in an object folder of our own: the user's index, refs and objects are not touched.
"""

import os
import subprocess
from dataclasses import dataclass
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


def git(repo: Path, *args: str, env: dict[str, str] | None = None) -> bytes:
    """Runs git and returns what it printed."""
    try:
        done = subprocess.run(
            ["git", *_QUIET, "-C", str(repo), *args],
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise GitFailed("git is not installed: install it and run again") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(f"git {args[0]} failed: {message[-1] if message else f'exit code {done.returncode}'}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Trees of a repository, untracked files included, ignored ones not."""

    repo: Path

    def take(self) -> str:
        """Records the working tree as it is and returns the tree's name."""
        env = self._environment()
        index = Path(env["GIT_INDEX_FILE"])
        if not index.exists():
            self._copy_index(index)
        everything = ("--", ".", f":(exclude){INTERNAL}")
        try:
            git(self.repo, "add", "--all", "--ignore-errors", *everything, env=env)
        except GitFailed:
            # A file that cannot be read, or a nested repository without commits, must not stop the task.
            skipped = self._unreadable(env)
            git(
                self.repo,
                "add",
                "--all",
                *everything,
                *(f":(exclude,literal){path}" for path in skipped),
                env=env,
            )
        return git(self.repo, "write-tree", env=env).decode().strip()

    def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that differ between two trees."""
        out = git(self.repo, "diff-tree", "-r", "-z", "--name-only", before, after, env=self._environment())
        return tuple(os.fsdecode(path) for path in out.split(b"\0") if path)

    def diff(self, before: str, after: str) -> bytes:
        """A git-style unified diff between two trees."""
        flags = ("--patch", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "-r", "-M")
        return git(self.repo, "diff-tree", *flags, before, after, env=self._environment())

    def diff_stat(self, before: str, after: str) -> str:
        """`2 files changed, 5 insertions(+), 1 deletion(-)`, or nothing."""
        out = git(self.repo, "diff-tree", "-r", "--shortstat", before, after, env=self._environment())
        return out.decode().strip()

    def _environment(self) -> dict[str, str]:
        own = self.repo / INTERNAL / "objects"
        own.mkdir(parents=True, exist_ok=True)
        shared = (self.repo / git_path(self.repo, "objects")).resolve()
        return {
            "GIT_INDEX_FILE": str(self.repo / INTERNAL / "snapshot.index"),
            "GIT_OBJECT_DIRECTORY": str(own),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(shared),
        }

    def _copy_index(self, target: Path) -> None:
        """Starting from the user's index spares git from reading files that have not changed."""
        source = self.repo / git_path(self.repo, "index")
        if source.is_file():
            target.write_bytes(source.read_bytes())

    def _unreadable(self, env: dict[str, str]) -> list[str]:
        out = git(self.repo, "ls-files", "-z", "--others", "--modified", "--exclude-standard", env=env)
        paths = [os.fsdecode(path) for path in out.split(b"\0") if path]
        return [path for path in paths if path.endswith("/") or not os.access(self.repo / path, os.R_OK)]


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
