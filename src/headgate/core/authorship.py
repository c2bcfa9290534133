"""Whose changes are whose: what the log says about a task's own changes, and about those of others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headgate.core import events as ev


@dataclass
class Authorship:
    """A fold: what the task wrote since the tree was last known, and what others changed meanwhile."""

    is_told: bool = False
    """False for a task that an earlier version started, and where the tree could not be looked at."""
    known: str = ""
    """The latest git tree of which it is known that the task, or others, made it so."""
    written: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    """What tools wrote since then, or were about to write when the process died, by path: the file's hash
    before, and after each write."""
    noticed: list[ev.EditsNoticed] = field(default_factory=list)
    _replaced: dict[str, dict[str, tuple[str | None, ...] | None]] = field(default_factory=dict)
    """What `written` said of the files of each call that has not ended, before the call."""

    def apply(self, body: ev.Body) -> None:
        match body:
            case ev.TaskStarted():
                self.is_told = body.tells_edits
                self._know(body.baseline)
            case ev.ApplyStarted():
                self.noticed.clear()
                self._know(body.baseline)
                self._write(body.changes)
            case ev.ToolStarted() if body.changes:
                earlier = {change.path: self.written.get(change.path) for change in body.changes}
                self._replaced.setdefault(body.call, earlier)
                self._write(body.changes)
            case ev.ToolFinished():
                replaced = self._replaced.pop(body.call, {})
                if body.tree:
                    self._know(body.tree)
                elif not body.ok:  # nothing was written
                    self.written.update({path: one for path, one in replaced.items() if one})
                    for path in [path for path, one in replaced.items() if not one]:
                        self.written.pop(path, None)
            case ev.VerifyFinished() if body.known:
                self._know(body.known)
            case ev.EditsNoticed(before=""):
                self.is_told = False
            case ev.EditsNoticed():
                self.noticed.append(body)
                self._know(body.after)
            case _:
                pass

    @property
    def uncertain(self) -> frozenset[str]:
        """Files of which nobody can tell which lines are the task's."""
        return frozenset(path for one in self.noticed for path in one.uncertain)

    def _know(self, tree: str) -> None:
        self.known = tree
        self.written.clear()

    def _write(self, changes: tuple[ev.FileHashes, ...]) -> None:
        for change in changes:
            earlier = self.written.get(change.path, (change.before,))
            self.written[change.path] = (*earlier, change.after)


def own_spans(noticed: Sequence[ev.EditsNoticed], start: str, end: str) -> list[tuple[str, str]]:
    """The pairs of trees between which only the task changed something, in order."""
    trees = [start, *(tree for one in noticed for tree in (one.before, one.after)), end]
    return [pair for number, pair in enumerate(pairwise(trees)) if number % 2 == 0]
