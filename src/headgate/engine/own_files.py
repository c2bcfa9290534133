"""Headgate's own files in a repository: restored when a command has deleted them.

`git clean -fdx` does that, and so does a script that removes what git ignores. SQLite can still read a file
that is deleted while it is open, so the process that runs the task has everything that is in the store. What
the task is measured by (its lock, its baseline, copies of protected files) is in git's own folder.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from headgate.core import OWN_FOLDER, ProtectedCommits, StoreRestored, build_report
from headgate.protect import CommitsFound, Protected, Restored
from headgate.store import REPORTED, Folder, Store, load_state

_REASON = "Headgate keeps its own files there; the logs of earlier runs and saved outputs are lost"


@dataclass(frozen=True)
class OwnFiles:
    """The store and the reports of the process that runs a task."""

    folder: Folder
    store: Store
    record: Callable[[StoreRestored | ProtectedCommits], None]

    def restore(self) -> tuple[Restored, ...]:
        """Writes the store and the reports again if they are gone; returns what was restored. Blocks."""
        if not self.store.is_lost():
            return ()
        self.folder.recreate()
        self.store.recreate()
        if not self.folder.reports.exists():
            self._write_reports()
        restored = Restored(OWN_FOLDER, "deleted", _REASON)
        self.record(StoreRestored(sentence=restored.sentence()))
        return (restored,)

    def _write_reports(self) -> None:
        """Every report again, in the order in which the tasks ended."""
        ended = [load_state(self.store, row) for row in self.store.tasks() if row.state in REPORTED]
        for state in sorted(ended, key=lambda state: state.last_seq):
            self.folder.write_report(build_report(state), state)


class OwnFilesProtection:
    """A protection that first restores Headgate's own files, because the inner protection writes there.

    What the inner protection finds in commits is recorded in the log.
    """

    def __init__(self, inner: Protected, own_files: OwnFiles) -> None:
        self._inner, self._own_files = inner, own_files

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        return (*self._own_files.restore(), *self._recorded(self._inner.begin()))

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        return (*self._own_files.restore(), *self._recorded(self._inner.check_and_restore()))

    def paths(self) -> tuple[Path, ...]:
        """See Protected."""
        return self._inner.paths()

    def forget(self) -> None:
        """See Protected."""
        self._inner.forget()

    def _recorded(self, restored: tuple[Restored, ...]) -> tuple[Restored, ...]:
        for event in commit_events(restored):
            self._own_files.record(event)
        return restored


def commit_events(restored: Iterable[Restored]) -> list[ProtectedCommits]:
    """What the log, and with it the report, says about commits."""
    return [ProtectedCommits(sentence=one.sentence()) for one in restored if isinstance(one, CommitsFound)]
