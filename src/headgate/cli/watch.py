"""`headgate watch`: follows a task that any process runs."""

import asyncio
from pathlib import Path

import click

from headgate.cli.live import Progress, say
from headgate.cli.options import find_repo, repo_option
from headgate.cli.run import print_event
from headgate.cli.tasks import find_task, open_store
from headgate.core.task import FINAL_STATES
from headgate.engine.folder import Folder
from headgate.engine.store import Store, TaskRow
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
        asyncio.run(follow(store, find_task(store, task_id), Folder(root), as_json, after))


async def follow(store: Store, row: TaskRow, folder: Folder, as_json: bool, after: int) -> None:
    """Shows events as they are committed, the past ones first; ends when nobody works any more."""
    progress = Progress()
    watching = asyncio.ensure_future(_show(store, row, progress, as_json, after))
    with progress:
        while not watching.done() and await asyncio.to_thread(FileLock(folder.lock).is_held):
            await asyncio.wait({watching}, timeout=1)
        await asyncio.wait({watching}, timeout=1)
    if watching.done():
        watching.result()
    else:
        watching.cancel()
        say(f"Task {row.task.id} was interrupted: nobody works on it.")


async def _show(store: Store, row: TaskRow, progress: Progress, as_json: bool, after: int) -> None:
    async for event in store.follow(row.task.id):
        progress.hear(event) if event.seq > after else progress.state.apply(event)
        if as_json and event.seq > after:
            print_event(event)
        if progress.state.status in FINAL_STATES:
            return
