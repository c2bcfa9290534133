"""Tells the task's own changes from those that a person makes to the same tree while the task runs.

What tools write is known. Before and after a command the tree is looked at: what changed in between counts
as the command's, and what changed outside of it, and was not written by a tool, is somebody else's.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from headgate.core import Authorship, EditsNoticed, parse_path, show_path
from headgate.errors import HeadgateError
from headgate.tree import (
    LARGE,
    NESTED,
    ConfinedTree,
    Entry,
    FileChange,
    Snapshots,
    ancestors,
    hash_at,
    mode_at,
    object_name,
    read_at,
)

Entries = dict[str, Entry]


class EditWatch:
    """Keeps what the tree should hold if nobody but the task had changed it. Methods block."""

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
        self._expected: Entries | None = None
        self._past: Authorship | None = None
        self._contents: dict[str, bytes] = {}
        """What tools wrote since the last look, by the name of the blob: no snapshot has it yet."""
        self._theirs: set[str] = set()
        """What others were seen to write on."""
        self._is_lost = False
        """The tree could not be looked at, and that is still to be told."""

    def begin(self, tree: str) -> None:
        """The task begins with this tree."""
        self._past = None
        self._expect(dict(self._snapshots.entries(tree)))

    def resume(self, past: Authorship) -> None:
        """A task goes on that another process began; the log tells what that one had written."""
        self._past = past if past.is_told and past.known else None

    def notice(self, tree: str = "", *, verifying: bool = False) -> EditsNoticed | None:
        """What somebody else has changed since the task last did something; None if nothing.

        `tree` is a snapshot that was just taken, if one was.
        """
        try:
            return self._notice(tree, verifying)
        except (HeadgateError, OSError):
            self._lose()
            return self._tell_loss()

    def _notice(self, tree: str, verifying: bool) -> EditsNoticed | None:
        if self._is_lost or not self._is_watching:
            return self._tell_loss()
        now, _ = self._look(tree or self._snapshots.take())
        event = self._compare(now, verifying)
        was_away = self._past is not None
        self._expect(now)
        return event.model_copy(update={"while_away": was_away}) if event else None

    def pending(self, tree: str) -> EditsNoticed | None:
        """What `notice` would find, in a tree that was just taken. Nothing is taken note of."""
        if not self._is_watching:
            return None
        return self._compare(self._look(tree)[0], verifying=False)

    @property
    def _is_watching(self) -> bool:
        return self._expected is not None or self._past is not None

    def _compare(self, now: Entries, verifying: bool) -> EditsNoticed | None:
        expected, uncertain = self._expectation(now)
        found = self._foreign(expected, now)
        if not (found or uncertain):
            return None
        return self._event(expected, _with(expected, found, now), found, uncertain, verifying)

    def note_command(self) -> tuple[str, EditsNoticed | None]:
        """A command has ended: what changed since `notice` is its doing, but for what others write on.

        Returns the tree, if it is known, and what others did.
        """
        if self._expected is None:
            return "", None
        try:
            now, tree = self._look(self._snapshots.take())
            others = self.written_on(self._expected, now)
            alone = _with(now, others, self._expected)
            event = self._event(alone, now, others, (), verifying=False) if others else None
            self._expect(now)
            return tree or self._snapshots.record(now), event
        except (HeadgateError, OSError):
            self._lose()
            return "", None

    def written_on(self, before: Entries, now: Entries) -> list[str]:
        """What others were seen to write on, and that has become longer again: logs, above all.

        A command may run while somebody writes to a log, and did not do it.
        """
        return self._grown(self._theirs.difference(map(parse_path, self._written())), before, now)

    def _grown(self, paths: Iterable[str], before: Entries, now: Entries) -> list[str]:
        """Files that hold what they held, and more behind it."""
        sides = {path: (before[path][1], now[path][1]) for path in paths if path in before and path in now}
        changed = {path: blobs for path, blobs in sides.items() if blobs[0] != blobs[1]}
        contents = self._snapshots.contents({blob for blobs in changed.values() for blob in blobs})
        return [
            path
            for path, (old, new) in sorted(changed.items())
            if old in contents and new in contents and contents[new].startswith(contents[old])
        ]

    def note_step(self, before: str, after: str, made: Collection[str]) -> EditsNoticed | None:
        """A step of a check changed the files `made` between two trees; returns what others changed."""
        if self._expected is None:
            return None
        old, new = self._snapshots.entries(before), self._snapshots.entries(after)
        others = [
            path
            for path in self._foreign(old, new)  # new files are looked at when the check has ended
            if path in old and path not in made and self._expected.get(path) != new.get(path)
        ]
        seen = _with(self._expected, others, new)
        event = self._event(self._expected, seen, others, (), verifying=True) if others else None
        self._expected = _with(seen, made, new)
        return event

    def known(self) -> str:
        """The tree as the task has left it, recorded; empty if it is not known."""
        if self._expected is None:
            return ""
        return self._snapshots.record(self._expected, self._contents.values())

    def before_writing(self, changes: Sequence[FileChange]) -> EditsNoticed | None:
        """What a tool is about to write over that is not as the task had left it; None if nothing."""
        if self._past is not None:
            return self.notice()
        if self._expected is None:
            return None
        seen, found = dict(self._expected), []
        for change in changes:
            if not self._has(change) and not self._is_elsewhere(change.path):
                found.append(change.path)
                seen.pop(change.path, None)
                if change.before is not None:
                    seen[change.path] = self._entry(change.path, change.before)
        if not found:
            return None
        event = self._event(self._expected, seen, found, (), verifying=False)
        self._expected = seen
        return event

    def note_writes(self, changes: Sequence[FileChange]) -> None:
        """A tool has written this."""
        if self._expected is None:
            return
        for change in changes:
            if self._is_elsewhere(change.path):
                continue
            self._expected.pop(change.path, None)
            if change.after is not None:
                self._expected[change.path] = self._entry(change.path, change.after)

    def _lose(self) -> None:
        """What follows cannot be told apart; a check that needs the tree says what is wrong with it."""
        self._expected, self._past, self._is_lost = None, None, True

    def _tell_loss(self) -> EditsNoticed | None:
        told, self._is_lost = self._is_lost, False
        return EditsNoticed(before="", after="") if told else None

    def _expect(self, entries: Entries) -> None:
        self._expected, self._past = entries, None
        self._contents.clear()

    def _look(self, tree: str) -> tuple[Entries, str]:
        """A tree with what git ignores and tools wrote; and its name, if it has one already."""
        found = dict(self._snapshots.entries(tree))
        for path in map(parse_path, self._written()):
            if path not in found and not any(folder in found for folder in ancestors(path)):
                data = read_at(self._files, show_path(path), LARGE)
                if data is not None:
                    found[path] = self._entry(path, data)
                    self._snapshots.objects.write("blob", data)
                    tree = ""
        return found, tree

    def _expectation(self, now: Entries) -> tuple[Entries, tuple[str, ...]]:
        """What the tree should hold, and the files of which an interrupted process has told too little."""
        if self._past is None:
            assert self._expected is not None
            return self._expected, ()
        expected, uncertain = dict(self._snapshots.entries(self._past.known)), []
        for path, (before, *made) in self._past.written.items():
            found = hash_at(self._files, path)
            if found == before and found not in made:
                continue  # the write had only been planned
            expected.pop(parse_path(path), None)
            if parse_path(path) in now:
                expected[parse_path(path)] = now[parse_path(path)]
            if found not in made:
                uncertain.append(path)
        return expected, tuple(uncertain)

    def _foreign(self, expected: Entries, now: Entries) -> list[str]:
        """The paths that differ. Marks of large and secret files tell nothing that could be taken back."""
        if expected == now:
            return []
        ours = set(map(parse_path, self._written()))
        nobodys = set(self._made_by_checks()) - ours
        found = {path for path, _ in expected.items() ^ now.items()} - nobodys
        return sorted(
            path
            for path in found
            if all(side is None or side[0] != NESTED for side in (expected.get(path), now.get(path)))
        )

    def _event(
        self,
        before: Entries,
        after: Entries,
        found: Sequence[str],
        uncertain: tuple[str, ...],
        verifying: bool,
    ) -> EditsNoticed:
        self._theirs.update(self._grown(found, before, after))
        return EditsNoticed(
            before=self._snapshots.record(before, self._contents.values()),
            after=self._snapshots.record(after),
            files=tuple(map(show_path, found)),
            verifying=verifying,
            uncertain=uncertain,
        )

    def _has(self, change: FileChange) -> bool:
        assert self._expected is not None
        entry = self._expected.get(change.path)
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
        assert self._expected is not None
        return any(self._expected.get(each, ("",))[0] == NESTED for each in (path, *ancestors(path)))


def _with(entries: Entries, paths: Iterable[str], now: Entries) -> Entries:
    """The entries, with these paths as they are now."""
    found = dict(entries)
    for path in paths:
        found.pop(path, None)
        if path in now:
            found[path] = now[path]
    return found
