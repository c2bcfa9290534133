"""`headgate cancel` and `say`: what a person wants of a task, whichever process works on it."""

import asyncio
import re
import sys
import time
from pathlib import Path

import click

from headgate.cli.printing import say
from headgate.cli.shared import find_repo_to_act, repo_option
from headgate.cli.stored_tasks import find_only, find_store, find_task, open_store
from headgate.cli.worker import open_engine
from headgate.core import TaskState, Workplace
from headgate.engine import Engine
from headgate.errors import ConfigError, HeadgateError
from headgate.first_use import regex
from headgate.log import TaskRow, load_state

_ID = regex(r"t[0-9]+", re.IGNORECASE)
WAIT_SECONDS = 60.0
POLL_SECONDS = 0.1


@click.command("cancel")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option(
    "--conclude", is_flag=True, help="Let a running task conclude with what it has, instead of stopping it."
)
@repo_option
def cancel_command(task_id: str | None, conclude: bool, repo: Path | None) -> None:
    """Cancel a queued or running task. Without ID: the only one.

    A queued task is removed, as if it had never been submitted. A running task is stopped, whichever process
    runs it; its changes so far stay in the working tree.

    With --conclude the model gets one last turn to say what it has done, and the result is verified.
    """
    root = find_repo_to_act(repo)
    with open_store(root) as store:
        found = find_only(store, task_id, ("RUNNING", "QUEUED"), "running or queued task").task.id
    with open_engine(root) as engine:
        if conclude and not engine.conclude(found):
            raise ConfigError(f"Task {found} is not running: there is nothing to conclude.")
        asked = f"Task {found} was asked to conclude. headgate watch {found} follows it."
        say(asked if conclude else asyncio.run(cancel_and_wait(engine, found)))


async def cancel_and_wait(engine: Engine, task_id: str) -> str:
    """Cancels a task and waits until it is over; returns what there is to say."""
    match engine.cancel(task_id):
        case "removed":
            return f"Task {task_id} was removed from the queue."
        case "returned":
            return f"Task {task_id} left the queue and is a proposal again."
        case "asked":
            state = await _wait_for_end(engine, task_id)
            if state == "PROPOSED":
                return f"Task {task_id} is a proposal again; nothing was changed."
            row = engine.store.task(task_id)
            if state == "CANCELLED" and row and load_state(engine.store, row)[Workplace].has_worktree:
                return f"Task {task_id} was cancelled. Its worktree .headgate/worktrees/{task_id} stays."
            if state == "CANCELLED":
                return f"Task {task_id} was cancelled. Its changes so far stay in the working tree."
            raise ConfigError(f"Task {task_id} has already ended: {state}.")
        case _:
            row = engine.store.task(task_id)
            if row and row.state == "PROPOSED":
                raise ConfigError(f"Task {task_id} is a proposal: headgate abort {task_id} discards it.")
            raise ConfigError(
                f"Task {task_id} has already ended: {row.state if row else 'it was cancelled'}."
            )


async def _wait_for_end(engine: Engine, task_id: str) -> TaskState | None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        row = engine.store.task(task_id)
        if row is None or row.state != "RUNNING":
            return row.state if row else None
        # Does something only if nobody holds the lock: the process that ran it is gone.
        await engine.settle_cancelled()
        await asyncio.sleep(POLL_SECONDS)
    raise HeadgateError(
        f"Task {task_id} was asked to stop, but the process that runs it has not stopped it yet."
    )


@click.command("say")
@click.argument("words", nargs=-1, metavar="[ID] TEXT")
@repo_option
def say_command(words: tuple[str, ...], repo: Path | None) -> None:
    """Tell a running or queued task something.

    The model reads TEXT before its next turn, and it counts like the task's own text. It does not lift
    constraints: boundaries and other limits hold as before. A queued task starts with it. - reads TEXT from
    standard input. Without ID: the running task.

    If the task ends before the model reads TEXT, its summary and its report say so.
    """
    task_id, text = read_words(words)
    with open_engine(find_store(find_repo_to_act(repo)).repo) as engine:
        row = find_task(engine.store, task_id) if task_id else engine.store.running()
        if row is None:
            raise ConfigError(explain_silence(engine.store.head()))
        if not engine.say(row.task.id, text):
            now = engine.store.task(row.task.id)
            raise ConfigError(explain_deafness(row.task.id, now.state if now else None))
        say(describe_hearing(row.task.id, row.state))


def read_words(words: tuple[str, ...]) -> tuple[str | None, str]:
    """The task's id, if one is given, and what is to be said to it."""
    ctx = click.get_current_context()
    has_id = bool(words) and _ID.fullmatch(words[0]) is not None
    task_id, rest = (words[0], words[1:]) if has_id else (None, words)
    if not rest:
        raise click.UsageError(f'Say something: {ctx.command_path} "..."', ctx)
    if len(rest) > 1:
        raise click.UsageError(f'Put the text in quotes: {ctx.command_path} "..."', ctx)
    if rest[0] != "-":
        return task_id, rest[0]
    try:
        return task_id, sys.stdin.read()
    except UnicodeError:
        raise ConfigError("Standard input is not UTF-8 text.") from None


def explain_silence(first: TaskRow | None) -> str:
    """What to do where no task runs; `first` is the first one in the queue."""
    if first is None:
        return 'No task is running or queued: start one with "headgate run".'
    name = first.task.id
    return f"No task is running: name the queued one that is meant, such as headgate say {name} TEXT."


def describe_hearing(task_id: str, state: TaskState) -> str:
    """When a line that was just said is read."""
    if state == "QUEUED":
        return f"Task {task_id} starts with it."
    return f"Task {task_id} reads it before its next turn."


def explain_deafness(task_id: str, state: TaskState | None) -> str:
    """Why a task cannot be told anything any more, and what can be done instead."""
    if state == "PROPOSED":
        return f"Task {task_id} is a proposal: headgate run --follow {task_id} TEXT starts a follow-up."
    if state is None:
        return f"Task {task_id} was removed from the queue."
    return f"Task {task_id} has ended ({state}): headgate run --follow {task_id} TEXT starts a follow-up."
