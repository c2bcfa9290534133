"""Finding a stored task, and what there is to say about one: how it ended, and which commands come next."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

import headgate.features  # noqa: F401 - makes the events of features known
from headgate.cli.printing import printable
from headgate.cli.shared import EXIT_CANCELLED, EXIT_FAILED, EXIT_SUCCESS
from headgate.core import (
    FINAL_STATES,
    Report,
    State,
    TaskState,
    last_summary,
    plain,
    say_cost,
    say_discarded,
    say_merged,
    say_unread,
    say_usage,
    try_line,
    usage_table,
)
from headgate.errors import ConfigError
from headgate.log import Folder, Store, TaskRow, find_pause

NO_TASK_YET = 'This repository has no tasks yet: start one with "headgate run".'


def find_store(repo: Path) -> Folder:
    """The folder of a repository that has had a task. ConfigError otherwise, and nothing is created."""
    folder = Folder(repo)
    folder.check_deleted()
    if not folder.database.exists():
        raise ConfigError(NO_TASK_YET)
    folder.check_committed()
    return folder


@contextmanager
def open_store(repo: Path) -> Iterator[Store]:
    """The repository's store, for reading. A repository without one has had no task yet."""
    folder = find_store(repo)
    store = Store(folder.database)
    try:
        for note in store.notes:
            click.echo(note, err=True)
        yield store
    finally:
        store.close()


def find_task(store: Store, task_id: str | None) -> TaskRow:
    """A task by its id; the latest one if none is named."""
    latest = store.latest()
    if latest is None:
        raise ConfigError(NO_TASK_YET)
    row = latest if task_id is None else store.task(task_id.lower())
    if row is None:
        raise ConfigError(f'There is no task "{task_id}": the latest is {latest.task.id}.')
    return row


def find_only(store: Store, task_id: str | None, states: tuple[TaskState, ...], kind: str) -> TaskRow:
    """A task by its id; if none is named, the only one in these states, which people call a `kind`."""
    if task_id is not None:
        return find_task(store, task_id)
    found = [row for row in store.tasks() if row.state in states]
    if not found:
        raise ConfigError(f"There is no {kind}.")
    if len(found) > 1:
        raise ConfigError(f"Name one: there are several, {', '.join(row.task.id for row in found)}.")
    return found[0]


def find_current(store: Store) -> TaskRow:
    """The task that is running, or else the first in the queue, or else the latest."""
    return store.running() or store.head() or find_task(store, None)


def find_interruption(store: Store, folder: Folder, row: TaskRow) -> str:
    """What can be done about a task whose process is gone; nothing if it is not.

    It is gone if the task is RUNNING and nobody holds the lock.
    """
    if row.state != "RUNNING" or folder.work_lock().is_held():
        return ""
    # It may have ended, and its process with it, since the row was read.
    now = store.task(row.task.id)
    return interrupted_hint(store, row.task.id) if now and now.state == "RUNNING" else ""


def interrupted_hint(store: Store, task_id: str) -> str:
    """The commands for a task whose process is gone."""
    if store.is_cancelled(task_id):
        return "It was being cancelled: the next headgate run, submit or cancel ends it."
    return f"headgate run --resume {task_id} continues it; headgate cancel {task_id} ends it."


def pause_sentence(store: Store, folder: Folder) -> str:
    """Why the queue is paused and what goes on with it; nothing if it is not paused."""
    if folder.work_lock().is_held():
        return ""
    pause = find_pause(store)
    return pause.sentence() if pause else ""


def tasks_ahead(store: Store, task_id: str) -> list[str]:
    """The ids of the tasks that have to end before a queued one starts, in that order."""
    rows = store.tasks()
    own = next((row.position for row in rows if row.task.id == task_id), None)
    running = [row.task.id for row in rows if row.state == "RUNNING" and row.task.id != task_id]
    before = sorted(
        (row.position, row.task.id) for row in rows if row.position and own and row.position < own
    )
    return running + [name for _, name in before]


def last_lines(report: Report, *, detailed: bool = False) -> list[str]:
    """What a person wants to know of a task that is settled; `detailed`: every step has been shown."""
    if report.conflicts:
        return [
            "The working tree has changed, and the proposal no longer applies. Nothing was written.",
            *(f"  {conflict}" for conflict in report.conflicts),
            *next_steps(report.task_id, report.state, report.files_changed, refused=True),
        ]
    if report.state == "QUEUED":
        return [f"Task {report.task_id} is still queued."]
    lines = report.summary.splitlines()
    if report.state == "CANCELLED":
        lines += [_cancelled(report), *([say_unread(report.unread)] if report.unread else [])]
    lines = [*plain(report.answer).splitlines(), "", *lines] if report.answer else lines
    if report.undone:
        told = f"Task {report.task_id} was undone: its changes are not in the working tree."
        return [*lines, told, f"headgate diff {report.task_id} | git apply restores them."]
    if report.discarded:
        lines.append(say_discarded(report.task_id))
        again = f"headgate run --resume {report.task_id} tries again."
        return lines if report.state == "SUCCESS" else [*lines, again]
    if report.merged:
        lines.append(say_merged(report.merge_verified, report.merge_reason))
    if report.worktree and report.state in FINAL_STATES:
        return [*lines, *_worktree_steps(report)]
    return [*lines, *next_steps(report.task_id, report.state, report.files_changed, detailed=detailed)]


def usage_lines(state: State) -> list[str]:
    """What a task has used so far, and, if it asked in more than one stage or model, what each took."""
    lines = state.accounts.lines
    if not lines:
        return []
    cost = say_cost(state.accounts.cost, lines)
    requests = "1 request" if state.accounts.requests == 1 else f"{state.accounts.requests:,} requests"
    total = f"Used: {requests}, {say_usage(state.accounts.usage, cost, estimated=state.accounts.estimated)}."
    if len(lines) == 1:
        return [total]
    rows = usage_table(lines)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [total, *(_aligned(row, widths) for row in rows)]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Names on the left, numbers on the right."""
    cells = [
        printable(cell).ljust(width) if number < 2 else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"  {'  '.join(cells)}".rstrip()


def _worktree_steps(report: Report) -> list[str]:
    """Where a task's worktree is, and what can be done with it."""
    name = report.task_id
    where = f"The changes are in {report.worktree}, on the branch {report.branch}."
    if report.merged:
        where = f"The worktree {report.worktree} is still there."
        return [where, f"headgate undo {name} undoes them; headgate abort {name} removes the worktree."]
    apply = f"headgate diff {name} shows them; headgate apply {name} writes them to your own tree"
    merge = [f"git merge {report.branch} merges the commit {report.commit[:12]}."] if report.commit else []
    again = [] if report.state == "SUCCESS" else [f"headgate run --resume {name} tries again."]
    return [where, f"{apply}; headgate abort {name} removes the worktree and the branch.", *merge, *again]


def next_steps(
    task: str,
    state: TaskState,
    changed: Sequence[str] = (),
    *,
    interrupted: str = "",
    refused: bool = False,
    detailed: bool = False,
) -> list[str]:
    """The commands that make sense now; `interrupted` has those for a task whose process is gone."""
    tell = "" if detailed else f"headgate show {task} --detail shows every step."
    undo = f"headgate undo {task} undoes them."
    match state:
        case "RUNNING" if interrupted:
            return [interrupted]
        case "RUNNING":
            return [f"headgate watch {task} follows it; headgate cancel {task} ends it."]
        case "QUEUED":
            return [f"headgate watch {task} follows it; headgate cancel {task} removes it from the queue."]
        case "PROPOSED" if refused:
            return [
                f"headgate diff {task} shows the proposal; headgate abort {task} discards it.",
                "A new headgate run --dry-run starts from the current tree.",
            ]
        case "PROPOSED" if changed:
            return [
                f"headgate diff {task} shows it; headgate apply {task} writes and verifies it; "
                f"headgate abort {task} discards it."
            ]
        case "PROPOSED":
            return [f"headgate abort {task} discards it."]
        case "CANCELLED":
            reverted = [f"headgate diff {task} shows its changes; {undo}"] if changed else []
            return [*reverted, f"headgate run --resume {task} tries again."]
        case _:
            then = tell if state == "SUCCESS" else undo
            shown = f"headgate diff {task} shows the changes"
            lines = [f"{shown}; {then}" if then else f"{shown}."] if changed else []
            lines += [tell] if tell and tell not in "".join(lines) else []
            if state != "SUCCESS":
                lines.append(f"headgate run --resume {task} tries again and starts from this report.")
            return lines


def _cancelled(report: Report) -> str:
    if report.reason == "aborted":
        return f"The proposal of task {report.task_id} was discarded."
    if not report.model:
        return f"Task {report.task_id} was cancelled before it started."
    left = (
        f" Its changes stay in the working tree: {', '.join(report.files_changed)}."
        if report.files_changed and not report.undone and not (report.worktree or report.discarded)
        else ""
    )
    return f"Task {report.task_id} was cancelled.{left}"


# The one line of a benchmark's try.


def result_line(number: int, report: Report | None, state: State) -> str:
    """`Finished TryN`, or `Failed TryN: reason`; what the model said last, if the configuration wants that.

    Without a report Headgate itself has failed.
    """
    if state.config.get("benchmark_output_mode") == "model" and (said := last_summary(state)):
        return " ".join(printable(said).split())
    if report is not None and report.state == "SUCCESS":
        return try_line(number, None)
    return try_line(number, _reason(report), report.final_turns if report else ())


def try_exit_code(state: TaskState) -> int:
    """The exit code of a try: 1 for every failure, whatever the reason, and 130 if it was cancelled."""
    return {"SUCCESS": EXIT_SUCCESS, "CANCELLED": EXIT_CANCELLED}.get(state, EXIT_FAILED)


def _reason(report: Report | None) -> str:
    if report is None:
        return "Headgate itself failed"
    if report.state == "CANCELLED":
        return "cancelled"
    if report.state == "QUEUED":
        return "the queue is paused"
    return (report.summary.splitlines() or [report.reason])[0]
