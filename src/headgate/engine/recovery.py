"""Restoring what a command deleted, or what a process that died left half done.

It needs neither the configuration nor a model: what counts is pinned in the task's log. What the task is
measured by (its lock, its baseline, copies of protected files) is in git's own folder.
"""

import os
import posixpath
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pydantic import ValidationError

from headgate.config import Config
from headgate.core import (
    OWN_FOLDER,
    ApplyStarted,
    Calls,
    ConfigRestored,
    FileHashes,
    Proposed,
    ProtectedCommits,
    State,
    StoreRestored,
    Task,
    Workplace,
    build_report,
)
from headgate.engine.assembly import protected_tests, protection_for
from headgate.errors import HeadgateError, StoreError
from headgate.guard import (
    CommitFound,
    ConfigFiles,
    Protected,
    ProtectedFiles,
    RecordStore,
    ResolvedBoundaries,
    Restored,
    protect_git,
)
from headgate.log import REPORTED, Folder, Store, load_state
from headgate.process import FileLock, kill_leftovers
from headgate.regular_files import open_up_folders
from headgate.tree import internal_name, remove_copies, settle_writes

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


class TaskProtection:
    """The protection of a task's files, which first restores Headgate's own: the inner one writes there.

    What people are to know of it is recorded in the log. What was restored after the crash of an
    earlier process is reported first, once.
    """

    def __init__(self, inner: Protected, own_files: OwnFiles, earlier: tuple[Restored, ...]) -> None:
        self._inner, self._own_files, self._earlier = inner, own_files, earlier

    def begin(self) -> tuple[Restored, ...]:
        """See Protected."""
        return self._restore(self._inner.begin)

    def check_and_restore(self) -> tuple[Restored, ...]:
        """See Protected."""
        return self._restore(self._inner.check_and_restore)

    def adopt(self) -> None:
        """See Protected."""
        self._inner.adopt()

    def paths(self, *, deciding: bool = False) -> tuple[Path, ...]:
        """See Protected."""
        return self._inner.paths(deciding=deciding)

    def forget(self) -> None:
        """See Protected."""
        self._inner.forget()

    def _restore(self, inner: Callable[[], tuple[Restored, ...]]) -> tuple[Restored, ...]:
        earlier, self._earlier = self._earlier, ()
        own, restored = self._own_files.restore(), inner()
        for event in restored_events(restored):
            self._own_files.record(event)
        return (*earlier, *own, *restored)


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
        begun = [call.changes for call in self.state[Calls].open.values()]
        if self.state[Proposed].step == "applying":
            past = self.store.events(self.task.id)
            begun.append([event.body.changes for event in past if isinstance(event.body, ApplyStarted)][-1])
        return begun


def release_protected(protection: Protected, kept: Path) -> tuple[Restored, ...]:
    """Restores protected files at a task's end, and deletes their copies in `kept` if that worked."""
    restored = protection.check_and_restore()
    if not any(one.problem for one in restored):
        protection.forget()
        for path in (kept, kept.parent):
            with suppress(OSError):  # not empty: what was moved aside stays, and so does another task's
                path.rmdir()
    return restored


def logged_protection(folder: Folder, task: Task, state: State) -> Protected:
    """The protection that the task had, from its log."""
    try:
        config = Config.model_validate(state.config)
    except ValidationError as error:
        raise StoreError(f"The configuration that task {task.id} started with cannot be read.") from error
    if config.package is not None:  # an earlier version recorded it as agent.yaml has it
        config = config.with_package(posixpath.normpath(config.package))
    tests = protected_tests(folder, config, task, lambda: state.baseline)
    bounds = ResolvedBoundaries(state[Workplace].boundaries)
    return protection_for(folder, task, bounds, config.package, tests)


# Copies of protected files whose task has no log: a command deleted `.headgate`, and Headgate was killed.
# Without the log nobody knows what was protected, but the copies in git's own folder say what was there when
# the command began. That is restored before task ids start over, because another task would take the copies
# for its own.

_MOST_NAMED = 10


def restore_orphaned_copies(folder: Folder, *, new_store: bool = False) -> tuple[str, ...]:
    """Restores protected files from copies that no store knows; returns notes for people. Blocks.

    A store that was just started, because the old one was damaged, knows of no copies either.
    """
    copies = folder.safe / "protected"
    if (folder.database.exists() and not new_store) or not copies.is_dir():
        return ()
    lock = folder.work_lock()
    if not lock.try_acquire():
        folder.check_deleted()
        return ()  # another process has just restored it
    try:
        return _restore(folder, copies)
    finally:
        lock.release()


def _restore(folder: Folder, copies: Path) -> tuple[str, ...]:
    kill_leftovers(folder.repo)
    restored: list[Restored] = []
    trouble = ""
    running = any(
        RecordStore(path.parent).load()[1] for path in copies.rglob("records.jsonl") if path.is_file()
    )
    for part in sorted(copies.glob("*/*/")):
        try:
            protected = _copied_protection(folder.repo, part)
            found = protected.check_and_restore()
            restored += found
            if not any(one.problem for one in found):
                protected.forget()
        except (HeadgateError, OSError) as error:
            trouble = str(error).rstrip(".")
    for head in copies.glob("*/head.json"):  # which commits are protected is not known any more
        head.unlink()
    place = _move_aside(copies)
    return (_note(restored, trouble, place),) if running or trouble else ()


def _copied_protection(repo: Path, part: Path) -> Protected:
    """What one folder of copies protects: git's files as always, of the others what is recorded."""
    if part.name == "git":
        return protect_git(repo, part)
    records, _ = RecordStore(part).load()
    if not all(map(_is_plain, records)):
        raise StoreError(f"{part / 'records.jsonl'} names files outside the repository.")
    folders = {above for path in records for above in _above(path)}
    return ProtectedFiles(repo, records.__contains__, enters=folders.__contains__, folder=part)


def _is_plain(path: str) -> bool:
    parts = path.split("/")
    return not {"", ".", ".."}.intersection(parts) and internal_name(parts[0]) is None


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _move_aside(copies: Path) -> Path | None:
    """Renames the folder of copies if files are left in it; returns the new place, or None."""
    if not any(path.is_symlink() or not path.is_dir() for path in copies.rglob("*")):
        shutil.rmtree(copies)
        return None
    places = (copies.with_name(f"{copies.name}-lost-{number}") for number in count(1))
    return copies.rename(next(place for place in places if not os.path.lexists(place)))


def _note(restored: list[Restored], trouble: str, place: Path | None) -> str:
    done = [one.path for one in restored if not one.problem]
    failed = [f"{one.path} ({one.problem})" for one in restored if one.problem]
    said = [f"Restored: {_list(done)}."] if done else []
    if failed:
        said.append(f"Could not be restored: {_list(failed)}.")
    if trouble:
        said.append(f"Protected files could not be checked ({trouble}).")
    if failed or trouble:
        said.append(f"For these files, their original content is kept in {place}.")
    elif place:
        said.append(f"The versions that were replaced are in {place}.")
    killed = "A task was killed while a command ran, and its log is lost."
    return " ".join([killed, *said])


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
