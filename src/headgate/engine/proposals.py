"""A proposal after it was made: it is written whole or not at all, or discarded."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headgate.core import (
    ApplyFinished,
    ApplyRefused,
    ApplyStarted,
    Decision,
    Event,
    ImpossibleTransition,
    Proposed,
    State,
    Task,
    TaskEnded,
    TaskState,
    fold,
    report_events,
    show_path,
)
from headgate.engine.tree import TaskTree
from headgate.errors import ConfigError, ToolError
from headgate.guard import DEFAULT_SECRETS, redactor
from headgate.log import Draft, Folder, Store
from headgate.process import uninterrupted
from headgate.run import Job, hashes_of
from headgate.tree import (
    DiskWorkspace,
    FileChange,
    ProposalConflicts,
    ProposedChange,
    Workspace,
    decode_changes,
    encode_changes,
)

REFUSED = Decision("propose", "conflict")


async def settle_proposal(store: Store, task_id: str, state: TaskState, drafts: list[Draft]) -> Task:
    """Moves a task that is PROPOSED to another state, with the events that go with it.

    ConfigError if it is not, or no longer, a proposal.
    """
    row = store.task(task_id)
    if row is None or row.state != "PROPOSED":
        raise ConfigError(f"Task {task_id} is not a proposal: it is {row.state if row else 'gone'}.")
    try:
        await store.append(row.task.id, drafts, state, keep_bodies=False)
    except ImpossibleTransition:
        raise ConfigError(f"Task {task_id} was just applied or aborted elsewhere.") from None
    return row.task


def redact_unread(repo: Path, state: State) -> Callable[[str], str]:
    """Replaces the values of the repository's secret files, where nobody carries the task out."""
    return redactor(repo, (*DEFAULT_SECRETS, *state.config.get("secret_files", ())))


async def discard_proposal(store: Store, folder: Folder, task_id: str, at: float) -> Task:
    """Ends a proposal as cancelled. ConfigError if it is none."""
    row = store.task(task_id)
    state = fold(store.events(task_id))
    redact = redact_unread(folder.repo, state)
    unread = tuple(redact(line.text) for line in store.lines(row.task.id)) if row else ()
    ended = TaskEnded(
        state="CANCELLED", verified=False, reason="aborted", summary="", files_changed=(), unread=unread
    )
    drafts = [Draft("", 0, at, body) for body in (*report_events(state, ended, at), ended)]
    task = await settle_proposal(store, task_id, "CANCELLED", drafts)
    folder.forget_outputs(task.id)
    return task


async def apply_proposal(
    job: Job, tree: TaskTree, past: Iterable[Event], contents: Mapping[int, str]
) -> Decision | None:
    """Writes the task's proposal; None when it is in the tree, otherwise how the attempt ended.

    What is to be written is in the log, with hashes, before the first file is touched: a crash in between is
    made good by writing the rest.
    """
    workspace = job.place.context.workspace
    if job.state[Proposed].step == "applying":
        changes = begun_changes(past, contents)
        todo = [_rest_of(change) if _has_content(tree, change) else change for change in changes]
    else:
        trees = job.state[Proposed].trees
        assert trees is not None
        fitted = await asyncio.to_thread(tree.fit, workspace, *trees)
        if isinstance(fitted, ProposalConflicts):
            return await _refuse(job, fitted.problems)
        changes = tuple(_with_mode(tree, change) for change in fitted.changes)
        todo = list(changes)
        baseline = await tree.begin()
        event = ApplyStarted(baseline=baseline, changes=tuple(map(hashes_of, changes)))
        job.log.record("", 0, event, encode_changes(changes))
        await job.log.commit()
    try:
        await uninterrupted(asyncio.to_thread(workspace.apply, todo))
        tree.note_writes(changes)
    except ToolError as error:
        await asyncio.to_thread(undo_changes, workspace, tree, changes)
        return await _refuse(job, (str(error),))
    job.log.record("", 0, ApplyFinished(tree=(await tree.final_changes()).tree))
    await job.log.commit()
    return None


def begun_changes(past: Iterable[Event], contents: Mapping[int, str]) -> tuple[FileChange, ...]:
    """What was to be written when the proposal was last begun to be applied."""
    started = [event for event in past if isinstance(event.body, ApplyStarted)][-1]
    return decode_changes(contents[started.seq])


def is_written(tree: TaskTree, change: FileChange) -> bool:
    """Whether a change is in the tree, with the mode that belongs to it."""
    right = change.after is None or change.mode in (None, tree.mode_of(show_path(change.path)))
    return right and _has_content(tree, change)


def undo_changes(workspace: Workspace, tree: TaskTree, changes: Iterable[FileChange]) -> None:
    """Undoes the changes that are in the tree, when the others cannot or must not be written."""
    written = [change for change in changes if _has_content(tree, change)]
    workspace.apply(
        [
            FileChange(
                change.path,
                change.after,
                change.before,
                change.before_mode
                if isinstance(change, ProposedChange) and change.before is not None
                else None,
            )
            for change in written
        ]
    )


def abandon_apply(task: Task, folder: Folder, store: Store, tree: TaskTree) -> bool:
    """Undoes a proposal of which only a part is in the tree, when the rest will not be written.

    True if nothing of it is there any more. Blocks.
    """
    changes = begun_changes(store.events(task.id), store.contents(task.id))
    if all(is_written(tree, change) for change in changes):
        return False
    try:
        undo_changes(DiskWorkspace(folder.tree), tree, changes)
    except ToolError:
        return False  # somebody has changed a file since: it stays as it is, and the report names it
    return True


def _with_mode(tree: TaskTree, change: FileChange) -> ProposedChange:
    """The change with the mode that its file has now, which taking it back has to bring back."""
    mode = None if change.before is None else tree.mode_of(show_path(change.path))
    return ProposedChange(change.path, change.before, change.after, change.mode, mode)


def _has_content(tree: TaskTree, change: FileChange) -> bool:
    return tree.hash_of(show_path(change.path)) == change.after_hash


def _rest_of(change: FileChange) -> FileChange:
    """What may be left of a change whose content is there: the mode."""
    return FileChange(change.path, change.after, change.after, change.mode)


async def _refuse(job: Job, conflicts: tuple[str, ...]) -> Decision:
    job.log.record("", 0, ApplyRefused(conflicts=tuple(map(job.place.redact, conflicts))))
    await job.log.commit()
    return REFUSED
