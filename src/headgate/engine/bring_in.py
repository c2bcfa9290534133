"""Writing a diff into the user's own tree: a proposal is applied, a worktree is merged, a task is undone.

All of it is written or nothing; see `fit` for files that somebody else has changed as well. What is about to
be written is in the log, with hashes, before the first file is touched. If the process dies in between, the
next one that works in the repository writes the rest, or takes back what was written.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

from headgate.core import (
    FINAL_STATES,
    Rewrite,
    RewriteFinished,
    RewriteRefused,
    Rewrites,
    RewriteStarted,
    TaskState,
    Workplace,
    show_path,
)
from headgate.errors import ConfigError, StoreError, ToolError, describe_system
from headgate.first_use import dataclass
from headgate.log import Draft, Folder, Store, TaskRow, load_state
from headgate.process import uninterrupted
from headgate.tree import (
    LARGE,
    ConfinedTree,
    DiskWorkspace,
    FileChange,
    Misfit,
    ProposedChange,
    Workspace,
    decode_changes,
    encode_changes,
    hash_at,
    open_parent,
    settle_writes,
)

Clock = Callable[[], float]
Record = Callable[[Rewrite, str | None], Awaitable[None]]
"""Puts an event into the log, durably, with its content."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Why nothing was changed: a line for each file that does not fit the tree as it is."""

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
            lines.append(f"A later task changed the same files: undo {names} first.")
        return lines


_WAITS = (0.05,) * 40
"""Seconds between looks at a lock that somebody holds without a task that runs."""


@asynccontextmanager
async def working_alone(folder: Folder, store: Store, task_id: str, now: Clock) -> AsyncIterator[TaskRow]:
    """Holds the repository's lock; yields the task's row. ConfigError if a task runs, or there is no such."""
    lock, waits = folder.work_lock(), iter(_WAITS)
    while not lock.try_acquire():
        running = store.running()
        if not running and (wait := next(waits, None)):  # a task has just ended: its process is done at once
            await asyncio.sleep(wait)
            continue
        who = f"Task {running.task.id} is running" if running else "Another process works in this repository"
        raise ConfigError(f"{who}: try {task_id} again when that has ended.")
    try:
        await settle_rewrite(folder, store, now)
        if running := store.running():
            name = running.task.id
            raise ConfigError(
                f"Task {name} was interrupted: headgate run --resume {name} continues it, headgate cancel"
                f" {name} ends it. Try {task_id} again after that."
            )
        row = store.task(task_id)
        if row is None:
            raise ConfigError(f"Task {task_id} is gone.")
        yield row
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes to write to the user's own tree, and the event that announces them in the log."""

    changes: tuple[ProposedChange, ...]
    started: RewriteStarted


async def write_plan(
    folder: Folder, store: Store, row: TaskRow, now: Clock, plan: Plan | Misfit
) -> Overlap | None:
    """Writes what is to be written for an ended task; returns why not, if not. Only while working alone."""
    name = row.task.id
    if isinstance(plan, Misfit):
        return Overlap(name, plan.problems, _later_tasks(store, row, plan.problems))
    record = store_record(store, name, now)
    reason = await bring_in(own_workspace(folder), plan.started, plan.changes, record)
    return Overlap(name, (reason,)) if reason else None


def own_workspace(folder: Folder) -> DiskWorkspace:
    """The user's own tree, for what the user asks for: nothing is out of bounds but git's and our files."""
    return DiskWorkspace(folder.repo, max_bytes=LARGE)


async def bring_in(
    workspace: Workspace, started: RewriteStarted, changes: Sequence[FileChange], record: Record
) -> str:
    """Writes the changes, all or none, with what the log has to know; returns why not, if not.

    What has begun is ended: a cancellation takes effect only then.
    """

    async def work() -> str:
        await record(started, encode_changes(changes))
        reason = await asyncio.to_thread(_write, workspace, changes, started.folders)
        await record(_end_of(started, reason), None)
        return reason

    return await uninterrupted(work())


def store_record(store: Store, task_id: str, now: Clock) -> Record:
    """Records for a task that nobody carries out."""

    async def record(body: Rewrite, content: str | None) -> None:
        await store.append(task_id, [Draft("", 0, now(), body, content)])

    return record


async def settle_rewrite(folder: Folder, store: Store, now: Clock) -> None:
    """Finishes what a process that died had begun, or takes it back. Only for the holder of the lock."""
    task = store.open_rewrite()
    if not task:
        return
    begun = [event for event in store.events(task) if isinstance(event.body, RewriteStarted)][-1]
    assert isinstance(begun.body, RewriteStarted)
    kept = store.contents(task, begun.seq, begun.seq).get(begun.seq)
    reason = await uninterrupted(asyncio.to_thread(_settle, folder, begun.body, kept))
    # A proposal that was not written is one again; one that was written goes on with its verification.
    state: TaskState | None = "PROPOSED" if reason and begun.body.purpose == "apply" else None
    await store.append(task, [Draft("", 0, now(), _end_of(begun.body, reason))], state)


def _end_of(started: RewriteStarted, reason: str) -> Rewrite:
    if not reason:
        return RewriteFinished(purpose=started.purpose, tree=started.after if started.baseline else "")
    if started.purpose == "apply":
        return RewriteRefused(purpose="apply", conflicts=(reason,))
    return RewriteRefused(purpose=started.purpose, reason=reason)


def _write(workspace: Workspace, changes: Sequence[FileChange], folders: Iterable[str]) -> str:
    """Writes all of it, and removes folders that are left empty; returns why nothing was written."""
    try:
        workspace.apply(changes)
    except ToolError as error:
        return str(error)
    except OSError as error:
        return describe_system(error)
    tree = ConfinedTree(workspace.root)
    for path in sorted(folders, key=len, reverse=True):
        with suppress(OSError), open_parent(tree, path) as (directory, name):
            os.rmdir(name, dir_fd=directory)  # not empty: something of somebody else's is in it
    return ""


def _settle(folder: Folder, begun: RewriteStarted, kept: str | None) -> str:
    """Writes what is left; returns why it was taken back instead, if it was."""
    settle_writes(folder.repo, [begun.changes])
    try:
        if kept is None:
            raise StoreError("What was to be written is lost.")
        changes = decode_changes(kept)
    except StoreError as error:
        return str(error)
    workspace, tree = own_workspace(folder), ConfinedTree(folder.repo)
    done = [change for change in changes if hash_at(tree, show_path(change.path)) == change.after_hash]
    todo = [change for change in changes if change not in done]
    # Where a file is gone, there may be a folder by now: the change made that, too.
    there = [change for change in done if change.after is not None]
    modes = [FileChange(change.path, change.after, change.after, change.mode) for change in there]
    if reason := _write(workspace, [*todo, *modes], begun.folders):
        with suppress(ToolError):  # somebody changed those files as well: they stay as they are
            workspace.apply(list(map(taken_back, done)))
    return reason


def taken_back(change: FileChange) -> FileChange:
    """The change that undoes another: content and mode as they were before it."""
    mode = change.before_mode if isinstance(change, ProposedChange) and change.before is not None else None
    return FileChange(change.path, change.after, change.before, mode)


def _later_tasks(store: Store, row: TaskRow, problems: Iterable[str]) -> tuple[str, ...]:
    """The later tasks that changed a file of which a problem tells, the latest first."""
    lines, found = list(problems), []
    for other in store.latest_tasks(FINAL_STATES):
        if other.created <= row.created or other.task.id == row.task.id or other.undone:
            continue
        state = load_state(store, other)
        is_here = state[Rewrites].merged or not state[Workplace].base
        if is_here and any(line.startswith(f"{path}: ") for path in state.files_changed for line in lines):
            found.append(other.task.id)
    return tuple(found)
