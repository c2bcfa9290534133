"""Cleaning up after a task whose process died, before anything else is done for the task.

It needs neither the configuration nor a model: what counts is pinned in the task's log.
"""

import posixpath
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from headgate.config import Config
from headgate.core import ApplyStarted, FileHashes, State, Task
from headgate.engine.assembly import protected_tests, protection_for
from headgate.engine.proposals import begun_changes, is_written, undo_changes
from headgate.engine.tree import TaskTree
from headgate.errors import StoreError, ToolError
from headgate.process import kill_leftovers
from headgate.protect import Protected, ResolvedBoundaries, Restored
from headgate.store import Folder, Store
from headgate.workspace import DiskWorkspace, remove_copies, settle_writes


@dataclass(frozen=True, slots=True)
class InterruptedTask:
    """A task whose process may have died, and what that process left behind."""

    task: Task
    folder: Folder
    store: Store
    state: State

    def clean_up(self) -> tuple[Restored, ...]:
        """Ends commands, completes or undoes writes and restores protected files; returns those. Blocks.

        A proposal of which a part is written is left alone: its rest is written later. See `abandon_apply`.
        """
        kill_leftovers(self.folder.repo)
        remove_copies(self.folder.repo)
        unwritten = self.state.proposal.trees is None or self.state.proposal.step == "proposed"
        if not (self.task.dry_run and unwritten):
            settle_writes(self.folder.repo, self._begun_writes())
        return restore_protected(self.folder, self.task, self.state)

    def abandon_apply(self, tree: TaskTree) -> bool:
        """Undoes a proposal of which only a part is in the tree, when the rest will not be written.

        True if nothing of it is there any more. Blocks.
        """
        past = self.store.events(self.task.id)
        changes = begun_changes(past, self.store.contents(self.task.id))
        if all(is_written(tree, change) for change in changes):
            return False
        try:
            undo_changes(DiskWorkspace(self.folder.repo), tree, changes)
        except ToolError:
            return False  # somebody has changed a file since: it stays as it is, and the report names it
        return True

    def _begun_writes(self) -> list[tuple[FileHashes, ...]]:
        """What may have been half written when the process died."""
        begun = [call.changes for call in self.state.open_calls.values()]
        if self.state.proposal.step == "applying":
            past = self.store.events(self.task.id)
            begun.append([event.body.changes for event in past if isinstance(event.body, ApplyStarted)][-1])
        return begun


def restore_protected(folder: Folder, task: Task, state: State) -> tuple[Restored, ...]:
    """Undoes what a command did to protected files, if the process that ran it died before it could."""
    if not folder.protected(task.id).is_dir():
        return ()
    return _protection(folder, task, state).check_and_restore()


def release_protected(folder: Folder, task: Task, state: State) -> tuple[Restored, ...]:
    """Restores protected files at a task's end, and deletes their copies if that worked."""
    kept = folder.protected(task.id)
    if not kept.is_dir():
        return ()
    protection = _protection(folder, task, state)
    restored = protection.check_and_restore()
    if not any(one.problem for one in restored):
        protection.forget()
        for path in (kept, kept.parent):
            with suppress(OSError):  # not empty: what was moved aside stays, and so does another task's
                path.rmdir()
    return restored


class ProtectionAfterCrash:
    """A protection that first reports, once, what was restored after the crash of an earlier process."""

    def __init__(self, inner: Protected, earlier: Sequence[Restored]) -> None:
        self._inner = inner
        self._earlier = tuple(earlier)

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        return (*self._take(), *self._inner.begin())

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        return (*self._take(), *self._inner.check_and_restore())

    def paths(self) -> tuple[Path, ...]:
        """See Protected."""
        return self._inner.paths()

    def forget(self) -> None:
        """See Protected."""
        self._inner.forget()

    def _take(self) -> tuple[Restored, ...]:
        earlier, self._earlier = self._earlier, ()
        return earlier


def _protection(folder: Folder, task: Task, state: State) -> Protected:
    """The protection that the task had, from its log."""
    try:
        config = Config.model_validate(state.config)
    except ValidationError as error:
        raise StoreError(f"The configuration that task {task.id} started with cannot be read.") from error
    if config.package is not None:  # an earlier version recorded it as agent.yaml has it
        config = config.with_package(posixpath.normpath(config.package))
    tests = protected_tests(folder.repo, config, task, lambda: state.baseline)
    return protection_for(folder, task, ResolvedBoundaries(state.boundaries), config.package, tests)
