"""`headgate work`: the process that runs the queue in the background. Headgate starts it itself."""

import asyncio
import os
from pathlib import Path
from traceback import print_exception

import click

from headgate.cli.printing import tell
from headgate.cli.shared import find_repo, repo_option
from headgate.cli.worker import use_worker_signals
from headgate.engine import Engine
from headgate.log import Folder


@click.command("work", hidden=True)
@click.option(
    "--lock", type=int, multiple=True, metavar="FD", help="A descriptor of the lock that is handed over."
)
@click.option("--after", type=int, metavar="FD", help="A pipe: begin when nobody can write to it any more.")
@repo_option
def command(lock: tuple[int, ...], after: int | None, repo: Path | None) -> None:
    """Run what is queued, then exit."""
    root = find_repo(repo)
    if after is not None:
        os.read(after, 1)
    asyncio.run(work(root, lock))


async def work(root: Path, descriptors: tuple[int, ...]) -> None:
    """Drains the queue."""
    use_worker_signals()
    lock = Folder(root).work_lock()
    if descriptors and not lock.adopt(*descriptors[:2]):
        raise click.UsageError("--lock does not name the repository's lock.")
    engine = Engine.open(root)
    engine.keep_crash_trace = True
    try:
        for note in engine.notes:
            tell(note)
        await engine.drain(lock, print_exception)
    finally:
        engine.store.close()
