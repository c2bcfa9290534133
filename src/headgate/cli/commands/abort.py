"""`headgate abort`: gives up what a dry run proposed."""

import asyncio
from pathlib import Path

import click

from headgate.cli.options import find_repo, repo_option
from headgate.cli.show.live import say
from headgate.cli.stored_tasks import find_only, find_store
from headgate.engine import Engine


@click.command("abort")
@click.argument("task_id", metavar="[ID]", required=False)
@repo_option
def command(task_id: str | None, repo: Path | None) -> None:
    """Discard a dry run's proposal; the working tree is not changed. Without ID: the only proposal."""
    engine = Engine.open(find_store(find_repo(repo)).repo)
    try:
        for note in engine.notes:
            click.echo(note, err=True)
        task = asyncio.run(engine.abort(find_only(engine.store, task_id, ("PROPOSED",), "proposal").task.id))
        say(f"The proposal of task {task.id} was discarded.")
    finally:
        engine.store.close()
