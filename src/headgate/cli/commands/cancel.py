"""`headgate cancel`: ends a task, whichever process works on it."""

import asyncio
import time
from functools import partial
from pathlib import Path

import click

from headgate.cli.follow import start_worker
from headgate.cli.printing import say
from headgate.cli.shared import find_repo_to_act, repo_option
from headgate.cli.stored_tasks import find_only, open_store
from headgate.core import (
    TaskState,
    Workplace,
)
from headgate.engine import Engine
from headgate.errors import ConfigError, HeadgateError
from headgate.log import load_state

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
    engine = Engine.open(root, start_worker=partial(start_worker, root))
    try:
        if conclude and not engine.conclude(found):
            raise ConfigError(f"Task {found} is not running: there is nothing to conclude.")
        asked = f"Task {found} was asked to conclude. headgate watch {found} follows it."
        say(asked if conclude else asyncio.run(cancel_and_wait(engine, found)))
    finally:
        engine.store.close()


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
