"""`headgate tasks`, `show`, `diff` and `report`: what the store has about tasks."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from headgate.cli.endings import last_lines, next_steps, usage_lines
from headgate.cli.printing import clock, print_diff, printable, say, say_json, tell
from headgate.cli.shared import find_repo, repo_option
from headgate.cli.stored_tasks import (
    NO_TASK_YET,
    find_interruption,
    find_task,
    has_store,
    open_store,
    pause_sentence,
)
from headgate.cli.terminal import shorten_line, terminal_width
from headgate.core import SETTLED_STATES, Event, State, fold
from headgate.log import (
    SHARED,
    WHY_NOT_IN_DIFF,
    Folder,
    TaskRow,
    build_report,
    complete_state,
    load_state,
    render_markdown,
)

MIN_TEXT_CHARS = 20


@click.command("tasks")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of {id, state, text, position}.")
@repo_option
def tasks_command(as_json: bool, repo: Path | None) -> None:
    """List the tasks with their states, queue positions and ages.

    The most recent task is last. A queued task's number is its position in the queue. A task whose changes
    were undone is marked as undone. INTERRUPTED means that the process that ran the task is gone; in JSON
    the state is RUNNING, with "interrupted": true. If the queue is paused because the environment failed a
    task, the reason and the command to continue follow; with --json, on standard error.
    """
    root = find_repo(repo)
    if not as_json:
        for line, hanging in task_list(root, terminal_width(sys.stdout)):
            say(line, hanging=hanging)
        return
    rows, interrupted, paused = _all_tasks(root)
    if paused:
        tell(paused)
    listed = [_as_json(row, row.task.id in interrupted) for row in rows]
    say_json(listed)


Line = tuple[str, int | None]
"""A line, and how far what is left of it is indented where it is broken; None leaves it whole."""


def task_list(root: Path, width: int | None) -> Iterator[Line]:
    """Every task on a line no wider than that, the most recent last; then what can be done about them."""
    rows, interrupted, paused = _all_tasks(root)
    apart = {path.name for path in Folder(root).worktrees.glob("t*")}
    if not rows:
        yield NO_TASK_YET, None
    heads = []
    for row in rows:
        state = f"{row.state} {row.position}" if row.position else row.state
        state = "INTERRUPTED" if row.task.id in interrupted else state
        state = f"{state}, undone" if row.undone else state
        state = f"{state}, worktree" if row.task.worktree and row.task.id in apart else state
        heads.append((row.task.id, state, age(time.time() - row.created)))
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    left = None if width is None else max(width - sum(widths) - 2 * len(widths), MIN_TEXT_CHARS)
    for head, row in zip(heads, rows, strict=True):
        cells = [cell.ljust(columns) for cell, columns in zip(head, widths, strict=True)]
        yield "  ".join([*cells, shorten_line(_title(row), left)]).rstrip(), None
    for name, hint in interrupted.items():
        yield f"{name} was interrupted: {hint}", 2
    if paused:
        yield paused, 2


def _all_tasks(root: Path) -> tuple[list[TaskRow], dict[str, str], str]:
    """Every task; what can be done about those whose process is gone, by id; why the queue is paused."""
    folder = Folder(root)
    if not has_store(folder):
        return [], {}, ""
    with open_store(root) as store:
        rows = store.tasks()
        found = {row.task.id: find_interruption(store, folder, row) for row in rows}
        return rows, {name: hint for name, hint in found.items() if hint}, pause_sentence(store, folder)


def _as_json(row: TaskRow, interrupted: bool) -> dict[str, Any]:
    shown = {"id": row.task.id, "state": row.state, "text": row.task.text, "position": row.position}
    extra = {"interrupted": interrupted, "resumes": row.task.resumes, "follows": row.task.follows}
    extra |= {"undone": row.undone, "worktree": row.task.worktree}
    return shown | {name: value for name, value in extra.items() if value}


def _title(row: TaskRow) -> str:
    again = f"(retry of {row.task.resumes}) " if row.task.resumes else ""
    again = again or (f"(follow-up of {row.task.follows}) " if row.task.follows else "")
    return again + printable(row.task.text.strip().splitlines()[0])


def age(seconds: float) -> str:
    """`now`, `5 min`, `3 h`, `12 d`."""
    minutes = max(int(seconds), 0) // 60
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"


@click.command("show")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option(
    "--detail",
    is_flag=True,
    help="Also show every tool call, failure log, diagnosis and fix, and the conversation while it is kept.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the report and the events.")
@repo_option
def show_command(task_id: str | None, detail: bool, as_json: bool, repo: Path | None) -> None:
    """Show a task: its state, stages and changes.

    The conversation with the model is kept while the task runs, for the last ten tasks that ended STUCK, and
    with keep_conversations: true for every task.

    INTERRUPTED means that the process that ran the task is gone; in JSON the state is RUNNING, with
    "interrupted": true.
    """
    root = find_repo(repo)
    folder = Folder(root)
    with open_store(root) as store:
        row = find_task(store, task_id)
        events = store.events(row.task.id)
        interrupted = find_interruption(store, folder, row)
        contents = store.contents(row.task.id) if detail and not as_json else {}
    if as_json:
        report = build_report(complete_state(fold(events), row))
        shown: dict[str, Any] = {"id": row.task.id, "state": row.state, "text": row.task.text}
        shown |= {"interrupted": True} if interrupted else {}
        shown |= {"resumes": row.task.resumes} if row.task.resumes else {}
        shown |= {"follows": row.task.follows} if row.task.follows else {}
        shown |= {"report": report.model_dump(mode="json"), "events": [event.as_json() for event in events]}
        say_json(shown)
        return
    for shown_line, hanging in story_lines(
        row, events, folder, detail=detail, is_interrupted=bool(interrupted), contents=contents
    ):
        say(shown_line, hanging=hanging)
    say()
    state = fold(events)
    if row.state in SETTLED_STATES:
        lines = last_lines(build_report(complete_state(state, row)), detailed=detail)
    else:
        lines = next_steps(row.task.id, row.state, interrupted=interrupted)
    for last in (*usage_lines(state.accounts.lines), *lines):
        say(last, hanging=2)


def story_lines(
    row: TaskRow,
    events: Sequence[Event],
    folder: Folder,
    *,
    detail: bool,
    is_interrupted: bool = False,
    contents: Mapping[int, str] | None = None,
) -> Iterator[Line]:
    """What was asked for and what happened: a line per milestone, and with `detail` what is behind it.

    `contents`: what is kept of the conversation with the model, by event.
    """
    standing = "INTERRUPTED" if is_interrupted else f"{row.state}{', undone' if row.undone else ''}"
    yield f"{row.task.id}  {standing}  {printable(row.task.text.strip().splitlines()[0])}", 4
    if row.task.resumes:
        yield f"Retry of {row.task.resumes}.", None
    if row.task.follows:
        yield f"Follow-up of {row.task.follows}.", None
    if row.task.package and not events:  # the first event names it
        yield f"Package: {printable(row.task.package)}", None
    if row.task.added:
        yield f"Added for this attempt: {printable(row.task.added)}", 2
    if row.task.attached:
        count = len(row.task.attached.splitlines())
        yield f"Attached: {count:,} line{'s' * (count != 1)}.", None
    if constraints := row.task.constraints.render():
        yield constraints, None
    from headgate.engine import detail_lines  # takes as long to import as all that the other commands need

    state = State(tries_again=row.task.resumes)
    for event in events:
        state.apply(event)
        line = event.line(state)
        if line and not line.is_detail:
            stamp = f"[{clock(line.elapsed)}] "
            yield f"{stamp}{printable(line.text)}", len(stamp)
        if detail:
            for more in detail_lines(event, (contents or {}).get(event.seq, ""), folder):
                yield f"        {printable(more)}", 12


@click.command("diff")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--after-review", is_flag=True, help="Print only what changed after the proposal was applied.")
@repo_option
def diff_command(task_id: str | None, after_review: bool, repo: Path | None) -> None:
    """Print what a task proposes or has changed, as a diff for git apply. Without ID: the latest task.

    Files that only others changed while the task ran are not in it. A note on standard error names files that
    they changed as well.

    If verification failed after a proposal was applied, the model may have changed more files. A note on
    standard error names them. Another note names changed files that a diff cannot show, such as those in a
    submodule.
    """
    from headgate.engine import diff_of  # takes as long to import as all that the other commands need

    root = find_repo(repo)
    with open_store(root) as store:
        row = find_task(store, task_id)
        state = load_state(store, row)
        diff = diff_of(root, row, state, after_review=after_review)
        print_diff(diff)
        report = build_report(state)
    if not diff:
        tell(f"Task {row.task.id} changes nothing.")
    if report.changed_after_review and not after_review:
        tell(f"Changed after the review: {', '.join(report.changed_after_review)}.")
        tell(f"headgate diff {row.task.id} --after-review prints only those changes.")
    if report.not_in_diff:
        tell(f"Not in the diff ({WHY_NOT_IN_DIFF}): {', '.join(report.not_in_diff)}.")
    if report.shared:
        tell(f"{SHARED}: {', '.join(report.shared)}.")


@click.command("report")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@repo_option
def report_command(task_id: str | None, as_json: bool, repo: Path | None) -> None:
    """Print a task's report. Without ID: the report of the latest task."""
    root = find_repo(repo)
    with open_store(root) as store:
        row = find_task(store, task_id)
        state = load_state(store, row)
        interrupted = find_interruption(store, Folder(root), row)
    report = build_report(state)
    if as_json:
        say_json(report.model_dump(mode="json"))
    elif row.state in SETTLED_STATES:
        again = f"\n\nRetry of {row.task.resumes}." if row.task.resumes else ""
        say(render_markdown(report, state).rstrip() + again)
    else:
        standing = "it was INTERRUPTED" if interrupted else f"it is {row.state}"
        say(f"Task {row.task.id} has not ended: {standing}.")
        for line in next_steps(row.task.id, row.state, interrupted=interrupted):
            say(line, hanging=2)
