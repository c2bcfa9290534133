"""Bringing what a task changed in its own worktree into the user's tree, and removing the worktree."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from pydantic import ValidationError

from headgate.checks import StepRun
from headgate.config import Config
from headgate.core import (
    FINAL_STATES,
    MergeVerified,
    Rewrites,
    RewriteStarted,
    State,
    VerifyRuns,
    VerifyStep,
    Workplace,
    WorktreeRemoved,
    clean_text,
    show_path,
)
from headgate.engine.bring_in import Clock, Overlap, Plan, own_workspace, working_alone, write_plan
from headgate.engine.proposals import redact_unread
from headgate.engine.steps import StepsOutcome, run_steps
from headgate.engine.tree import hides_secrets
from headgate.engine.worktree import BRANCHES, has_commits, remove_worktree
from headgate.errors import ConfigError, HeadgateError
from headgate.first_use import dataclass
from headgate.log import Draft, Folder, Store, TaskRow, build_report, load_state, say_discarded
from headgate.run import hashes_of
from headgate.tree import Misfit, Snapshots, fit, record_proposal


@dataclass(frozen=True, slots=True)
class Merged:
    """What was written to the user's own tree, by shown paths."""

    task: str
    files: tuple[str, ...]
    left: tuple[str, ...]
    """What the task changed and a diff cannot hold."""
    worktree: str = ""
    """Why the worktree is still there; empty if it was removed."""
    verification: StepsOutcome | None = None
    """What the steps found in the user's own tree; None if there are none, or before they have ended."""


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """Who hears what happens while a task's changes are applied."""

    merged: Callable[[Merged], None] = lambda merged: None
    """Everything is written, and the steps begin."""
    begin: Callable[[VerifyStep], None] = lambda step: None
    end: Callable[[StepRun], None] = lambda ran: None


UNHEARD = MergeProgress()


def is_mergeable(row: TaskRow) -> bool:
    """Whether `apply` brings in what the task did in a worktree, and does not write a proposal."""
    return row.task.worktree and row.state in FINAL_STATES


async def merge_task(
    folder: Folder, store: Store, task_id: str, now: Clock, progress: MergeProgress
) -> Merged | Overlap:
    """Writes what a task changed in its worktree to the user's tree: all of it or nothing; then verifies it.

    The repository stays locked until the steps have ended, so that no task begins under them.
    """
    async with working_alone(folder, store, task_id, now) as row:
        state = load_state(store, row)
        _check(row, state)
        plan = await asyncio.to_thread(_plan, folder, state)
        if overlap := await write_plan(folder, store, row, now, plan):
            return overlap
        assert isinstance(plan, Plan)
        links = await asyncio.to_thread(_links, folder, state)
        kept = await asyncio.to_thread(_reason_to_keep, folder, row, state)
        if links and not kept:
            kept = f"it has links, which are not applied: {', '.join(links[:5])}"
        if not kept:
            await _remove(folder, store, row.task.id, now)
        left = dict.fromkeys((*(state.ended.not_in_diff if state.ended else ()), *links))
        merged = Merged(row.task.id, tuple(change.path for change in plan.started.changes), tuple(left), kept)
        progress.merged(merged)
        found = await _verify(folder, state, progress)
        redact = redact_unread(folder.repo, state)
        await store.append(row.task.id, [Draft("", 0, now(), _record(found, redact))])
        return replace(merged, verification=found)


async def _verify(folder: Folder, state: State, progress: MergeProgress) -> StepsOutcome | None:
    """Runs the steps that the task was started with in the user's own tree."""
    try:
        config = Config.model_validate(state.config)
    except ValidationError:  # another version recorded it
        broken = "the configuration that the task was started with cannot be read: run headgate verify"
        return StepsOutcome("", "", 0, broken=broken)
    if not config.verification.steps:
        return None
    try:
        return await run_steps(folder, config, progress.begin, progress.end)
    except HeadgateError as error:  # no sandbox, or no such package any more: the changes are written
        return StepsOutcome("", "", len(config.verification.steps), broken=str(error).rstrip("."))


def _record(found: StepsOutcome | None, redact: Callable[[str], str]) -> MergeVerified:
    if found is None:
        return MergeVerified(passed=None)
    reason = redact(clean_text(found.reason))
    return MergeVerified(run_id=found.run_id, passed=found.passed, reason=reason, steps=found.results)


async def discard_worktree(folder: Folder, store: Store, task_id: str, now: Clock) -> None:
    """Removes the worktree of an ended task, and its branch. ConfigError if it has none."""
    async with working_alone(folder, store, task_id, now) as row:
        state = load_state(store, row)
        if not state[Workplace].has_worktree:
            raise ConfigError(f"Task {row.task.id} has no worktree any more: there is nothing to discard.")
        await _remove(folder, store, row.task.id, now)


async def _remove(folder: Folder, store: Store, task_id: str, now: Clock) -> None:
    await asyncio.to_thread(remove_worktree, folder, task_id)
    await store.append(task_id, [Draft("", 0, now(), WorktreeRemoved())])


def _check(row: TaskRow, state: State) -> None:
    name = row.task.id
    if row.undone:
        raise ConfigError(f"Task {name} is undone: headgate diff {name} | git apply restores its changes.")
    if state[Rewrites].merged:
        raise ConfigError(f"Task {name} is applied already: its changes are in your own tree.")
    if not state.files_changed:
        raise ConfigError(f"Task {name} changed no file: there is nothing to apply.")
    if build_report(state).discarded:
        raise ConfigError(say_discarded(name))
    if not state.end_tree:
        raise ConfigError(f"Task {name} left no diff: copy what you need from its worktree.")


def _plan(folder: Folder, state: State) -> Plan | Misfit:
    """The task's diff, fitted to the user's tree as it is now. What is no file is not in it: see `_links`."""
    snapshots = Snapshots(folder.repo, hides_secrets(state))
    snapshots.go_on_from(state.baseline)
    plain = [one for one in snapshots.differences(state.baseline, state.end_tree) if one.is_plain]
    changes = fit(own_workspace(folder), snapshots, plain)
    if isinstance(changes, Misfit):
        return changes
    before, after = record_proposal(snapshots, state.baseline, changes)
    hashes = tuple(map(hashes_of, changes))
    return Plan(changes, RewriteStarted(purpose="merge", before=before, after=after, changes=hashes))


def _links(folder: Folder, state: State) -> tuple[str, ...]:
    """What the task made or changed that is no file. A link may lead out of the tree, so none is applied."""
    with Snapshots.apart(folder.repo) as snapshots:
        found = snapshots.differences(state.baseline, state.end_tree)
    return tuple(show_path(one.path) for one in found if not one.is_plain)


def _reason_to_keep(folder: Folder, row: TaskRow, state: State) -> str:
    """Why a worktree whose changes were applied must not be removed; empty if it may be."""
    name = row.task.id
    own = folder.at(name)
    if not own.tree.is_dir():
        return ""
    if has_commits(folder, name, state[Workplace].base):
        return f"branch {BRANCHES}{name} has commits"
    try:
        with Snapshots.apart(own.tree, hides_secrets(state), kept=folder.objects) as snapshots:
            snapshots.go_on_from(state.baseline)
            found = set(map(show_path, snapshots.changed_files(state.end_tree, snapshots.take())))
    except (HeadgateError, OSError) as error:
        return str(error)
    missing = sorted(found - set(state[VerifyRuns].left_behind))
    return f"it has changes that were not applied: {', '.join(missing[:5])}" if missing else ""
