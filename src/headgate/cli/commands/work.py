"""`headgate work`: the process that drains the queue when nobody else does, and how it is started."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from traceback import print_exception

import click

from headgate.cli.interrupts import use_worker_signals
from headgate.cli.options import find_repo, repo_option
from headgate.engine import Engine
from headgate.process import FileLock
from headgate.store import Folder


@click.command("work", hidden=True)
@click.option("--lock", type=int, metavar="FD", help="The descriptor of the lock that is handed over.")
@repo_option
def command(lock: int | None, repo: Path | None) -> None:
    """Run what is queued, then exit."""
    asyncio.run(work(find_repo(repo), lock))


async def work(root: Path, descriptor: int | None) -> None:
    """Drains the queue."""
    use_worker_signals()
    lock = FileLock(Folder(root).lock)
    if descriptor is not None and not lock.adopt(descriptor):
        raise click.UsageError("--lock does not name the repository's lock.")
    engine = Engine.open(root)
    engine.keep_crash_trace = True
    try:
        for note in engine.notes:
            click.echo(note, err=True)
        await engine.drain(lock, print_exception)
    finally:
        engine.store.close()


def start_worker(root: Path, lock: FileLock) -> None:
    """Starts a detached worker that holds the lock from its first moment on.

    It inherits this process's environment, and with it the keys. What it has to say goes to a log file.
    """
    command = [sys.executable, "-P", "-m", "headgate", "work"]
    command += ["--repo", str(root), "--lock", str(lock.fileno())]
    with Folder(root).open_worker_log() as log:
        # Nobody waits for it: it is to outlive this process.
        worker = subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock.fileno(),),
            start_new_session=True,
        )
    worker.returncode = os.EX_OK
    lock.hand_over()
