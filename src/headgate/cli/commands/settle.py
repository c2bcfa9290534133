"""`headgate apply`, `abort` and `undo`: what becomes of what a task proposes or has changed."""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from headgate.cli.commands.verify import conclude, say_run, say_step, steps_exit_code
from headgate.cli.follow import follow_task
from headgate.cli.printing import say
from headgate.cli.shared import (
    EXIT_CANCELLED,
    EXIT_CODES,
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    find_repo_to_act,
    repo_option,
)
from headgate.cli.stored_tasks import find_only, find_store, find_task, open_store
from headgate.cli.worker import open_engine
from headgate.core import FINAL_STATES, Task, Workplace, plain
from headgate.engine import Engine, Merged, MergeProgress, Overlap, Undone, find_undoable, is_mergeable
from headgate.errors import ConfigError
from headgate.log import WHY_NOT_IN_DIFF, Report, Store, TaskRow, load_state


@click.command("apply")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one event per line, then the report.")
@repo_option
def apply_command(task_id: str | None, as_json: bool, repo: Path | None) -> None:
    """Write a proposal, or what a task did in its worktree, and verify it. Without ID: the only one.

    The proposal joins the end of the queue. Headgate writes the whole proposal or nothing: if the working
    tree has changed and the diff no longer applies, no file is changed, the conflicting parts are listed, and
    the exit code is 1. Then the result is verified. The model makes further changes only if verification
    fails, as with headgate run; the summary and headgate diff list the files that it changed after your
    review. If you cancel the task while it waits in the queue, it becomes a proposal again.

    What an ended task changed in its worktree is written to your own tree in the same way, all or nothing,
    and the verification steps that the task was started with run there. If one fails, the exit code is 1; if
    one cannot be run, 3. The changes stay. The worktree and its branch are removed, unless they hold a commit
    or something that was not applied.
    """
    root = find_store(find_repo_to_act(repo)).repo
    with open_store(root) as store:
        row = find_settled(store, task_id)
    if is_mergeable(row):
        if as_json:
            raise click.UsageError("--json is for proposals: leave it out.")
        sys.exit(merge(root, row.task.id))

    async def begin(engine: Engine) -> Task:
        return await engine.apply(row.task.id)

    followed = asyncio.run(follow_task(root, begin, as_json))
    sys.exit(EXIT_CANCELLED if followed.returned else apply_exit_code(followed.report))


def find_settled(store: Store, task_id: str | None) -> TaskRow:
    """A task by its id; if none is named, the only one that waits to be applied or discarded."""
    if task_id is None:
        waiting = [
            row
            for row in store.latest_tasks(FINAL_STATES)
            if is_mergeable(row) and load_state(store, row)[Workplace].has_worktree
        ]
        proposals = [row for row in store.tasks() if row.state == "PROPOSED"]
        if len(waiting) == 1 and not proposals:
            return waiting[0]
        if waiting:
            names = ", ".join(row.task.id for row in (*proposals, *reversed(waiting)))
            raise ConfigError(f"Name one: there are several, {names}.")
    return find_only(store, task_id, ("PROPOSED",), "proposal")


def merge(root: Path, task_id: str) -> int:
    """Brings in what a task did in its worktree, and verifies it; returns the exit code."""
    with open_engine(root) as engine:
        progress = MergeProgress(lambda merged: _say_lines(merged_lines(merged)), say_step, say_run)
        outcome = asyncio.run(engine.merge(task_id, progress))
    if isinstance(outcome, Overlap):
        _say_lines(outcome.sentences())
        return EXIT_FAILED
    if outcome.verification is None:
        say(NOT_VERIFIED)
        return EXIT_CODES["SUCCESS"]
    conclude(outcome.verification)
    return steps_exit_code(outcome.verification)


NOT_VERIFIED = "Not verified: the task was started without verification steps."


def _say_lines(lines: Iterable[str]) -> None:
    for line in lines:
        say(plain(line), hanging=2)


def merged_lines(merged: Merged) -> list[str]:
    """What a person is told after it."""
    files = ", ".join(merged.files) or "nothing, because it is all there already"
    lines = [f"Task {merged.task} was applied to your own tree: {files}."]
    if merged.left:
        lines.append(f"Not applied ({WHY_NOT_IN_DIFF}): {', '.join(merged.left)}.")
    if merged.worktree:
        lines.append(f"The worktree .headgate/worktrees/{merged.task} stays: {merged.worktree}.")
        lines.append(f"headgate abort {merged.task} removes it and its branch.")
    lines.append(f"headgate undo {merged.task} undoes the changes.")
    return lines


def apply_exit_code(report: Report) -> int:
    """The exit code of an attempt to apply: a task that is still a proposal is no success."""
    if report.state != "PROPOSED":
        return EXIT_CODES[report.state]
    if report.conflicts:
        return EXIT_FAILED
    return EXIT_CANCELLED if report.reason == "cancelled" else EXIT_ENVIRONMENT


@click.command("abort")
@click.argument("task_id", metavar="[ID]", required=False)
@repo_option
def abort_command(task_id: str | None, repo: Path | None) -> None:
    """Discard a proposal, or the worktree of an ended task with its branch. Without ID: the only one.

    The working tree is not changed. Commits that are only on the branch are lost.
    """
    with open_engine(find_store(find_repo_to_act(repo)).repo) as engine:
        row = find_settled(engine.store, task_id)
        task = asyncio.run(engine.abort(row.task.id))
        what = "worktree" if is_mergeable(row) else "proposal"
        say(f"The {what} of task {task.id} was discarded.")


@click.command("undo")
@click.argument("task_id", metavar="[ID]", required=False)
@repo_option
def undo_command(task_id: str | None, repo: Path | None) -> None:
    """Undo a task's changes. Without ID: the latest task that changed something.

    Headgate undoes exactly the changes of that task, and all of them or none. Your own edits stay, also
    those that you made while the task ran; what changed while a command of the task ran counts as the
    command's, and so does what a verification step changed. If you or a later task changed the same lines,
    no file is changed, the conflicting parts are listed, and the exit code is 1. Commits that the task made
    are not touched.

    headgate diff ID | git apply restores the changes, and git apply -R in its place undoes them again.
    """
    root = find_store(find_repo_to_act(repo)).repo
    with open_engine(root) as engine:
        outcome = asyncio.run(engine.undo(find_named(engine.store, task_id)))
    _say_lines(outcome.sentences() if isinstance(outcome, Overlap) else undone_lines(outcome))
    if isinstance(outcome, Overlap):
        sys.exit(EXIT_FAILED)


def find_named(store: Store, task_id: str | None) -> str:
    """The task to undo: the one that is named, or the latest that there is something of."""
    if task_id is not None:
        return find_task(store, task_id).task.id
    find_task(store, None)  # says so if there has been no task at all
    row = find_undoable(store)
    if row is None:
        raise ConfigError("There is nothing to undo.")
    return row.task.id


def undone_lines(undone: Undone) -> list[str]:
    """What a person is told after it."""
    name = undone.task
    lines = [f"Task {name} was undone: {', '.join(undone.files)}."]
    if not undone.files:
        lines = [f"Task {name} was undone: its changes were no longer in the working tree."]
    if undone.shared:
        lines.append(f"Also changed by somebody else, whose lines were kept: {', '.join(undone.shared)}.")
    if undone.kept:
        lines.append(f"Not the task's own changes, and kept: {', '.join(undone.kept)}.")
    if undone.left:
        lines.append(f"Not undone ({WHY_NOT_IN_DIFF}, or a link): {', '.join(undone.left)}.")
    lines.append(f"headgate diff {name} | git apply restores the changes.")
    return lines
