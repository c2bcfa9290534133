"""Files that no command may change: looked at before it runs, put back after it.

A guard can judge a path that a tool names; what a shell command writes can only be seen afterwards. So the
protected paths are recorded before a command, with their content, and whatever it did to them is undone:
they get their bytes, modes and link targets back, and new files among them are removed. What the first
`begin` found counts until the end: a process that outlived its command may change a file between two
commands. A path that could not be put back keeps its record: each later check tries again and says so.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Lock

from headgate.core import show_path
from headgate.file_stamps import stamp_of
from headgate.guard.records import (
    DEFAULT_LIMITS,
    CopyLimits,
    Record,
    RecordStore,
    Scanner,
    digest_of,
    is_directory,
    kind_of,
    same_mode,
)
from headgate.guard.restore import Change, Restored, Restorer
from headgate.tree import ConfinedTree

CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""What running code leaves behind. It is cleared like all else, since it can change what code does, but the
model did not mean to make it and need not hear of it."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_READ_TRIES = 3
_MAX_ACCEPTED = 10_000_000
_MOST_SHOWN = 500
_LOCKED = "folders have to stay readable"
_TOO_DEEP = "folders this deep cannot be checked"
_MAY_RUN = 0o111


class ProtectedFiles:
    """The paths of one tree for which `covers` says yes.

    `enters` says of a directory whether anything below it can be covered: what it refuses is never walked.
    Both see paths relative to `root`, with `/`, and must not change their minds. `folder` is where contents
    are kept. `accepts` is asked whether new content of a covered file may stay: its path, what it was (None
    if it was not there) and what it is. With `lasting`, the records also bind the process that resumes the
    task; otherwise changes that were made while no process worked stay. With `left_between`, so do those
    that were made while no command ran: a person made them. `decides` is asked whether what
    became of a path can change what a verification finds; `prepared`, whether a step that installs or
    configures may do it.
    """

    def __init__(
        self,
        root: Path,
        covers: Callable[[str], bool],
        *,
        folder: Path,
        enters: Callable[[str], bool] = lambda directory: True,
        reason: str = "it is protected",
        label: str = "",
        accepts: Callable[[str, bytes | None, bytes], bool] = lambda path, before, after: False,
        lasting: bool = False,
        left_between: bool = False,
        decides: Callable[[str, Change], bool] | None = None,
        prepared: Callable[[str, Change], bool] = lambda path, change: False,
        limits: CopyLimits = DEFAULT_LIMITS,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._tree = ConfinedTree(root)
        self._scanner = Scanner(self._tree.root, covers, enters, now)
        self._store = RecordStore(folder, limits)
        self._restorer = Restorer(self._tree, self._store, folder / "aside")
        self._reason = reason
        self._label = label
        self._accepts = accepts
        self._lasting = lasting
        self._left_between = left_between
        self._decides = decides
        self._prepared = prepared
        self._records: dict[str, Record] | None = None
        self._lost: dict[str, Restored] = {}
        self._deep_before: frozenset[str] | None = None
        self._begun = False
        self._running = False
        self._lock = Lock()

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        with self._lock:
            records = self._recall()
            restored: tuple[Restored, ...] = ()
            if self._begun and not self._are_a_persons:
                restored = self._restore(records)
                self._store.note({}, running=True)
            else:
                self._take_note(records, running=True)
            self._begun = self._running = True
            return restored

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        with self._lock:
            records = self._recall()
            if not self._begun:
                return ()
            if self._are_a_persons:
                self._take_note(records, running=False)
                return ()
            restored = self._restore(records)
            # What could not be put back is still to be done for a process that comes after this one.
            self._store.note({}, running=any(one.problem for one in restored))
            self._running = False
            return restored

    @property
    def _are_a_persons(self) -> bool:
        """Whether only a person can have made the changes since the last look."""
        return self._left_between and not self._running and not self._lost

    def adopt(self) -> None:
        """See Protected."""
        with self._lock:
            records = self._recall()
            now = self._scanner.scan() if self._begun else {}
            changes: dict[str, Record | None] = {
                path: None for path in records if path not in now and self._prepared(path, "deleted")
            }
            for path, status in now.items():
                known = records.get(path)
                change: Change = "changed" if known else "created"
                if (known is None or known.stamp != stamp_of(status)) and self._prepared(path, change):
                    changes[path] = self._record(path, status)
            if changes:
                self._accept(records, changes)

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See Protected."""
        files = (
            path
            for path, record in (self._records or {}).items()
            if record.kind == "file" and (not deciding or self._can_decide(path, "changed"))
        )
        # A file that may stay as it is may also be changed, if only in part.
        return tuple(Path(self._scanner.full(path)) for path in files if not self._accepts(path, b"", b""))

    def forget(self) -> None:
        """See Protected."""
        with self._lock:
            self._records, self._begun, self._running = {}, False, False
            self._store.forget()
            for folder in (self._store.folder, self._store.folder.parent):
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()

    def _recall(self) -> dict[str, Record]:
        """What is known: from memory, or else from the process before this one."""
        if self._records is None:
            self._records, self._running = self._store.load()
            self._begun = self._running or (self._lasting and bool(self._records))
        return self._records

    def _take_note(self, records: dict[str, Record], *, running: bool) -> None:
        now = self._scanner.scan()
        self._deep_before = frozenset(self._scanner.too_deep)
        changes: dict[str, Record | None] = {path: None for path in records if path not in now}
        # The smallest first: a large file must not take the room that tests and settings need.
        for path, status in sorted(now.items(), key=lambda item: item[1].st_size):
            known = records.get(path)
            if known is None or not known.settled or known.stamp != stamp_of(status):
                record = self._record(path, status)
                if record != known:
                    changes[path] = record
        self._apply(records, changes)
        self._store.note(changes, running=running)

    def _restore(self, records: dict[str, Record]) -> tuple[Restored, ...]:
        done: dict[str, Restored] = {}
        self._scanner.unlocked.clear()
        self._scanner.open_up("")
        opened = list(self._scanner.unlocked)
        # From the top, so that what lies below can be looked at.
        for path in sorted(path for path, record in records.items() if record.kind == "directory"):
            status = _look(self._scanner.full(path))
            if status is None or not same_mode(records[path], status):
                self._put(path, records[path], status, done)
        now = self._scanner.scan(unlock=lambda path: path not in records)
        for path in opened + self._scanner.unlocked:
            done[path] = self._restored(path, "changed", _LOCKED)
        for path in self._scanner.too_deep:
            if self._deep_before is not None and path not in self._deep_before:
                self._attempt(path, "created", partial(self._restorer.remove_tree, path), done, _TOO_DEEP)
        accepted: list[str] = []
        # From the bottom, so that new directories are empty when it is their turn.
        for path in sorted((path for path in now if path not in records), reverse=True):
            kind = kind_of(now[path])
            if kind == "file" and self._may_stay(path, None):
                accepted.append(path)
            elif kind != "directory" or self._scanner.covers_directory(path):
                self._attempt(path, "created", partial(self._restorer.remove, path), done)
        compared: list[str] = []
        for path, record in records.items():
            status = now.get(path)
            settled = status is not None and record.settled and record.stamp == stamp_of(status)
            if record.kind != "directory" and not settled:
                compared.append(path)
                accepted += self._check(path, record, status, done)
        self._apply(records, self._new_stamps(records, compared, now, done))
        if accepted:
            seen = {path: now.get(path) for path in accepted}
            self._accept(records, {path: at and self._record(path, at) for path, at in seen.items()})
        self._lost = {path: one for path, one in done.items() if one.problem}
        folders = {path for path in done if is_directory(records.get(path), now.get(path))}
        return tuple(done[path] for path in _worth_telling(done, folders))

    def _accept(self, records: dict[str, Record], changes: dict[str, Record | None]) -> None:
        self._apply(records, changes)
        self._store.note(changes, running=self._running)

    def _check(
        self, path: str, record: Record, status: os.stat_result | None, done: dict[str, Restored]
    ) -> list[str]:
        """Puts a path back that has changed; returns it if the change may stay."""
        if status is None or not self._same_content(path, record, status):
            if self._is_accepted(path, record, status):
                return [path]
            self._put(path, record, status, done)
        elif not same_mode(record, status):
            self._attempt(path, "changed", lambda: self._restorer.set_mode(path, record), done)
        return []

    def _is_accepted(self, path: str, record: Record, status: os.stat_result | None) -> bool:
        """Whether a file that differs from its record may stay as it is, or stay away."""
        before = BytesIO()
        if record.kind != "file" or not self._store.copy(record.content, before):
            return False
        if status is None:
            return self._accepts(path, before.getvalue(), b"")
        return same_mode(record, status) and self._may_stay(path, before.getvalue())

    def _may_stay(self, path: str, before: bytes | None) -> bool:
        try:
            with os.fdopen(os.open(self._scanner.full(path), _READ), "rb") as file:
                content = file.read(_MAX_ACCEPTED + 1)
                return len(content) <= _MAX_ACCEPTED and self._accepts(path, before, content)
        except OSError:
            return False  # gone, or made unreadable: nothing can be said for it

    def _put(
        self, path: str, record: Record, status: os.stat_result | None, done: dict[str, Restored]
    ) -> None:
        change: Change = "deleted" if status is None else "changed"
        self._attempt(path, change, lambda: self._restorer.put(path, record), done)

    def _attempt(
        self,
        path: str,
        change: Change,
        action: Callable[[], bool],
        done: dict[str, Restored],
        reason: str = "",
    ) -> None:
        problem = ""
        try:
            if not action():
                if change == "created":
                    return
                problem = "no copy of its content was kept"
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
        done[path] = self._restored(path, change, reason or self._reason, problem)

    def _restored(self, path: str, change: Change, reason: str, problem: str = "") -> Restored:
        known = self._lost.get(path)
        between = known.between if known else not self._running
        shown = show_path(self._label + path or ".")
        shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."
        copy = self._restorer.copies.get(path, "")
        decides = self._can_decide(path, change)
        return Restored(shown, change, reason, problem, between, decides, copy, self._left_between)

    def _can_decide(self, path: str, change: Change) -> bool:
        if self._decides is None:
            return False
        record = (self._records or {}).get(path)
        is_program = record is not None and record.kind == "file" and bool(record.mode & _MAY_RUN)
        # On some file systems every file looks like a program: one that has a suffix may well be data.
        return self._decides(path, change) or (is_program and "." not in path.rpartition("/")[2])

    def _new_stamps(
        self,
        records: dict[str, Record],
        compared: Iterable[str],
        now: Mapping[str, os.stat_result],
        done: Mapping[str, Restored],
    ) -> dict[str, Record | None]:
        """The records of what was found or made as it was, with its new stamp; others stay as they are."""
        changes: dict[str, Record | None] = {}
        for path in {*compared, *(path for path in done if path in records)}:
            status = _look(self._scanner.full(path)) if path in done else now.get(path)
            if status is not None and not (path in done and done[path].problem):
                changes[path] = records[path]._replace(
                    stamp=stamp_of(status), settled=self._scanner.is_settled(status)
                )
        return changes

    def _apply(self, records: dict[str, Record], changes: dict[str, Record | None]) -> None:
        for path, record in changes.items():
            if record is None:
                records.pop(path, None)
            else:
                records[path] = record

    def _record(self, path: str, status: os.stat_result) -> Record | None:
        """The path as it is, its content kept; None if it has gone."""
        content = ""
        try:
            if kind_of(status) == "file":
                content, status = self._keep(path, status)
            elif kind_of(status) == "link":
                content = self._target(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Record(
            kind=kind_of(status),
            mode=stat.S_IMODE(status.st_mode),
            owner=(status.st_uid, status.st_gid),
            modified=status.st_mtime_ns,
            content=content,
            stamp=stamp_of(status),
            settled=self._scanner.is_settled(status),
        )

    def _keep(self, path: str, status: os.stat_result) -> tuple[str, os.stat_result]:
        """A file's content and the status that goes with it: somebody may be writing it just now."""
        content = ""
        for _ in range(_READ_TRIES):
            try:
                descriptor = os.open(self._scanner.full(path), _READ)
            except PermissionError:
                return "", status  # what we may not read cannot be kept
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                content = self._store.keep(file, status.st_size)
                if stamp_of(os.fstat(file.fileno())) == stamp_of(status):
                    break
        return content, status

    def _target(self, path: str) -> str:
        parent, _, name = path.rpartition("/")
        directory = self._tree.open_directory(parent)
        try:
            return os.readlink(name, dir_fd=directory)
        finally:
            os.close(directory)

    def _same_content(self, path: str, record: Record, status: os.stat_result) -> bool:
        if record.kind != kind_of(status):
            return False
        if record.kind == "link":
            return self._target(path) == record.content
        if record.kind == "other":
            return record.stamp[:2] == stamp_of(status)[:2]
        device, inode, _, size, modified, _ = record.stamp
        if not record.content:  # unreadable, so what can be seen from outside has to do
            return (device, inode, size, modified) == (
                status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns,
            )  # fmt: skip
        if status.st_size != size:
            return False
        try:
            with os.fdopen(os.open(self._scanner.full(path), _READ), "rb") as file:
                return digest_of(file) == record.content
        except OSError:
            return False  # made unreadable: it is written again


def _look(full: str) -> os.stat_result | None:
    try:
        return os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _worth_telling(paths: Iterable[str], folders: set[str]) -> list[str]:
    """Neither caches, nor a directory beside what is told of its content."""
    told = sorted(path for path in paths if CACHES.isdisjoint(path.split("/")))
    above = set()
    for path in told:
        while path := path.rpartition("/")[0]:
            above.add(path)
    return [path for path in told if path not in folders or path not in above]
