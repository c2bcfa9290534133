"""What is checked out: read from git's files, and asked of git only when these have changed."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from string import hexdigits
from typing import NamedTuple

from headgate.host.git import git, run_git, safe_folder
from headgate.host.protect_scan import stamp_of

PLAIN = {"GIT_NO_REPLACE_OBJECTS": "1"}
"""Commits as they are and as they would be pushed: refs/replace can show others in their place."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MOST = 4096


class Head(NamedTuple):
    """A branch (empty: HEAD is detached) and a commit (empty: there is none yet)."""

    branch: str
    commit: str

    @property
    def name(self) -> str:
        """For people and models."""
        return f"Branch {self.branch.removeprefix('refs/heads/')}" if self.branch else "HEAD"


def read_head(repo: Path) -> Head:
    """Asks git, unless HEAD is no file: git would wait for ever for what a named pipe holds."""
    if not _read(safe_folder(repo).parent / "HEAD"):
        return Head("", "")
    branch = run_git(repo, "symbolic-ref", "-q", "HEAD")
    commit = run_git(repo, "rev-parse", "-q", "--verify", "HEAD^{commit}", env=PLAIN)
    return Head(
        os.fsdecode(branch.stdout).strip() if branch.returncode == 0 else "",
        commit.stdout.decode().strip() if commit.returncode == 0 else "",
    )


def head_stamp(repo: Path, common: Path) -> tuple[object, ...] | None:
    """What changes whenever the commit that is checked out does; None where files alone do not show that.

    `common` is the git folder that a worktree shares with others.
    """
    own = safe_folder(repo).parent
    head = _read(own / "HEAD")
    branch = head.removeprefix(b"ref:").strip()
    if branch == head.strip():
        return (head,) if is_id(branch) else None
    if branch == b"refs/heads/.invalid":  # the refs are in tables
        return head, *(_read(folder / "reftable" / "tables.list") for folder in (own, common))
    name = os.fsdecode(branch)
    if "\0" in name:
        return None
    loose = _read(common / name) or _read(own / name)
    if loose:
        return (head, loose) if is_id(loose.strip()) else None  # it may lead to yet another branch
    with suppress(OSError):
        return head, stamp_of((common / "packed-refs").lstat())
    return (head,)


def follows(repo: Path, before: Head, after: Head) -> bool:
    """Whether commits were only added to the branch that was checked out, or its last one was amended."""
    if before.branch != after.branch:
        return False
    if not before.commit:
        return True
    ancestor = run_git(repo, "merge-base", "--is-ancestor", before.commit, after.commit, env=PLAIN)
    return ancestor.returncode == 0 or _parents(repo, before.commit) == _parents(repo, after.commit)


def count_new(repo: Path, before: Head, after: Head) -> int:
    """How many commits the second one has that the first does not."""
    old = [f"^{before.commit}"] if before.commit else []
    return int(git(repo, "rev-list", "--count", after.commit, *old, env=PLAIN))


def move_back(repo: Path, before: Head, after: Head) -> None:
    """Makes HEAD what it was; index and tree stay. GitFailed if somebody has moved it meanwhile."""
    ref = [before.branch] if before.branch else ["--no-deref", "HEAD"]
    if before.commit:
        why = "headgate: undo commits that change protected files"
        git(repo, "update-ref", "-m", why, *ref, before.commit, after.commit)
    else:
        git(repo, "update-ref", "-d", *ref, after.commit)


def _parents(repo: Path, commit: str) -> bytes:
    return git(repo, "rev-parse", f"{commit}^@", env=PLAIN)


def is_id(text: bytes) -> bool:
    """Whether this is what git calls a commit."""
    return len(text) in (40, 64) and all(chr(byte) in hexdigits for byte in text)


def _read(path: Path) -> bytes:
    """The beginning of a file, nothing if there is none. What a command put there keeps nobody waiting."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MOST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    finally:
        os.close(descriptor)
