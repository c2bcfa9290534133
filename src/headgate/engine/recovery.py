"""Restoring what a command deleted, or what a process that died left half done.

It needs neither the configuration nor a model: what counts is pinned in the task's log. What the task is
measured by (its lock, its baseline, what a command began with) is in git's own folder.
"""

import os
import posixpath
from collections.abc import Callable, Iterable

from pydantic import ValidationError

from headgate.config import Config
from headgate.core import (
    OWN_FOLDER,
    Calls,
    ConfigRestored,
    FileHashes,
    Proposed,
    ProtectedCommits,
    State,
    StoreRestored,
    Task,
    Workplace,
)
from headgate.engine.assembly import protected_tests, protection_for
from headgate.engine.tree import hides_secrets
from headgate.errors import StoreError
from headgate.first_use import dataclass
from headgate.guard import (
    CommitFound,
    ConfigFiles,
    Protected,
    ResolvedBoundaries,
    Restored,
)
from headgate.log import REPORTED, Folder, Store, build_report, load_state
from headgate.process import FileLock, kill_leftovers
from headgate.regular_files import open_up_folders
from headgate.tree import Snapshots, remove_copies, settle_writes

_REASON = "Headgate keeps its own files there; the logs of earlier runs and saved outputs are lost"


class LockLost(StoreError):
    """Another process may be carrying out the same task: this one must neither go on nor record anything."""


def check_lock(lock: FileLock) -> None:
    """LockLost if this process is no longer the only one that may work in the repository."""
    if not lock.is_still_held():
        raise LockLost(
            f"{lock.path} was replaced, and another process may be working in this repository:"
            " this one stopped. headgate watch shows what happens there"
        )


@dataclass(frozen=True)
class OwnFiles:
    """The lock, the store and the reports of the process that runs a task."""

    folder: Folder
    store: Store
    lock: FileLock
    record: Callable[[StoreRestored | ProtectedCommits | ConfigRestored], None]

    def restore(self) -> tuple[Restored, ...]:
        """Writes the store and the reports again if they are gone; returns what was restored. Blocks.

        It is called before and after each command, and first looks after the lock.
        """
        own = self.folder
        if not os.access(own.repo, os.X_OK):
            open_up_folders(own.repo)
        if own.tree != own.repo:
            open_up_folders(own.tree)
        open_up_folders(own.safe.parent, own.safe, own.safe / "protected", own.safe / "objects")
        open_up_folders(own.path, own.runs, own.outputs)
        check_lock(self.lock)
        if not self.store.is_lost():
            return ()
        self.folder.recreate()
        self.store.recreate()
        if not self.folder.reports.exists():
            ended = [load_state(self.store, row) for row in self.store.tasks() if row.state in REPORTED]
            for state in sorted(ended, key=lambda state: state.last_seq):  # in the order in which they ended
                self.folder.write_report(build_report(state), state)
        restored = Restored(OWN_FOLDER, "deleted", _REASON)
        self.record(StoreRestored(sentence=restored.sentence()))
        return (restored,)


def write_missing_report(folder: Folder, store: Store) -> None:
    """Writes the report of the last task, if its process died before it could do so."""
    end = store.last_event("task_ended")
    last = store.task(end.task) if end else None
    if last and last.state in REPORTED and not folder.has_report(last.task.id):
        state = load_state(store, last)
        folder.write_report(build_report(state), state)


def restoring_own_files(
    own_files: OwnFiles, earlier: Iterable[Restored]
) -> Callable[[Callable[[], tuple[Restored, ...]]], tuple[Restored, ...]]:
    """Looks at protected files after Headgate's own are restored, among which they are kept.

    What people are to know of it is recorded in the log. What was restored after the crash of an
    earlier process is reported first, once.
    """
    untold = list(earlier)

    def around(look: Callable[[], tuple[Restored, ...]]) -> tuple[Restored, ...]:
        before, own, restored = tuple(untold), own_files.restore(), look()
        untold.clear()
        for event in restored_events(restored):
            own_files.record(event)
        return (*before, *own, *restored)

    return around


def restored_events(restored: Iterable[Restored]) -> list[ProtectedCommits | ConfigRestored]:
    """What the report says of commits, and of configuration that a person may have changed."""
    found: list[ProtectedCommits | ConfigRestored] = []
    for one in restored:
        if isinstance(one, CommitFound):
            found.append(ProtectedCommits(sentence=one.sentence()))
        elif one.reason == ConfigFiles.reason and not one.problem:
            kept = f" What was there is kept in {one.copy}." if one.copy else ""
            said = (
                f"{one.path} was {one.change} while a command ran, and that was undone, because it configures"
                f" this task.{kept} If it was you, do it again when the task has ended."
            )
            found.append(ConfigRestored(sentence=said))
    return found


@dataclass(frozen=True, slots=True)
class InterruptedTask:
    """A task whose process may have died, and what that process left behind."""

    task: Task
    folder: Folder
    store: Store
    state: State

    def clean_up(self) -> tuple[Restored, ...]:
        """Ends commands, completes or undoes writes and restores protected files; returns those. Blocks.

        A proposal of which a part is written is left alone: its rest is written later.
        """
        kill_leftovers(self.folder.repo)
        remove_copies(self.folder.tree)
        unwritten = self.state[Proposed].trees is None or self.state[Proposed].step == "proposed"
        if not (self.task.dry_run and unwritten):
            settle_writes(self.folder.tree, self._begun_writes())
        if not self.folder.protected(self.task.id).is_dir():
            return ()
        return logged_protection(self.folder, self.task, self.state).check_and_restore()

    def _begun_writes(self) -> list[tuple[FileHashes, ...]]:
        """What may have been half written when the process died."""
        return [call.changes for call in self.state[Calls].open.values()]


def release_protected(protection: Protected) -> tuple[Restored, ...]:
    """Restores protected files at a task's end, and forgets what they were if that worked."""
    restored = protection.check_and_restore()
    if not any(one.problem for one in restored):
        protection.forget()
    return restored


def logged_protection(folder: Folder, task: Task, state: State) -> Protected:
    """The protection that the task had, from its log."""
    snapshots = Snapshots(folder.tree, hides_secrets(state), folder.objects)
    snapshots.go_on_from(state.baseline)
    try:
        config = Config.model_validate(state.config)
    except ValidationError as error:
        raise StoreError(f"The configuration that task {task.id} started with cannot be read.") from error
    if config.package is not None:  # an earlier version recorded it as agent.yaml has it
        config = config.with_package(posixpath.normpath(config.package))
    tests = protected_tests(snapshots, config, task, lambda: state.baseline)
    bounds = ResolvedBoundaries(state[Workplace].boundaries)
    return protection_for(folder, task, snapshots, bounds, config.package, tests)
