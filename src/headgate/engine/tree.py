"""The working tree as one task sees it: what the task itself has changed since it began."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.core import (
    EditsNoticed,
    OnPulse,
    OthersEdits,
    Proposed,
    State,
    Workplace,
    parse_path,
    show_path,
)
from headgate.engine.authors import EditWatch, OwnTree, own_tree, own_tree_now
from headgate.errors import ConfigError, HeadgateError
from headgate.first_use import dataclass
from headgate.guard import DEFAULT_SECRETS, SecretNames
from headgate.log import Folder, TaskRow
from headgate.reading import MOST_CHARS, TaskDiff
from headgate.tree import (
    LARGE,
    ConfinedTree,
    FileChange,
    GitFailed,
    Misfit,
    Moment,
    OverlayWorkspace,
    ProposedChange,
    Snapshots,
    Workspace,
    ancestors,
    fit,
    hash_at,
    in_cache,
    mode_at,
    patch_between,
    read_at,
    record_proposal,
)

TELL_SECONDS = 0.5
"""How often people who wait are told how far it is."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a task has done to the tree by its end."""

    files: tuple[str, ...] = ()
    tree: str = ""
    """The git tree whose difference from the baseline is the task's diff."""
    diffstat: tuple[str, ...] = ()
    not_in_diff: tuple[str, ...] = ()
    """Files that differ, and that the tree cannot hold."""
    whole: str = ""
    """The git tree with what others changed, if that is another one."""
    shared: tuple[str, ...] = ()
    """Files that others changed as well."""
    after_review: tuple[str, ...] = ()
    """Files that differ from the proposal as it was applied."""
    noticed: EditsNoticed | None = None
    """What others have changed since the task last did something."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a dry run would change: two git trees, and the files that differ."""

    before: str
    after: str
    files: tuple[str, ...]


class TaskTree:
    """Compares the tree with the task's start.

    git tells what differs; what tools wrote is compared by content as well, because git looks neither into
    ignored files nor into repositories within the repository. What others change meanwhile is not the task's,
    nor are new files that a verification run leaves behind (reports, caches).
    """

    def __init__(
        self,
        snapshots: Snapshots,
        written: Callable[[], Mapping[str, str | None]],
        others: Callable[[], OthersEdits] = OthersEdits,
    ) -> None:
        """`written`: what tools wrote, with the hash before; `others`: what others changed meanwhile."""
        self._snapshots = snapshots
        self._files = ConfinedTree(snapshots.repo)
        self._written, self._others = written, others
        self._baseline = ""
        self._by_verification: set[str] = set()
        self._edits = EditWatch(snapshots, written, lambda: self._by_verification)
        self.overlay: OverlayWorkspace | None = None
        """Set for a dry run: what the task has done is there, and not in the tree."""

    async def tell(self, pulse: OnPulse, is_awaited: Callable[[], bool]) -> None:
        """Tells people how far it is, as long as that is awaited: a large repository takes a while."""
        while is_awaited():
            pulse("files", "Reading the repository", self._snapshots.files_seen())
            await asyncio.sleep(TELL_SECONDS)

    async def begin(self) -> str:
        """Records the tree as the task finds it; returns the name of that git tree."""
        self._baseline = await asyncio.to_thread(self._snapshots.take)
        self._edits.begin(self._baseline)
        return self._baseline

    def resume(self, baseline: str, left_behind: Iterable[str]) -> None:
        """Goes on with what an earlier process recorded."""
        self._baseline = baseline
        self._snapshots.go_on_from(baseline)
        self._by_verification = set(map(parse_path, left_behind))
        self._edits.resume(self._others())

    async def notice(
        self, mark: str = "", *, writing: Sequence[FileChange] | None = None
    ) -> EditsNoticed | None:
        """See `Tree`."""
        return await asyncio.to_thread(self._notice, mark, writing) if self._is_watched else None

    def _notice(self, mark: str, writing: Sequence[FileChange] | None) -> EditsNoticed | None:
        with suppress(HeadgateError, OSError):  # a check that needs the tree says what is wrong with it
            if writing is not None:
                return self._edits.before_writing(writing)
            return self._edits.notice(mark or self._look_before())
        return None

    async def settle(self, mark: str = "", *, written: Sequence[FileChange] | None = None) -> str:
        """See `Tree`."""
        return await asyncio.to_thread(self._settle, mark, written) if self._is_watched else ""

    def _settle(self, mark: str, written: Sequence[FileChange] | None) -> str:
        if written is not None:
            self._snapshots.forget_handed()
            self._edits.note_writes(written)
            return ""
        with suppress(HeadgateError, OSError):
            return self._edits.settle(mark or self._snapshots.around("after").tree)
        self._edits.lose()
        return ""

    def _look_before(self) -> str:
        """The tree right before a command."""
        self._snapshots.forget_handed()
        return self._mark("before")

    def _mark(self, moment: Moment | None = None) -> str:
        if moment is None:
            return self._snapshots.take()
        if moment == "after":
            return self._snapshots.around("after").tree
        seen = self._snapshots.around(
            "before", "after"
        )  # what another command left, if it was just looked at
        self._snapshots.hand_on("before", seen)
        return seen.tree

    @property
    def _is_watched(self) -> bool:
        """Whether others may change what the task works on."""
        return bool(self._baseline) and not self.overlay

    async def changed_files(self) -> tuple[str, ...]:
        """The files that the task has changed since the start, as they are shown."""
        if self.overlay:
            return tuple(show_path(change.path) for change in self.overlay.changes())
        return await asyncio.to_thread(self._own_files)

    def _own_files(self) -> tuple[str, ...]:
        now, own = self._own_now()
        return tuple(name for name in self._changed(now) if parse_path(name) not in own.foreign)

    def _own_now(self) -> tuple[str, OwnTree]:
        """The tree, and what is the task's own of it.

        What others change is not the task's. So there is nothing to look at as long as it is known how the
        task has left the tree.
        """
        if self._is_watched and (left := self._edits.left()):
            return left, self._own(left)
        now = self._snapshots.take()
        return now, self._own_of(now)

    def _own_of(self, now: str) -> OwnTree:
        """The part of the tree that is the task's own, as the tree was just taken."""
        pending = None
        with suppress(GitFailed):
            pending = self._edits.pending(now)
        return self._own(now, pending)

    def _own(self, tree: str, pending: EditsNoticed | None = None) -> OwnTree:
        """The part of a tree that is the task's own; `pending` is what others did that the log does not tell.

        It is all of it if a tree that the log names is gone: a report that says too much is better than none.
        """
        try:
            return own_tree(self._snapshots, self._baseline, tree, self._others(), pending)
        except GitFailed:
            return OwnTree(tree)

    async def final_changes(self, applied: str = "") -> Changes:
        """What the task has done to the tree, for a report that is written whatever happens.

        `applied` is the tree right after a proposal was applied. Without git, all that is known is what the
        task's tools wrote.
        """
        if not self._baseline:
            return Changes()
        try:
            return await asyncio.to_thread(self._measure, applied)
        except (HeadgateError, OSError):
            return Changes(tuple(self._written()))

    def _measure(self, applied: str) -> Changes:
        now = self._mark("after")
        noticed = (self._edits.notice if self._is_watched else self._edits.pending)(now)
        everything = self._changed(now)
        whole = self._as_shown(everything, now)
        own = self._own(whole, noticed)
        tree = own.tree
        files = tuple(name for name in everything if parse_path(name) not in own.foreign)
        shown = set(self._snapshots.changed_files(self._baseline, tree))
        later = self._snapshots.changed_files(applied, tree) if applied else ()
        unknown = self._by_verification | self._snapshots.marked
        return Changes(
            files,
            tree,
            self._snapshots.diffstat(self._baseline, tree),
            not_in_diff=tuple(name for name in files if parse_path(name) not in shown),
            whole=whole if whole != tree else "",
            shared=tuple(name for name in files if parse_path(name) in own.shared),
            after_review=tuple(show_path(path) for path in later if path not in unknown),
            noticed=noticed if self._is_watched else None,
        )

    def _as_shown(self, files: tuple[str, ...], tree: str) -> str:
        """The tree with what git ignores and the task's tools wrote.

        It is without what verification runs made, and without changes to files of which it has only a mark.
        """
        changed = self._snapshots.changed_files(self._baseline, tree)
        own = set(map(parse_path, files))
        made = [path for path in changed if path in self._by_verification and path not in own]
        missing = {parse_path(name) for name in files if name in self._written()}
        missing.difference_update(changed)
        nested = set(self._snapshots.files(tree)[1]) if missing else set()
        found: dict[str, tuple[bytes, int] | None] = dict.fromkeys(made)
        for path in missing:
            data, mode = read_at(self._files, show_path(path), LARGE), self.mode_of(show_path(path))
            if data is not None and mode is not None and nested.isdisjoint(ancestors(path)):
                found[path] = (data, mode)
        shown = self._snapshots.tree_with(tree, found) if found else tree
        start = self._snapshots.entries(self._baseline)
        if caches := {path: start[path] for path in made if path in start}:
            shown = self._snapshots.record(self._snapshots.entries(shown) | caches)
        return self._snapshots.without_marks(self._baseline, shown)

    @property
    def stripped(self) -> tuple[str, ...]:
        """The files that had a setuid or setgid bit which they did not have at the start."""
        return tuple(map(show_path, sorted(self._snapshots.stripped)))

    async def record_proposal(self) -> Proposal:
        """Keeps what a dry run would change."""
        return await asyncio.to_thread(self._record_proposal)

    def _record_proposal(self) -> Proposal:
        assert self.overlay is not None
        changes = self.overlay.changes()
        before, after = record_proposal(self._snapshots, self._baseline, changes)
        return Proposal(before, after, tuple(show_path(change.path) for change in changes))

    def fit(self, workspace: Workspace, before: str, after: str) -> tuple[ProposedChange, ...] | Misfit:
        """What a proposal makes of the tree as it is now; nothing is written."""
        return fit(workspace, self._snapshots, self._snapshots.differences(before, after))

    def tree_with(self, changes: Sequence[ProposedChange]) -> str:
        """The tree of the task's start with these changes."""
        return record_proposal(self._snapshots, self._baseline, changes)[1]

    async def mark(self, moment: Moment | None = None) -> str:
        """See `Tree`."""
        return await asyncio.to_thread(self._mark, moment)

    async def diff_since(self, mark: str) -> str:
        """See `Tree`."""
        return await asyncio.to_thread(lambda: self._snapshots.diff(mark, self._own_now()[1].tree))

    async def own_mark(self, mark: str) -> str:
        """See `Tree`."""
        return await asyncio.to_thread(lambda: self._own_of(mark).tree)

    async def own_diff(self) -> TaskDiff:
        """What the task has changed since its start; in a dry run, what it would change."""
        return await asyncio.to_thread(self._own_diff)

    def _own_diff(self) -> TaskDiff:
        if self.overlay:
            before, after = record_proposal(self._snapshots, self._baseline, self.overlay.changes())
        else:
            before, after = self._baseline, self._own_now()[1].tree
        sides = {
            one.path: (one.before[1], one.after[1])
            for one in self._snapshots.differences(before, after)
            if one.before and one.after and one.is_plain
        }
        contents = self._snapshots.contents(blob for pair in sides.values() for blob in pair)
        texts = {blob: _text(data) for blob, data in contents.items()}
        versions = {
            path: (old, new)
            for path, blobs in sides.items()
            if (old := texts.get(blobs[0])) is not None and (new := texts.get(blobs[1])) is not None
        }
        known = {*self._snapshots.files(before)[0], *self._snapshots.files(after)[0]}
        diff = self._snapshots.diff(before, after)
        return TaskDiff(diff, versions, frozenset(known), frozenset(self._by_verification))

    async def diff_to_start(self) -> tuple[FileChange, ...] | None:
        """See `Tree`. There is no way through links and repositories within the repository."""
        return await asyncio.to_thread(self._diff_to_start)

    def _diff_to_start(self) -> tuple[FileChange, ...] | None:
        found = self._snapshots.differences(self._snapshots.take(), self._baseline)
        contents = self._snapshots.contents(one.after[1] for one in found if one.after and one.is_plain)
        if not all(one.is_plain and (not one.after or one.after[1] in contents) for one in found):
            return None
        return tuple(
            FileChange(
                one.path,
                None,
                contents[one.after[1]] if one.after else None,
                (0o755 if one.after[0] == "100755" else 0o644) if one.after else None,
            )
            for one in found
        )

    async def changed_between(self, before: str, after: str) -> tuple[str, ...]:
        """The files that differ between two marks."""
        if before == after:
            return ()
        return tuple(map(show_path, await asyncio.to_thread(self._snapshots.changed_files, before, after)))

    async def left_behind(self, before: str, after: str) -> tuple[str, ...]:
        """See `Tree`."""
        found = self._snapshots.differences(before, after)
        left = [one.path for one in found if one.before is None or in_cache(one.path)]
        self._by_verification.update(left)
        return tuple(map(show_path, left))

    def _changed(self, now: str) -> tuple[str, ...]:
        written = self._written()
        differing = self._snapshots.changed_files(self._baseline, now)
        names = [show_path(path) for path in differing if path not in self._by_verification]
        names += [name for name, before in written.items() if self.hash_of(name) != before]
        names += map(show_path, self._snapshots.changed_within)
        return tuple(sorted(dict.fromkeys(names), key=parse_path))

    def hash_of(self, path: str) -> str | None:
        """The hash of a file as it is now, by its shown path; None if it is not there, or is no file."""
        if self.overlay:
            return self.overlay.hash_of(path)
        return hash_at(self._files, path)

    def mode_of(self, path: str) -> int | None:
        """The mode of a file as it is on disk, by its shown path; None if it is not there."""
        return mode_at(self._files, path)


def _text(data: bytes) -> str | None:
    """A file's text; None if it is binary or too large to be compared."""
    if b"\0" in data or len(data) > MOST_CHARS:
        return None
    return data.decode("utf-8", "surrogateescape")


def hides_secrets(state: State) -> Callable[[str], bool]:
    """Whether a file may hold secrets, of which no copy is made: by usual names, and by the task's own."""
    return SecretNames((*DEFAULT_SECRETS, *state.config.get("secret_files", ()))).covers


# What a task proposes, or has changed, for who wants to see it while others work.


def diff_of(repo: Path, row: TaskRow, state: State, *, after_review: bool = False) -> bytes:
    """A task's diff, such as `git apply` takes. ConfigError if there is none, or none yet.

    With `after_review`, only what was changed after a proposal was applied.
    """
    task_id = row.task.id
    if after_review and not (state[Proposed].applied_tree and state.end_tree):
        raise ConfigError(f"Task {task_id} is not an applied proposal that has ended.")
    own = Folder(repo)
    tree = own.at(task_id).tree if state[Workplace].has_worktree and row.state == "RUNNING" else repo
    with Snapshots.apart(tree, hides_secrets(state), own.objects) as snapshots:
        proposed = state[Proposed]
        if row.state in ("PROPOSED", "QUEUED", "RUNNING") and proposed.step == "proposed":
            assert proposed.trees is not None
            return patch_between(snapshots, *proposed.trees)
        if not state.baseline:
            raise ConfigError(f"Task {task_id} has not started: there is no diff yet.")
        if row.state == "RUNNING" and row.task.dry_run and state[Proposed].trees is None:
            raise ConfigError(f"Task {task_id} has not proposed anything yet: there is no diff yet.")
        if state.end_tree:
            start = state[Proposed].applied_tree if after_review else state.baseline
            return patch_between(snapshots, start, state.end_tree)
        if row.state == "RUNNING":
            snapshots.go_on_from(state.baseline)
            return patch_between(snapshots, state.baseline, own_tree_now(snapshots, state).tree)
    raise ConfigError(f"Task {task_id} left no diff.")
