"""Taking back what an ended task changed: exactly that, in the tree as it is now, all of it or nothing."""

import asyncio
from collections.abc import Iterable, Iterator

from headgate.core import (
    FINAL_STATES,
    OthersEdits,
    Rewrites,
    RewriteStarted,
    State,
    VerifyRuns,
    Workplace,
    show_path,
)
from headgate.engine.authors import own_spans
from headgate.engine.bring_in import Clock, Overlap, Plan, own_workspace, working_alone, write_plan
from headgate.engine.tree import hides_secrets
from headgate.errors import ConfigError
from headgate.first_use import dataclass
from headgate.log import Folder, Store, TaskRow, build_report, load_state, say_discarded
from headgate.run import hashes_of
from headgate.tree import Difference, Misfit, ProposedChange, Snapshots, ancestors, fit


@dataclass(frozen=True, slots=True)
class Undone:
    """What was taken back, by shown paths."""

    task: str
    files: tuple[str, ...]
    kept: tuple[str, ...]
    """Files that changed during the task and stay: the task did not write them."""
    left: tuple[str, ...]
    """What the task changed and a patch cannot take back."""
    shared: tuple[str, ...] = ()
    """Those of `files` that somebody else changed as well while the task ran: those changes stay."""


def find_undoable(store: Store) -> TaskRow | None:
    """The latest ended task that changed something and is not undone."""
    for row in store.latest_tasks(FINAL_STATES):
        state = load_state(store, row)
        if not row.undone and state.files_changed and (state[Rewrites].merged or not state[Workplace].base):
            return row
    return None


def check_undoable(row: TaskRow, state: State) -> None:
    """ConfigError if there is nothing of a task that could be taken back."""
    name = row.task.id
    if row.state == "PROPOSED":
        raise ConfigError(f"Task {name} is a proposal, and is not in the working tree:"
                          f" headgate abort {name} discards it.")  # fmt: skip
    if row.undone:
        raise ConfigError(
            f"Task {name} is undone already: headgate diff {name} | git apply restores its changes, and"
            " git apply -R in its place undoes them again."
        )
    if row.state not in FINAL_STATES:
        raise ConfigError(f"Task {name} is {row.state}: it can be undone when it has ended.")
    if not state.files_changed:
        raise ConfigError(f"Task {name} changed no file: there is nothing to undo.")
    if build_report(state).discarded:
        raise ConfigError(say_discarded(name))
    if state[Workplace].base and not state[Rewrites].merged:
        raise ConfigError(
            f"Nothing of task {name} is in your own tree: it worked in a worktree, which"
            f" headgate abort {name} removes."
        )
    if not state.end_tree or not (state[OthersEdits].is_told or state[Rewrites].merged):
        raise ConfigError(
            f"It is not recorded which changes are those of task {name} alone: look at them with"
            f" headgate diff {name}, and undo them with headgate diff {name} | git apply -R."
        )


async def undo_task(folder: Folder, store: Store, task_id: str, now: Clock) -> Undone | Overlap:
    """Takes a task's changes back. ConfigError if there is nothing to undo, or somebody works here."""
    async with working_alone(folder, store, task_id, now) as row:
        state = load_state(store, row)
        check_undoable(row, state)
        plan = await asyncio.to_thread(_plan, folder, state)
        if overlap := await write_plan(folder, store, row, now, plan):
            return overlap
        assert isinstance(plan, Plan)
        files = tuple(change.path for change in plan.started.changes)
        both = state.ended.shared if state.ended else ()
        shared = tuple(path for path in files if path in both)
        return Undone(row.task.id, files, plan.started.kept, plan.started.left, shared)


def _plan(folder: Folder, state: State) -> Plan | Misfit:
    """What to write so that the task's changes are gone: the way back, from its last change to its first."""
    uncertain = {path for one in state[OthersEdits].noticed for path in one.uncertain}
    with Snapshots.apart(folder.repo, hides_secrets(state)) as snapshots:
        found = [
            one
            for before, after in reversed(spans_of(state))
            for one in own_differences(snapshots, state, after, before)
        ]
        own = dict.fromkeys(show_path(one.path) for one in found if one.is_plain)
        not_in_diff = state.ended.not_in_diff if state.ended else ()
        left = dict.fromkeys((*not_in_diff, *(show_path(one.path) for one in found if not one.is_plain)))
        if lost := sorted(uncertain & own.keys()):
            told = "was changed by somebody else while the task was interrupted"
            return Misfit(tuple(f"{path}: {told}" for path in lost))
        changes = fit(own_workspace(folder), snapshots, [one for one in found if one.is_plain])
        if isinstance(changes, Misfit):
            return changes
        folders = tuple(map(show_path, _new_folders(snapshots, state, changes)))
        kept = tuple(path for path in _changed_meanwhile(snapshots, state) if path not in {*own, *left})
    hashes = tuple(map(hashes_of, changes))
    started = RewriteStarted(purpose="undo", changes=hashes, folders=folders, kept=kept, left=tuple(left))
    return Plan(changes, started)


def whole_tree(state: State) -> str:
    """The git tree at a task's end, with what others changed while it ran."""
    return (state.ended.whole if state.ended else "") or state.end_tree


def spans_of(state: State) -> list[tuple[str, str]]:
    """The pairs of trees between which an ended task changed the user's own tree, in order."""
    if merge := state[Rewrites].merge:
        return [(merge.before, merge.after)]
    return own_spans(state[OthersEdits].noticed, state.baseline, whole_tree(state))


def own_differences(snapshots: Snapshots, state: State, before: str, after: str) -> Iterator[Difference]:
    """What differs between two trees of an ended task, less new files of verification runs."""
    made = set(state[VerifyRuns].left_behind) - set(state.files_changed)
    missing = set(state.ended.not_in_diff if state.ended else ())
    for one in snapshots.differences(before, after):
        if show_path(one.path) not in made and show_path(one.path) not in missing:
            yield one


def _changed_meanwhile(snapshots: Snapshots, state: State) -> list[str]:
    """Every file that is not as it was when the task began, whoever changed it, but for what checks made."""
    if state[Rewrites].merge:
        return list(state.files_changed)
    found = own_differences(snapshots, state, state.baseline, whole_tree(state))
    return [show_path(one.path) for one in found]


def _new_folders(snapshots: Snapshots, state: State, changes: Iterable[ProposedChange]) -> set[str]:
    """The folders of files that go, in which there was no file when the task began."""
    there = {folder for path in snapshots.entries(state.baseline) for folder in ancestors(path)}
    gone = [change.path for change in changes if change.after is None]
    return {folder for path in gone for folder in ancestors(path)} - there
