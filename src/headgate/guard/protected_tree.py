"""Files that no command may change: the tree is compared after a command, and what a rule covers is put back.

A guard can judge a path that a tool names; what a shell command writes can only be seen afterwards. What the
first `begin` found counts until the end, since a process that outlived its command may change a file later.
A path that could not be put back is tried again, and named, by each later check. While a command runs, a file
in git's folder names the tree that it began with, for the process that follows a killed one.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from threading import Lock

from headgate.core import show_path
from headgate.first_use import dataclass
from headgate.guard.commits import CommitWatch
from headgate.guard.git_settings import GitSettings
from headgate.guard.guards import Rule
from headgate.guard.installed import InstalledPackages
from headgate.guard.restore import Change, Restored
from headgate.regular_files import OwnFolder
from headgate.tree import Entry, GitFailed, Reverter, Snapshot, Snapshots, ancestors

_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""What running code leaves behind. It is put right like all else, since it can change what code does, but the
model did not mean to make it and need not hear of it."""
_LINK = "120000"
_MAY_RUN = 0o111
_USUAL = {"100644": 0o100644, "100755": 0o100755}
"""The modes that most files have, by their kind. Only others are noted for the process after a crash."""
Look = Callable[[], tuple[Restored, ...]]
"""Looks at protected files, and says what was restored."""
_MOST_SHOWN = 500
_MOST_JUDGED = 10_000_000


class ProtectedTree:
    """See the module.

    `decides` is asked whether what became of a path can change what a verification finds, and `prepared`
    whether a step that installs or configures may do it. What changes while no command runs under a rule of
    `left_between` stays, because a person did it. `installed` is given where commands run in a sandbox: what
    they put in the place of packages cannot be put right, but is named.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        rules: Sequence[Rule],
        folder: Path,
        *,
        decides: Callable[[str, Change], bool] | None = None,
        prepared: Callable[[str, Change], bool] = lambda path, change: False,
        left_between: Iterable[str] = (),
        installed: InstalledPackages | None = None,
    ) -> None:
        self.around: Callable[[Look], tuple[Restored, ...]] = lambda look: look()
        """Makes each look at the files, with what else has to be restored before."""
        self._snapshots, self._folder = snapshots, folder
        # `folder` is `headgate/protected/TASK` in git's own folder.
        self._own = OwnFolder(folder.parents[1])
        self.git_settings = GitSettings(snapshots.repo, folder / "aside", lambda: snapshots.settings)
        self._rules = (self.git_settings.rule, *rules)
        self._decides, self._prepared, self._left_between = decides, prepared, frozenset(left_between)
        self._installed = installed
        self._commits = CommitWatch(snapshots.repo, rules)
        self._start: dict[str, Entry] | None = None
        """Every file that may not change, as it is to be."""
        self._modes: dict[str, int] = {}
        self._tree, self._first = "", frozenset[str]()
        self._seen: Snapshot | None = None
        """What was last looked at: all that it has is as it is to be, but for what was put back then."""
        self._put_right: set[str] = set()
        self._all: Mapping[str, Entry] = {}
        self._folders: set[str] | None = None
        self._lost: dict[str, Restored] = {}
        self._running = False
        self._lock = Lock()
        self._rule_of, self._is_entered = cache(self._find_rule), cache(self._find_entered)
        snapshots.covering = self

    @cached_property
    def _reverter(self) -> Reverter:
        return Reverter(self._snapshots.repo, self._folder / "aside")

    def covers(self, path: str) -> bool:
        """See Covering."""
        return self._rule_of(path) is not None

    def enters(self, directory: str) -> bool:
        """See Covering."""
        return any(rule.enters(directory) for rule in self._rules)

    def begin(self) -> tuple[Restored, ...]:
        """See the module."""
        return self.around(self._begin)

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See the module."""
        return self.around(self._check_and_restore)

    def _begin(self) -> tuple[Restored, ...]:
        with self._lock:
            restored: tuple[Restored, ...] = ()
            if self._start is None and not self._recall():
                self._take_note(self._snapshots.around("before"))
            else:
                restored = self._compare(self._snapshots.around("before"))
            if self._installed is not None:
                if self._running:
                    self._installed.check()
                restored += self._installed.adopt()
            self._commits.begin()
            self._note()
            self._running = True
            return restored

    def _check_and_restore(self) -> tuple[Restored, ...]:
        with self._lock:
            if self._start is None and not self._recall():
                return ()
            restored = self._compare(self._snapshots.look(self), hands_on=True)
            if self._running:
                restored += self._commits.check()
                restored += self._installed.check() if self._installed is not None else ()
            self._running = False
            # What could not be put back is still to be done for a process that comes after this one.
            if not self._lost:
                self._noted.unlink(missing_ok=True)
            return restored

    def adopt(self) -> None:
        """See the module."""
        with self._lock:
            if self._start is None:
                return
            if self._installed is not None:
                self._installed.adopt()
            found = self._look(self._snapshots.look(self))
            for path in self._differing(found):
                if self._prepared(path, _change(self._start.get(path), found.entry(path))):
                    self._take(path, found)

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See the module."""
        found = []
        for path, (kind, _) in (self._start or {}).items():
            rule = self._rule_of(path) if kind != _LINK else None
            # A file that may stay as it is may also be changed, if only in part.
            is_whole = rule is not None and not rule.allows(path, b"", b"")
            is_asked = not deciding or self._can_decide(path, "changed")
            if is_whole and is_asked and path.partition("/")[0] != ".git":
                found.append(self._snapshots.repo.resolve() / path)
        return tuple(path for path in found if path.is_file())

    def forget(self) -> None:
        """See the module."""
        with self._lock:
            self._start, self._folders, self._running, self._tree, self._seen = None, None, False, "", None
            self._noted.unlink(missing_ok=True)
            for folder in (self._folder, self._folder.parent):
                with suppress(OSError):  # not empty: what was moved aside stays, and so does another task's
                    folder.rmdir()

    def _find_rule(self, path: str) -> Rule | None:
        folder = path.rpartition("/")[0]
        found = (rule for number, rule in enumerate(self._rules) if self._is_entered(number, folder))
        return next((rule for rule in found if rule.covers(path)), None)

    def _find_entered(self, number: int, directory: str) -> bool:
        above = directory.rpartition("/")[0]
        return not directory or (
            (not above or self._is_entered(number, above)) and self._rules[number].enters(directory)
        )

    def _take_note(self, seen: Snapshot) -> None:
        """Takes note of everything as it is."""
        self._seen, self._tree = seen, seen.tree
        found = self._look(seen)
        paths = [path for path in (*seen.entries, *found.settings) if self.covers(path)]
        self._start = {path: entry for path in paths if (entry := found.entry(path))}
        self._modes = {path: mode for path in paths if (mode := found.mode(path)) is not None}
        self._first = frozenset(path for path in paths if path in seen.recorded)
        self._all = seen.entries

    def _look(self, seen: Snapshot) -> "_Found":
        return _Found(seen, *self.git_settings.look(self._snapshots.keep))

    def _differing(self, found: "_Found") -> list[str]:
        """The covered files that are not as they were."""
        start = self._start
        assert start is not None
        if self._seen is None:
            asked = {*start, *found.seen.entries, *found.settings}
        else:
            asked = found.seen.changed_since(self._seen).union(self._put_right, found.settings)
            asked.update(path for path in start if path.startswith(".git"))
        differing = (
            path
            for path in asked
            if start.get(path) != found.entry(path)
            or (path in self._modes and self._modes[path] != found.mode(path))
        )
        return sorted(filter(self.covers, differing))

    def _compare(self, seen: Snapshot, *, hands_on: bool = False) -> tuple[Restored, ...]:
        start = self._start
        assert start is not None
        found = self._look(seen)
        lost, self._lost = self._lost, {}
        done: dict[str, Restored] = {}
        differing = self._differing(found)
        self._seen, self._put_right = seen, set(differing)
        blobs = self._read(path for path in differing if path in start)
        # What is new goes first: it may have the place of what is missing.
        for path in sorted(differing, key=lambda path: (path in start, path)):
            rule = self._rule_of(path)
            assert rule is not None
            is_a_persons = not self._running and rule.name in self._left_between and path not in lost
            if is_a_persons or self._may_stay(rule, path, found, blobs):
                self._take(path, found)
                continue
            before, after = start.get(path), found.entry(path)
            change, problem = _change(before, after), self._put_back(path, before, blobs)
            done[path] = Restored(
                path=_shown(path),
                change=change,
                reason=rule.reason,
                problem=problem,
                between=lost[path].between if path in lost else not self._running,
                decides=self._can_decide(path, change),
                copy=self._reverter.copies.get(path, ""),
                person=rule.name in self._left_between,
            )
        if hands_on and not done:
            self._snapshots.hand_on("after", seen)
        self._lost = {path: one for path, one in done.items() if one.problem}
        return tuple(done[path] for path in sorted(done) if _CACHES.isdisjoint(path.split("/")))

    def _may_stay(self, rule: Rule, path: str, found: "_Found", blobs: dict[str, bytes]) -> bool:
        """Whether a covered file may stay as it is now."""
        before, after = (self._start or {}).get(path), found.entry(path)
        old = blobs.get(before[1]) if before else None
        if (before and old is None) or any(side and side[0] == _LINK for side in (before, after)):
            return False
        if after is None:
            return rule.allows(path, old, b"")
        if before and found.mode(path) != self._modes.get(path, found.mode(path)):
            return False
        try:
            new = self._snapshots.contents([after[1]]).get(after[1])
        except GitFailed:
            return False
        return new is not None and len(new) <= _MOST_JUDGED and rule.allows(path, old, new)

    def _read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The contents of files as they were, without those that a command has written over."""
        assert self._start is not None
        names = {self._start[path][1] for path in paths}
        try:
            return self._snapshots.contents(names)
        except GitFailed:
            blobs: dict[str, bytes] = {}
            for name in names:
                with suppress(GitFailed):
                    blobs |= self._snapshots.contents([name])
            return blobs

    def _put_back(self, path: str, before: Entry | None, blobs: dict[str, bytes]) -> str:
        """Makes a path what it was; returns why that was not possible."""
        reverter, name = self.git_settings.place(path) or (self._reverter, path)
        try:
            if before is None:
                reverter.remove(name, self._had_folder)
            elif before[1] not in blobs:
                return "no copy of its content was kept"
            elif before[0] == _LINK:
                reverter.put_link(name, os.fsdecode(blobs[before[1]]))
            else:
                mode = 0o755 if before[0] == "100755" else 0o644
                reverter.put_file(name, blobs[before[1]], stat.S_IMODE(self._modes.get(path, mode)))
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return ""

    def _had_folder(self, path: str) -> bool:
        """Whether there was such a folder, with or without a file in it."""
        if self._folders is None:
            self._folders = {
                folder for each in (*self._all, *(self._start or ())) for folder in ancestors(each)
            }
        return path in self._folders or self._snapshots.had_folder(path)

    def _take(self, path: str, found: "_Found") -> None:
        """What is there now counts from here on."""
        assert self._start is not None
        self._start.pop(path, None)
        self._modes.pop(path, None)
        entry, mode = found.entry(path), found.mode(path)
        if entry is not None and mode is not None:
            self._start[path], self._modes[path] = entry, mode

    def _can_decide(self, path: str, change: Change) -> bool:
        if self._decides is None:
            return False
        is_program = path in (self._start or {}) and bool(self._modes.get(path, 0) & _MAY_RUN)
        # On some file systems every file looks like a program: one that has a suffix may well be data.
        return self._decides(path, change) or (is_program and "." not in path.rpartition("/")[2])

    @property
    def _noted(self) -> Path:
        return self._folder / "running.json"

    def _note(self) -> None:
        """Keeps what a command begins with, for a process that comes after this one."""
        assert self._start is not None
        self._snapshots.objects.flush()
        tree = self._snapshots.entries(self._tree)
        noted = {
            "tree": self._tree,
            "files": {path: entry for path, entry in self._start.items() if tree.get(path) != entry},
            "without": sorted(path for path in self._first if path not in self._start),
            "settings": sorted(self.git_settings.places),
            "modes": {path: mode for path, mode in self._modes.items() if _is_unusual(mode)},
        }
        self._own.make(self._folder, mode=0o700)
        self._own.replace(self._noted, json.dumps(noted).encode())

    def _recall(self) -> bool:
        """Takes what a process that was killed has kept, if a command ran then."""
        try:
            match json.loads(self._own.read(self._noted)):
                case {
                    "tree": str(tree),
                    "files": dict(files),
                    "without": list(without),
                    "settings": list(places),
                    "modes": dict(modes),
                }:
                    recorded = self._snapshots.entries(tree)
                    start = recorded | {
                        str(path): (str(mode), str(name)) for path, (mode, name) in files.items()
                    }
                case _:
                    return False
        except (OSError, ValueError, GitFailed):
            return False
        for path in without:
            start.pop(path, None)
        self.git_settings.places = frozenset(map(str, places))
        # What was looked at before now went by the rules of git's settings as they are now.
        self._rule_of.cache_clear()
        self._is_entered.cache_clear()
        self._all, self._first = start, frozenset(filter(self.covers, recorded))
        self._start = {path: entry for path, entry in start.items() if self.covers(path)}
        self._modes = {path: _USUAL[kind] for path, (kind, _) in self._start.items() if kind in _USUAL}
        self._modes |= {str(path): int(mode) for path, mode in modes.items()}
        self._tree, self._running = tree, True
        self._snapshots.forget_handed()
        return True


def _is_unusual(mode: int) -> bool:
    return stat.S_ISREG(mode) and mode not in _USUAL.values()


@dataclass(frozen=True, slots=True)
class _Found:
    """Every file as it is, and git's settings."""

    seen: Snapshot
    settings: dict[str, Entry]
    modes: dict[str, int]

    def entry(self, path: str) -> Entry | None:
        return self.settings.get(path) or self.seen.entries.get(path)

    def mode(self, path: str) -> int | None:
        return self.modes[path] if path in self.modes else self.seen.mode_of(path)


def _change(before: Entry | None, after: Entry | None) -> Change:
    return "created" if before is None else "changed" if after else "deleted"


def _shown(path: str) -> str:
    shown = show_path(path)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."
