"""Taking back what an ended task changed: exactly that, in the tree as it is now, all of it or nothing.

What is about to be written is in the log, with hashes, before the first file is touched. If the process dies
in between, the next one that works in the repository writes the rest, or takes back what was written.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from headgate.core import (
    FINAL_STATES,
    State,
    UndoFinished,
    UndoRefused,
    UndoStarted,
    show_path,
)
from headgate.engine.outcome import undo_changes
from headgate.engine.tree import TaskTree, hides_secrets
from headgate.errors import ConfigError, StoreError, ToolError
from headgate.process import uninterrupted
from headgate.run import hashes_of
from headgate.store import Draft, Folder, Store, TaskRow, load_state
from headgate.workspace import (
    LARGE,
    ConfinedTree,
    Difference,
    DiskWorkspace,
    FileChange,
    OverlayWorkspace,
    ProposalConflicts,
    ProposedChange,
    Snapshots,
    adapt_proposal,
    ancestors,
    decode_changes,
    encode_changes,
    open_parent,
    settle_writes,
    strict_patch,
)


@dataclass(frozen=True, slots=True)
class Undone:
    """What was taken back, by shown paths."""

    task: str
    files: tuple[str, ...]
    kept: tuple[str, ...]
    """Files that changed during the task and stay: the task did not write them."""
    left: tuple[str, ...]
    """What the task changed and a patch cannot take back."""


@dataclass(frozen=True, slots=True)
class UndoConflicts:
    """Why nothing was taken back: a line for each file or hunk that has changed since."""

    task: str
    problems: tuple[str, ...]
    later: tuple[str, ...] = ()
    """Later tasks that changed the same files, the latest first: they have to be undone before."""

    def sentences(self) -> list[str]:
        """What people are told."""
        first = f"Nothing was changed: the changes of task {self.task} no longer fit the working tree."
        lines = [first, *(f"  {problem}" for problem in self.problems)]
        if self.later:
            names = ", then ".join(self.later)
            lines.append(f"A later task changed the same lines or files: undo {names} first.")
        return lines


@dataclass(frozen=True, slots=True)
class _Plan:
    changes: tuple[FileChange, ...]
    started: UndoStarted


def find_undoable(store: Store) -> TaskRow | None:
    """The latest ended task that changed something and is not undone."""
    for row in store.latest_tasks(FINAL_STATES):
        if not row.undone and load_state(store, row).files_changed:
            return row
    return None


async def undo_when_free(
    folder: Folder, store: Store, task_id: str, now: Callable[[], float]
) -> Undone | UndoConflicts:
    """Takes a task's changes back, unless somebody works in the repository: then it is a ConfigError."""
    lock = folder.work_lock()
    if not lock.try_acquire():
        running = store.running()
        who = f"Task {running.task.id} is running" if running else "Another process works in this repository"
        raise ConfigError(f"{who}: undo {task_id} when that has ended.")
    try:
        await settle_undo(folder, store, now)
        if running := store.running():
            name = running.task.id
            raise ConfigError(
                f"Task {name} was interrupted: headgate run --resume {name} continues it, headgate cancel"
                f" {name} ends it. Undo {task_id} after that."
            )
        row = store.task(task_id)
        if row is None:
            raise ConfigError(f"Task {task_id} is gone.")
        return await undo_task(folder, store, row, now)
    finally:
        lock.release()


def check_undoable(row: TaskRow, state: State) -> None:
    """ConfigError if there is nothing of a task that could be taken back."""
    name = row.task.id
    if row.state == "PROPOSED":
        raise ConfigError(f"Task {name} is a proposal, and nothing of it is in the working tree:"
                          f" headgate abort {name} discards it.")  # fmt: skip
    if row.state not in FINAL_STATES:
        raise ConfigError(f"Task {name} is {row.state}: it can be undone when it has ended.")
    if row.undone:
        raise ConfigError(
            f"Task {name} is undone already: headgate diff {name} | git apply brings its changes back."
        )
    if not state.files_changed:
        raise ConfigError(f"Task {name} changed no file: there is nothing to undo.")
    if not state.end_tree or not state.edits.is_told:
        raise ConfigError(
            f"It is not recorded which changes are those of task {name} alone: look at them with"
            f" headgate diff {name}, and take them back with headgate diff {name} | git apply -R."
        )


async def undo_task(
    folder: Folder, store: Store, row: TaskRow, now: Callable[[], float]
) -> Undone | UndoConflicts:
    """Takes a task's changes back. Only for who holds the repository's lock, while no task runs."""
    state = load_state(store, row)
    check_undoable(row, state)
    plan = await asyncio.to_thread(_plan, folder, row.task.id, state)
    if isinstance(plan, UndoConflicts):
        return UndoConflicts(plan.task, plan.problems, _later_tasks(store, row, plan.problems))
    started = Draft("", 0, now(), plan.started, encode_changes(plan.changes))
    await store.append(row.task.id, [started])
    try:
        await uninterrupted(asyncio.to_thread(_write, folder, plan.changes, plan.started.folders))
    except ToolError as error:
        await store.append(row.task.id, [Draft("", 0, now(), UndoRefused(reason=str(error)))])
        return UndoConflicts(row.task.id, (str(error),))
    await store.append(row.task.id, [Draft("", 0, now(), UndoFinished())])
    files = tuple(change.path for change in plan.started.changes)
    return Undone(row.task.id, files, plan.started.kept, plan.started.left)


async def settle_undo(folder: Folder, store: Store, now: Callable[[], float]) -> None:
    """Finishes an undo whose process died, or takes it back. Only for who holds the repository's lock."""
    task = store.open_undo()
    if not task:
        return
    begun = [event for event in store.events(task) if isinstance(event.body, UndoStarted)][-1]
    assert isinstance(begun.body, UndoStarted)
    kept = store.contents(task, begun.seq, begun.seq).get(begun.seq)
    reason = await uninterrupted(asyncio.to_thread(_settle, folder, begun.body, kept))
    body = UndoRefused(reason=reason) if reason else UndoFinished()
    await store.append(task, [Draft("", 0, now(), body)])


def _settle(folder: Folder, begun: UndoStarted, kept: str | None) -> str:
    """Writes what is left of an undo; returns why it was taken back instead, if it was."""
    settle_writes(folder.repo, [begun.changes])
    try:
        if kept is None:
            raise StoreError("What was to be written is lost.")
        changes = decode_changes(kept)
    except StoreError as error:
        return str(error)
    tree = TaskTree(Snapshots(folder.repo), dict)
    todo = [change for change in changes if tree.hash_of(show_path(change.path)) != change.after_hash]
    done = [change for change in changes if change not in todo]
    rest = [FileChange(change.path, change.after, change.after, change.mode) for change in done]
    try:
        _write(folder, [*todo, *rest], begun.folders)
    except ToolError as error:
        with suppress(ToolError):  # somebody changed those files as well: they stay as they are
            undo_changes(_workspace(folder), tree, done)
        return str(error)
    return ""


def _workspace(folder: Folder) -> DiskWorkspace:
    return DiskWorkspace(folder.repo, max_bytes=LARGE)


def _write(folder: Folder, changes: Sequence[FileChange], folders: Iterable[str]) -> None:
    _workspace(folder).apply(changes)
    tree = ConfinedTree(folder.repo)
    for path in sorted(folders, key=len, reverse=True):
        with suppress(OSError), open_parent(tree, path) as (directory, name):
            os.rmdir(name, dir_fd=directory)  # not empty: something of somebody else's is in it


def _plan(folder: Folder, task: str, state: State) -> _Plan | UndoConflicts:
    """What to write so that the task's changes are gone: the way back, from its last change to its first."""
    overlay = OverlayWorkspace(_workspace(folder))
    hidden = hides_secrets(state.config.get("secret_files", ()))
    own: dict[str, None] = {}
    left: dict[str, None] = dict.fromkeys(state.ended.not_in_diff if state.ended else ())
    with Snapshots.apart(folder.repo, hidden) as snapshots:
        for before, after in reversed(state.edits.spans(state.baseline, state.end_tree)):
            found = list(_own_differences(snapshots, state, after, before))
            plain = [one for one in found if one.is_plain]
            own.update((show_path(one.path), None) for one in plain)
            left.update((show_path(one.path), None) for one in found if not one.is_plain)
            if lost := sorted(state.edits.uncertain & {show_path(one.path) for one in plain}):
                told = "was changed by somebody else while the task was interrupted"
                return UndoConflicts(task, tuple(f"{path}: {told}" for path in lost))
            fitted = adapt_proposal(overlay, strict_patch(snapshots, plain))
            if isinstance(fitted, ProposalConflicts):
                return UndoConflicts(task, fitted.problems)
            overlay.apply(fitted.changes)
        folders = tuple(map(show_path, _new_folders(snapshots, state, overlay.changes())))
    changes = tuple(overlay.changes())
    kept = tuple(path for path in state.files_changed if path not in own and path not in left)
    started = UndoStarted(
        changes=tuple(map(hashes_of, changes)), folders=folders, kept=kept, left=tuple(left)
    )
    return _Plan(changes, started)


def _own_differences(snapshots: Snapshots, state: State, before: str, after: str) -> Iterator[Difference]:
    """What differs between two trees, less what verification runs made: that is not the task's."""
    made = set(state.left_behind) - set(state.files_changed)
    missing = set(state.ended.not_in_diff if state.ended else ())
    for one in snapshots.differences(before, after):
        if show_path(one.path) not in made and show_path(one.path) not in missing:
            yield one


def _new_folders(snapshots: Snapshots, state: State, changes: Iterable[ProposedChange]) -> set[str]:
    """The folders of files that go, in which there was no file when the task began."""
    there = {folder for path in snapshots.entries(state.baseline) for folder in ancestors(path)}
    gone = [change.path for change in changes if change.after is None]
    return {folder for path in gone for folder in ancestors(path)} - there


def _later_tasks(store: Store, row: TaskRow, problems: Iterable[str]) -> tuple[str, ...]:
    """The later tasks that changed a file of which a problem tells, the latest first."""
    lines, found = list(problems), []
    for other in store.latest_tasks(FINAL_STATES):
        if other.created <= row.created or other.task.id == row.task.id:
            continue
        changed = () if other.undone else load_state(store, other).files_changed
        if any(line.startswith(f"{path}: ") for path in changed for line in lines):
            found.append(other.task.id)
    return tuple(found)
