"""`headgate watch`: follows a task that any process runs."""

import asyncio
from pathlib import Path

import click

from headgate.cli.live import Progress, say
from headgate.cli.lookup import find_task, open_store
from headgate.cli.options import find_repo, repo_option
from headgate.cli.run import print_event
from headgate.core.task import SETTLED_STATES
from headgate.engine.folder import Folder
from headgate.engine.store import Store
from headgate.host.lock import FileLock


@click.command("watch")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One event per line on standard output.")
@click.option("--after", type=int, default=0, metavar="SEQ", help="Only events after this sequence number.")
@repo_option
def command(task_id: str | None, as_json: bool, after: int, repo: Path | None) -> None:
    """Follow a task until it ends. Without ID: the latest."""
    root = find_repo(repo)
    with open_store(root) as store:
        asyncio.run(follow(store, find_task(store, task_id).task.id, Folder(root), as_json, after))


async def follow(store: Store, task_id: str, folder: Folder, as_json: bool, after: int) -> None:
    """Shows events as they are committed, the past ones first; ends when nobody works any more."""
    progress = Progress()
    watching = asyncio.ensure_future(_show(store, task_id, progress, as_json, after))
    lock = FileLock(folder.lock)
    idle = 0
    with progress:
        # The lock is free for a moment when one process takes over from another.
        while not watching.done() and idle < 2 and store.task(task_id):
            await asyncio.wait({watching}, timeout=0.5)
            idle = 0 if await asyncio.to_thread(lock.is_held) else idle + 1
    if watching.done():
        watching.result()
        return
    watching.cancel()
    row = store.task(task_id)
    if row is None:
        say(f"Task {task_id} was cancelled before it started.")
    elif row.state == "QUEUED":
        say(f"Task {task_id} is queued, and nobody works: headgate run or submit starts the work.")
    else:
        say(f"Task {task_id} was interrupted: nobody works on it.")


async def _show(store: Store, task_id: str, progress: Progress, as_json: bool, after: int) -> None:
    async for event in store.follow(task_id):
        progress.hear(event) if event.seq > after else progress.state.apply(event)
        if as_json and event.seq > after:
            print_event(event)
        if progress.state.status in SETTLED_STATES:
            return
