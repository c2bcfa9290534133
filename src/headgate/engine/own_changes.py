"""Which changes are a task's own: its diff shows these, and `undo` takes these back.

The log tells what others changed while the task ran. Between those moments, only the task changed something.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from headgate.core import Authorship, EditsNoticed, State, own_spans, parse_path, show_path
from headgate.tree import Difference, Entry, Snapshots, ancestors, merge_lines

_PLAIN = "100"


@dataclass(frozen=True, slots=True)
class OwnTree:
    """A git tree whose difference from the baseline is what the task changed."""

    tree: str
    shared: frozenset[str] = frozenset()
    """Paths that others changed as well, and in which that cannot be told apart: they are as they are now."""
    foreign: frozenset[str] = frozenset()
    """Paths that only others changed."""


def whole_tree(state: State) -> str:
    """The git tree at a task's end, with what others changed while it ran."""
    return (state.ended.whole if state.ended else "") or state.end_tree


def spans_of(state: State) -> list[tuple[str, str]]:
    """The pairs of trees between which an ended task changed the user's own tree, in order."""
    if state.merge:
        return [(state.merge.before, state.merge.after)]
    return own_spans(state.edits.noticed, state.baseline, whole_tree(state))


def own_differences(snapshots: Snapshots, state: State, before: str, after: str) -> Iterator[Difference]:
    """What differs between two trees of an ended task, less new files of verification runs."""
    made = set(state.left_behind) - set(state.files_changed)
    missing = set(state.ended.not_in_diff if state.ended else ())
    for one in snapshots.differences(before, after):
        if show_path(one.path) not in made and show_path(one.path) not in missing:
            yield one


def own_tree(
    snapshots: Snapshots, baseline: str, tree: str, edits: Authorship, pending: EditsNoticed | None = None
) -> OwnTree:
    """The tree without what others changed since the baseline.

    `pending` is what they changed since the log was last told. All counts as the task's if the log does not
    tell whose changes are whose.
    """
    noticed = [*edits.noticed, *filter(None, [pending])]
    if not (edits.is_told and noticed):
        return OwnTree(tree)
    start, now = snapshots.entries(baseline), snapshots.entries(tree)
    spans = [
        (snapshots.entries(before), snapshots.entries(after))
        for before, after in own_spans(noticed, baseline, tree)
    ]
    touched = {path for one in noticed for path in snapshots.changed_files(one.before, one.after)}
    uncertain = {parse_path(path) for one in noticed for path in one.uncertain}
    away = {
        path for one in noticed if one.while_away for path in snapshots.changed_files(one.before, one.after)
    }
    own, shared, contents = dict(now), set[str](), list[bytes]()
    for path in touched | uncertain:
        if now.get(path) == start.get(path):
            continue  # whoever changed it, it is as it was
        steps = [(before.get(path), after.get(path)) for before, after in spans]
        found = _Version(start.get(path))
        is_told_apart = path not in uncertain and all(found.take(snapshots, *step) for step in steps)
        is_nobodys = path in away and found.entry == start.get(path)
        if is_told_apart and not is_nobodys:
            contents += filter(None, [found.content])
        else:
            found = _Version(now.get(path))
            shared.add(path)
        own.pop(path, None)
        if found.entry is not None:
            own[path] = found.entry
    _make_room(own, touched)
    foreign = {path for path in touched if own.get(path) == start.get(path)}
    return OwnTree(snapshots.record(own, contents), frozenset(shared - foreign), frozenset(foreign))


@dataclass
class _Version:
    """A file as the task alone would have left it."""

    entry: Entry | None
    content: bytes | None = None
    """Set if no snapshot has it."""

    def take(self, snapshots: Snapshots, before: Entry | None, after: Entry | None) -> bool:
        """Takes in what the task changed between two moments; False if that meets what others changed."""
        if after in (before, self.entry):
            return True
        if self.entry == before or after is None:
            self.entry, self.content = after, None
            return True
        if self.entry is None or before is None:
            return False
        sides = (before, after, self.entry)
        if not all(mode.startswith(_PLAIN) for mode, _ in sides):
            return False
        known = snapshots.contents({name for _, name in sides})
        if self.content is not None:
            known[self.entry[1]] = self.content
        if not all(name in known for _, name in sides):
            return False
        merged = merge_lines(*(known[name] for _, name in sides))
        if merged is None:
            return False
        mode = after[0] if after[0] != before[0] else self.entry[0]
        self.entry, self.content = (mode, snapshots.name_of(merged)), merged
        return True


def _make_room(entries: dict[str, Entry], touched: set[str]) -> None:
    """Leaves out what others had at a place where the task has made a folder of a file, or a file of one."""
    for path in [path for path in touched if path in entries]:
        if any(folder in entries for folder in ancestors(path)):
            del entries[path]
    for folder in set(chain.from_iterable(map(ancestors, entries))) & touched & entries.keys():
        del entries[folder]
