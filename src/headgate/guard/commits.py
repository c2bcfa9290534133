"""Commits that change protected files: found after the command that made them, and undone.

`ProtectedFiles` restores the tree, but a commit that the command made keeps the change, and a person would
push it. So HEAD goes back to where it was before the command. What else the commits changed stays in the tree
and the index. Nothing is lost: git keeps the commits, and the answer names the last of them. Where the
command switched branches or rewrote history, nothing is touched, and the answer says what differs.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha1, sha256
from pathlib import Path
from string import hexdigits
from threading import Lock
from typing import NamedTuple

from headgate.core import show_path
from headgate.errors import HeadgateError
from headgate.file_stamps import stamp_of
from headgate.guard.restore import Change, Restored
from headgate.regular_files import make_own_folder, read_own, write_own
from headgate.tree import (
    LARGE,
    ConfinedTree,
    Difference,
    GitFailed,
    git,
    mode_at,
    open_parent,
    read_at,
    run_git,
    safe_folder,
)

# What is checked out: read from git's files, and asked of git only when these have changed.


PLAIN = {"GIT_NO_REPLACE_OBJECTS": "1"}
"""Commits as they are and as they would be pushed: refs/replace can show others in their place."""
_FOLDERS = 3
"""The folders of `headgate/protected/TASK` in git's own folder."""
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
        return (head,) if is_commit_id(branch) else None
    if branch == b"refs/heads/.invalid":  # the refs are in tables
        return head, *(_read(folder / "reftable" / "tables.list") for folder in (own, common))
    name = os.fsdecode(branch)
    if "\0" in name:
        return None
    loose = _read(common / name) or _read(own / name)
    if loose:
        return (head, loose) if is_commit_id(loose.strip()) else None  # it may lead to yet another branch
    with suppress(OSError):
        return head, stamp_of((common / "packed-refs").lstat())
    return (head,)


def only_adds_commits(repo: Path, before: Head, after: Head) -> bool:
    """Whether commits were only added to the branch that was checked out, or its last one was amended."""
    if before.branch != after.branch:
        return False
    if not before.commit:
        return True
    ancestor = run_git(repo, "merge-base", "--is-ancestor", before.commit, after.commit, env=PLAIN)
    return ancestor.returncode == 0 or _parents(repo, before.commit) == _parents(repo, after.commit)


def count_new_commits(repo: Path, before: Head, after: Head) -> int:
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


def is_commit_id(text: bytes) -> bool:
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


_EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_LINK, _NESTED = "120000", "160000"
_MOST_NAMED = 5
_SHORT = 10
_REWRITTEN = "The command switched branches or rewrote history, so Headgate left it as it is"
_INTERRUPTED = "Headgate was killed while the command ran, so the commits may be yours, and it left them"
_CHECK = "check the commits before you push."


@dataclass(frozen=True, slots=True)
class CommitRule:
    """Which files commands may not change, and why; as for `ProtectedFiles`."""

    covers: Callable[[str], bool]
    enters: Callable[[str], bool]
    reason: str
    accepts: Callable[[str, bytes | None, bytes], bool] = lambda path, before, after: False

    def forbids(self, path: str) -> bool:
        """Whether a file, or a part of it, may not change. A directory that is not walked has none."""
        parts = path.split("/")
        above = ("/".join(parts[:depth]) for depth in range(1, len(parts)))
        return all(map(self.enters, above)) and self.covers(path)


@dataclass(frozen=True, slots=True)
class CommitsFound(Restored):
    """What was done about commits that change protected files."""

    said: str = ""

    def sentence(self) -> str:
        """See Restored."""
        return self.said


@dataclass(frozen=True, slots=True)
class _Broken:
    """A file that a commit changes against a rule."""

    difference: Difference
    reason: str

    @property
    def change(self) -> Change:
        if self.difference.before is None:
            return "created"
        return "changed" if self.difference.after else "deleted"


class CommitProtection:
    """See Protected. `file` says which HEAD a command began with, as long as it runs."""

    def __init__(self, repo: Path, common: Path, rules: Sequence[CommitRule], file: Path) -> None:
        self._repo, self._common, self._rules, self._file = repo, common, tuple(rules), file
        self._head: Head | None = None
        self._stamp: tuple[object, ...] | None = None
        self._running = False
        self._lock = Lock()

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        with self._lock:
            found = self._settle()
            stamp = head_stamp(self._repo, self._common)
            if self._head is None or stamp is None or stamp != self._stamp:
                self._head, self._stamp = read_head(self._repo), stamp
            self._write(self._head)
            self._running = True
            return found

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected. What moves HEAD while no command runs was a person."""
        with self._lock:
            return self._settle()

    def adopt(self) -> None:
        """See Protected."""

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See Protected."""
        return ()

    def forget(self) -> None:
        """See Protected."""
        with self._lock:
            self._head, self._running = None, False
            self._file.unlink(missing_ok=True)
            if self._file.parent.is_dir() and not any(self._file.parent.iterdir()):
                self._file.parent.rmdir()

    def _settle(self) -> tuple[Restored, ...]:
        before = self._head if self._running else self._read()
        if before is None:
            return ()
        found: tuple[Restored, ...] = ()
        stamp = head_stamp(self._repo, self._common)
        if not self._running or stamp is None or stamp != self._stamp:
            found = self._judge(before, _INTERRUPTED if not self._running else "")
        self._running = False
        self._file.unlink(missing_ok=True)
        return found

    def _judge(self, before: Head, untouched: str) -> tuple[Restored, ...]:
        """Looks at the commit that is checked out now; `untouched` is why it stays in any case."""
        after = read_head(self._repo)
        if after.commit in ("", before.commit):
            return ()
        try:
            broken = tuple(self._broken(before, after))
            if not broken:
                return ()
            if not untouched and not only_adds_commits(self._repo, before, after):
                untouched = _REWRITTEN
            said = self._leave(before, after, broken, untouched) if untouched else ""
            said = said or self._undo(before, after, broken)
        except HeadgateError as error:
            said = f"Could not check whether commit {after.commit[:_SHORT]} changes protected files: {error}"
        return (CommitsFound("HEAD", "changed", "", said=said),)

    def _leave(self, before: Head, after: Head, broken: Sequence[_Broken], why: str) -> str:
        since = f"since {before.commit[:_SHORT]}" if before.commit else "in it"
        return (
            f"Not undone: HEAD is now commit {after.commit[:_SHORT]}; {since}, commits {_list(broken)}."
            f" {why}: {_CHECK}"
        )

    def _undo(self, before: Head, after: Head, broken: Sequence[_Broken]) -> str:
        number = count_new_commits(self._repo, before, after)
        commits = "commit" if number == 1 else f"{number} commits up to"
        what = f"{commits} {after.commit[:_SHORT]} {_list(broken)}."
        try:
            move_back(self._repo, before, after)
            self._unstage(one.difference for one in broken)
        except HeadgateError as error:
            return f"Could not be undone: {what} {str(error).rstrip('.')}: {_CHECK}"
        now = f"is at {before.commit[:_SHORT]} again" if before.commit else "has no commits again"
        return f"Undone: {what} {before.name} {now}; the other changes are still staged."

    def _unstage(self, differences: Iterable[Difference]) -> None:
        """Gives the index what the earlier commit has of some paths, so that the next commit has it too."""
        gone: list[bytes] = []
        there: list[bytes] = []
        for one in differences:
            mode, blob = one.before or ("0", "0" * len(one.after[1] if one.after else ""))
            row = f"{mode} {blob}\t".encode() + os.fsencode(one.path) + b"\0"
            (there if one.before else gone).append(row)
        git(self._repo, "update-index", "--replace", "-z", "--index-info", stdin=b"".join([*gone, *there]))

    def _broken(self, before: Head, after: Head) -> Iterator[_Broken]:
        """The files that differ between two commits, and may not.

        What the tree has, with all protected files restored, may be committed: it was there before.
        """
        start = before.commit or _EMPTY_TREES[len(after.commit)]
        flags = ("-r", "-z", "--no-renames", "--raw", "--no-abbrev", "--ignore-submodules=none")
        fields = git(self._repo, "diff-tree", *flags, start, after.commit, env=PLAIN).split(b"\0")
        for row, path in zip(fields[:-1:2], fields[1::2], strict=True):
            one = Difference.of(row, os.fsdecode(path))
            for rule in self._rules:
                if self._is_covered(rule, one) and not self._may_stay(rule, one):
                    yield _Broken(one, rule.reason)
                    break

    def _is_covered(self, rule: CommitRule, one: Difference) -> bool:
        nested = any(side and side[0] == _NESTED for side in (one.before, one.after))
        return rule.forbids(one.path) or (nested and rule.forbids(f"{one.path}/any name"))

    def _may_stay(self, rule: CommitRule, one: Difference) -> bool:
        if self._is_in_tree(one):
            return True
        if one.after is None or not one.is_plain or not rule.accepts(one.path, b"", b""):
            return False  # it is protected as a whole
        after = self._content(one.after[1])
        earlier = self._content(one.before[1]) if one.before else None
        own = read_at(ConfinedTree(self._repo), show_path(one.path), LARGE)
        return rule.accepts(one.path, earlier, after) or rule.accepts(one.path, own, after)

    def _is_in_tree(self, one: Difference) -> bool:
        """Whether the tree has a path as the commit has it; line ends may differ."""
        tree, shown = ConfinedTree(self._repo), show_path(one.path)
        if one.after is None:
            return not os.path.lexists(self._repo / one.path)
        mode, blob = one.after
        if mode == _LINK:
            return blob in _names_of(_target(tree, shown), len(blob))
        bits = mode_at(tree, shown)
        if mode == _NESTED or bits is None or bool(bits & 0o100) != (mode == "100755"):
            return False
        return blob in _names_of(read_at(tree, shown, LARGE), len(blob))

    def _content(self, blob: str) -> bytes:
        data = git(self._repo, "cat-file", "blob", blob, env=PLAIN)
        if blob not in _names_of(data, len(blob))[:1]:
            raise GitFailed(f"The git object {blob} was written over: run git fsck, and fetch it again.")
        return data

    def _write(self, head: Head) -> None:
        make_own_folder(self._file.parent, folders=_FOLDERS, mode=0o700)
        draft = self._file.with_name(self._file.name + ".new")
        draft.unlink(missing_ok=True)
        write_own(draft, json.dumps(head).encode("ascii"), folders=_FOLDERS)
        draft.replace(self._file)

    def _read(self) -> Head | None:
        """The HEAD that a command began with, of which a process that was killed never saw the end."""
        try:
            match json.loads(read_own(self._file, folders=_FOLDERS).decode("ascii", "replace")):
                case [str(branch), str(commit)] if not commit or is_commit_id(commit.encode()):
                    return Head(branch, commit)
        except (OSError, ValueError):
            pass
        return None


def _list(broken: Sequence[_Broken]) -> str:
    """`changed a, b (why) and deleted c (why)`."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in broken:
        groups.setdefault((one.change, one.reason), []).append(show_path(one.difference.path))
    return " and ".join(
        f"{change} {', '.join(paths[:_MOST_NAMED])}{_more(len(paths) - _MOST_NAMED)} ({reason})"
        for (change, reason), paths in groups.items()
    )


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def _names_of(data: bytes | None, length: int) -> tuple[str, ...]:
    """The names that git gives a content, and the same with plain line ends."""
    if data is None:
        return ()
    method = sha1 if length == 40 else sha256
    texts = dict.fromkeys((data, data.replace(b"\r\n", b"\n")))
    return tuple(method(b"blob %d\0" % len(text) + text).hexdigest() for text in texts)


def _target(tree: ConfinedTree, shown: str) -> bytes | None:
    try:
        with open_parent(tree, shown) as (directory, name):
            return os.fsencode(os.readlink(name, dir_fd=directory))
    except OSError:
        return None
