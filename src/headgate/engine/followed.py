"""What a task is told of one before it: of the task that it follows up on, or tries again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from headgate.core import (
    Conclusion,
    Person,
    Proposed,
    Rewrites,
    State,
    Task,
    Workplace,
    say_reason,
    shorten,
)
from headgate.engine.tree import diff_of
from headgate.errors import HeadgateError
from headgate.log import Store, TaskRow, build_report, load_state, render_markdown
from headgate.run import Followed

MOST_BEFORE = 10
"""Earlier requests of a conversation that are told: the latest."""
REQUEST_CHARS = 200
"""Of each of them."""


async def find_followed(store: Store, repo: Path, task: Task) -> Followed | None:
    """What is known of the task that this one follows; None if it follows none."""
    row = store.task(task.follows) if task.follows else None
    if row is None:
        return None
    state = load_state(store, row)
    return Followed(
        request=row.task.request,
        ending=_say_ending(row, state),
        answer="" if state.files_changed else state[Conclusion].answer,
        said=tuple(state[Person].said.values()),
        unread=state[Person].unread,
        notes=tuple(state.notes.items()),
        diff=await asyncio.to_thread(_read_diff, repo, row, state) if state.files_changed else "",
        before=tuple(_requests_before(store, row.task))[::-1],
    )


def _read_diff(repo: Path, row: TaskRow, state: State) -> str:
    try:
        return diff_of(repo, row, state).decode("utf-8", "replace")
    except HeadgateError:
        return ""  # a proposal that was discarded, or git has dropped its objects: the files tell


def _say_ending(row: TaskRow, state: State) -> str:
    if state[Proposed].step == "proposed" and state.ended is None:
        return "It only proposed its diff: the working tree does not contain it."
    if state.reason == "aborted":
        return "The user discarded its proposal: the working tree does not contain it."
    if row.undone:
        return "The user took its changes back: the working tree does not contain them."
    left = " Its changes were left in the working tree; files may have changed since."
    if build_report(state).discarded:
        left = " The user discarded its changes: the working tree does not contain them."
    elif state[Workplace].base and not state[Rewrites].merged:
        left = " Its changes are in a worktree of its own: the working tree does not contain them."
    why = f" ({say_reason(state.reason)})"
    match row.state:
        case "SUCCESS":
            how = "It succeeded, and its result was verified." if state.verified else "It succeeded."
        case "CANCELLED":
            how = "The user cancelled it."
        case "INFRA_ERROR":
            how = f"The environment failed{why}."
        case _:
            how = f"It did not succeed{why}."
    return f"{how}{left if state.files_changed else ' It changed no file.'}"


def _requests_before(store: Store, task: Task) -> Iterator[str]:
    """The requests of the tasks that a task follows in turn, the latest first."""
    for _ in range(MOST_BEFORE):
        row = store.task(task.follows) if task.follows else None
        if row is None:
            return
        task = row.task
        yield f"{task.id}: {shorten(' '.join(task.request.split()), REQUEST_CHARS)}"


def earlier_report(store: Store, task: Task) -> str:
    """The report of the task that this one tries again; empty if it tries none again."""
    row = store.task(task.resumes) if task.resumes else None
    if row is None:
        return ""
    state = load_state(store, row)
    return render_markdown(build_report(state), state, with_usage=False).strip()
