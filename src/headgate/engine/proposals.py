"""What a dry run has written, and its proposal: that is written whole or not at all, or discarded."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headgate.core import (
    Decision,
    Event,
    ImpossibleTransition,
    Proposed,
    Rewrite,
    RewriteFinished,
    RewriteRefused,
    RewriteStarted,
    State,
    Task,
    TaskEnded,
    TaskState,
    ToolFinished,
    ToolStarted,
    fold,
)
from headgate.engine.bring_in import bring_in
from headgate.engine.tree import TaskTree
from headgate.errors import ConfigError
from headgate.guard import DEFAULT_SECRETS, Redactor
from headgate.log import Draft, Folder, Store, report_events
from headgate.run import Job, hashes_of
from headgate.tree import Misfit, OverlayWorkspace, decode_changes

REFUSED = Decision("propose", "conflict")


def restore_overlay(overlay: OverlayWorkspace, events: Iterable[Event], contents: Mapping[int, str]) -> None:
    """Gives a dry run what it had written: every change that was made, or was about to be made."""
    begun: dict[tuple[str, str], str] = {}
    for event in events:
        match event.body:
            case ToolStarted(changes=changes) as body if changes and event.seq in contents:
                begun[event.path, body.call] = contents[event.seq]
            case ToolFinished() as body if kept := begun.pop((event.path, body.call), ""):
                if body.ok:
                    overlay.remember(decode_changes(kept))
            case _:
                pass
    for kept in begun.values():
        overlay.remember(decode_changes(kept))


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
    return Redactor(repo, (*DEFAULT_SECRETS, *state.config.get("secret_files", ())))


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


async def apply_proposal(job: Job, tree: TaskTree) -> Decision | None:
    """Writes the task's proposal; None when it is in the tree, otherwise how the attempt ended."""

    async def record(body: Rewrite, content: str | None) -> None:
        if isinstance(body, RewriteRefused):
            body = body.model_copy(update={"conflicts": tuple(map(job.place.redact, body.conflicts))})
        if isinstance(body, RewriteFinished):
            await tree.settle(written=changes)
        job.log.record("", 0, body, content)
        await job.log.commit()

    workspace, trees = job.place.context.workspace, job.state[Proposed].trees
    assert trees is not None
    fitted = await asyncio.to_thread(tree.fit, workspace, *trees)
    if isinstance(fitted, Misfit):
        await record(RewriteRefused(purpose="apply", conflicts=fitted.problems), None)
        return REFUSED
    changes = fitted
    baseline = await tree.begin()
    after = await asyncio.to_thread(tree.tree_with, changes)
    hashes = tuple(map(hashes_of, changes))
    started = RewriteStarted(purpose="apply", baseline=baseline, after=after, changes=hashes)
    return REFUSED if await bring_in(workspace, started, changes, record) else None
