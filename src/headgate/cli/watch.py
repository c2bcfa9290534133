"""`headgate watch`: follows a task that any process runs."""

import asyncio
from pathlib import Path

import click

from headgate.cli.live import Progress
from headgate.cli.options import find_repo, repo_option
from headgate.cli.run import print_event
from headgate.cli.tasks import find_task, open_store
from headgate.core.task import FINAL_STATES
from headgate.engine.store import Store, TaskRow


@click.command("watch")
@click.argument("task_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One event per line on standard output.")
@click.option("--after", type=int, default=0, metavar="SEQ", help="Only events after this sequence number.")
@repo_option
def command(task_id: str, as_json: bool, after: int, repo: Path | None) -> None:
    """Follow a task until it ends."""
    with open_store(find_repo(repo)) as store:
        asyncio.run(follow(store, find_task(store, task_id), as_json, after))


async def follow(store: Store, row: TaskRow, as_json: bool, after: int) -> None:
    """Shows events as they are committed, the past ones first."""
    progress = Progress()
    with progress:
        async for event in store.follow(row.task.id):
            progress.hear(event) if event.seq > after else progress.state.apply(event)
            if as_json and event.seq > after:
                print_event(event)
            if progress.state.status in FINAL_STATES:
                return
