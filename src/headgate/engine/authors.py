"""Which files somebody else changed while a task ran.

What tools write is known, and what changes while a command or a check runs counts as its doing. Before each
of these the tree is looked at: what is then not as the task had left it, somebody else has changed. A file
that both have changed is shared: it is not told which lines are whose.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise

from headgate.core import (
    Calls,
    EditsNoticed,
    OthersEdits,
    State,
    VerifyRuns,
    parse_path,
    show_path,
)
from headgate.first_use import dataclass
from headgate.tree import (
    LARGE,
    NESTED,
    ConfinedTree,
    Entry,
    FileChange,
    Snapshots,
    ancestors,
    differing,
    hash_at,
    mode_at,
    object_name,
    read_at,
)

Entries = dict[str, Entry]


class EditWatch:
    """Keeps what the tree holds if nobody but the task has changed it. Methods block."""

    def __init__(
        self,
        snapshots: Snapshots,
        written: Callable[[], Iterable[str]],
        made_by_checks: Callable[[], Iterable[str]],
    ) -> None:
        """`written`: the paths that tools wrote, as shown; `made_by_checks`: new files that are nobody's."""
        self._snapshots = snapshots
        self._files = ConfinedTree(snapshots.repo)
        self._written, self._made_by_checks = written, made_by_checks
        self._left: Entries | None = None
        """The tree as the task has left it; None if that is not known."""
        self._looked_at: Entries = {}
        """The tree when it was last looked at."""
        self._past: OthersEdits | None = None
        """What the log says, until the tree is looked at after a crash."""
        self._contents: dict[str, bytes] = {}
        """What tools wrote since the last look, by the name of the blob: no snapshot has it yet."""

    def begin(self, tree: str) -> None:
        """The task begins with this tree."""
        self._leave(tree, self._snapshots.entries(tree))

    def resume(self, past: OthersEdits) -> None:
        """A task goes on that another process began."""
        self._past = past if past.is_told and past.left else None

    def settle(self, tree: str) -> str:
        """A command or a check has ended: what has changed since the last look is its doing.

        Returns the tree with what git ignores and tools wrote.
        """
        now = self._with_ignored(tree)
        self._leave(tree, now)
        return tree if now is self._snapshots.entries(tree) else self._snapshots.record(now)

    def lose(self) -> None:
        """What a command did is not known: nothing that is found next is called somebody else's."""
        self._left = self._past = None

    def notice(self, tree: str) -> EditsNoticed | None:
        """What somebody else has changed since the task last did something; None if nothing."""
        found, was_away = self.pending(tree), self._past is not None
        self._leave(tree, self._with_ignored(tree))
        return found.model_copy(update={"while_away": was_away}) if found else None

    def pending(self, tree: str) -> EditsNoticed | None:
        """What `notice` would return; here, what was found does not count as known from then on."""
        if self._left is None and self._past is None:
            return None
        now = self._with_ignored(tree)
        left, uncertain = self._as_left(now)
        ours = set(map(parse_path, self._written()))
        nobodys = set(self._made_by_checks()) - ours
        found = differing(left, now) - nobodys
        found = {path for path in found if not _is_repository(left.get(path), now.get(path))}
        if not (found or uncertain):
            return None
        after = {path: entry for path, entry in left.items() if path not in found}
        after |= {path: now[path] for path in found if path in now}
        return EditsNoticed(
            before=self._snapshots.record(left, self._contents.values()),
            after=self._snapshots.record(after),
            files=tuple(map(show_path, sorted(found))),
            uncertain=uncertain,
        )

    def left(self) -> str:
        """The tree as the task has left it, without what git ignores; empty if that is not known."""
        if self._left is None:
            return ""
        recorded = self._left
        if recorded is not self._looked_at:
            recorded = {
                path: entry
                for path, entry in recorded.items()
                if path in self._looked_at or not self._snapshots.ignores(path)
            }
        return self._snapshots.record(recorded, self._contents.values())

    def before_writing(self, changes: Sequence[FileChange]) -> EditsNoticed | None:
        """What a tool is about to write over that is not as the task had left it; None if nothing.

        Of a file that git ignores, nobody knew so far what it holds: the event keeps that.
        """
        if self._past is not None:
            return self.notice(self._snapshots.take())
        if self._left is None:
            return None
        found = {
            change.path: None if change.before is None else self._entry(change.path, change.before)
            for change in changes
            if not (self._has(change) or self._is_elsewhere(change.path))
        }
        if not found:
            return None
        kept = {path: entry for path, entry in self._left.items() if path not in found}
        seen = kept | {path: entry for path, entry in found.items() if entry is not None}
        event = EditsNoticed(
            before=self._snapshots.record(self._left, self._contents.values()),
            after=self._snapshots.record(seen),
            files=tuple(
                show_path(path)
                for path in sorted(found)
                if path in self._left or not self._snapshots.ignores(path)
            ),
        )
        self._left = seen
        return event

    def note_writes(self, changes: Sequence[FileChange]) -> None:
        """A tool has written this."""
        if self._left is None:
            return
        self._left = dict(self._left)  # it may be what a snapshot has
        for change in changes:
            if not self._is_elsewhere(change.path):
                self._left.pop(change.path, None)
                if change.after is not None:
                    self._left[change.path] = self._entry(change.path, change.after)

    def _leave(self, tree: str, entries: Entries) -> None:
        self._looked_at = self._snapshots.entries(tree)
        self._left, self._past = entries, None
        self._contents.clear()

    def _with_ignored(self, tree: str) -> Entries:
        """A tree with what git ignores and tools wrote."""
        recorded, found = self._snapshots.entries(tree), {}
        for path in map(parse_path, self._written()):
            if path not in recorded and not any(folder in recorded for folder in ancestors(path)):
                data = read_at(self._files, show_path(path), LARGE)
                if data is not None:
                    found[path] = self._entry(path, data)
                    self._snapshots.objects.write("blob", data)
        return {**recorded, **found} if found else recorded

    def _as_left(self, now: Entries) -> tuple[Entries, tuple[str, ...]]:
        """The tree as the task left it, and the files that others changed after an interrupted process."""
        if self._past is None:
            assert self._left is not None
            return self._left, ()
        left, uncertain = dict(self._snapshots.entries(self._past.left)), []
        for path, hashes in self._past.written.items():
            left.pop(parse_path(path), None)
            if parse_path(path) in now:
                left[parse_path(path)] = now[parse_path(path)]
            if hash_at(self._files, path) not in hashes:
                uncertain.append(path)
        return left, tuple(uncertain)

    def _has(self, change: FileChange) -> bool:
        assert self._left is not None
        entry = self._left.get(change.path)
        if entry is None or change.before is None:
            return entry is None and change.before is None
        return entry[1] == object_name("blob", change.before, self._snapshots.objects.length)

    def _entry(self, path: str, data: bytes) -> Entry:
        name = object_name("blob", data, self._snapshots.objects.length)
        self._contents[name] = data
        mode = mode_at(self._files, show_path(path)) or 0
        return ("100755" if mode & 0o100 else "100644"), name

    def _is_elsewhere(self, path: str) -> bool:
        """Whether a path is in another repository, or a file of which there is only a mark."""
        assert self._left is not None
        return any(self._left.get(each, ("",))[0] == NESTED for each in (path, *ancestors(path)))


def _is_repository(*sides: Entry | None) -> bool:
    return any(side is not None and side[0] == NESTED for side in sides)


@dataclass(frozen=True, slots=True)
class OwnTree:
    """A git tree whose difference from the baseline is what the task changed."""

    tree: str
    shared: frozenset[str] = frozenset()
    """Paths that others changed as well: they are as they are now."""
    foreign: frozenset[str] = frozenset()
    """Paths that only others changed."""


def own_tree(
    snapshots: Snapshots, baseline: str, tree: str, others: OthersEdits, pending: EditsNoticed | None = None
) -> OwnTree:
    """The tree without the files that only others changed since the baseline.

    `pending` is what they changed since the log was last told. All counts as the task's if the log does not
    tell whose changes are whose.
    """
    noticed = [*others.noticed, *filter(None, [pending])]
    if not (others.is_told and noticed):
        return OwnTree(tree)
    start, now = snapshots.entries(baseline), snapshots.entries(tree)
    theirs = {parse_path(path) for one in noticed for path in (*one.files, *one.uncertain)}
    theirs = {path for path in theirs if now.get(path) != start.get(path)}
    own = {path for span in own_spans(noticed, baseline, tree) for path in snapshots.changed_files(*span)}
    # A command that a crash interrupted may have changed it.
    perhaps = {parse_path(path) for one in noticed if one.while_away for path in one.files}
    foreign = theirs - own - perhaps
    kept = {path: entry for path, entry in now.items() if path not in foreign}
    kept |= {path: start[path] for path in foreign if path in start}
    _make_room(kept, foreign)
    return OwnTree(snapshots.record(kept), frozenset(theirs - foreign), frozenset(foreign))


def _make_room(entries: Entries, foreign: Iterable[str]) -> None:
    """Leaves out what others had at a place where the task has made a folder of a file, or a file of one."""
    for path in [path for path in foreign if path in entries]:
        if any(folder in entries for folder in ancestors(path)):
            del entries[path]
    for folder in set(chain.from_iterable(map(ancestors, entries))) & set(foreign) & entries.keys():
        del entries[folder]


def own_spans(noticed: Sequence[EditsNoticed], start: str, end: str) -> list[tuple[str, str]]:
    """The pairs of trees between which only the task changed something, in order."""
    trees = [start, *(tree for one in noticed for tree in (one.before, one.after)), end]
    return [pair for number, pair in enumerate(pairwise(trees)) if number % 2 == 0]


def is_running_something(state: State) -> bool:
    """Whether a check or a command was begun and has not ended."""
    return state[VerifyRuns].is_running or any(call.category == "run" for call in state[Calls].open.values())


def own_tree_now(snapshots: Snapshots, state: State) -> OwnTree:
    """What a running task has changed so far. What differs while it runs a command counts as its own."""
    now = snapshots.take()
    if is_running_something(state):
        return own_tree(snapshots, state.baseline, now, state[OthersEdits])
    watch = EditWatch(
        snapshots, lambda: state.first_hashes, lambda: map(parse_path, state[VerifyRuns].left_behind)
    )
    watch.resume(state[OthersEdits])
    return own_tree(snapshots, state.baseline, now, state[OthersEdits], watch.pending(now))
