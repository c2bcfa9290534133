"""`headgate submit`: queues a task and returns at once. `headgate work`: the process that runs the queue."""

import asyncio
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from traceback import print_exception

import click

from headgate.cli.interrupts import use_worker_signals
from headgate.cli.options import find_repo, repo_option
from headgate.cli.show.live import printable, say
from headgate.cli.submission import Submission, resume_option, submission_options
from headgate.config import is_on_this_machine
from headgate.engine import Engine
from headgate.errors import ConfigError
from headgate.process import FileLock
from headgate.store import Folder


@click.command("submit")
@submission_options
@resume_option
@click.option("--no-start", is_flag=True, help="Only queue the task; the next run or submit starts the work.")
def submit_command(submission: Submission, resume: str | None, no_start: bool) -> None:
    """Queue a task and return at once.

    Prints the task's id. Tasks run in the background, one at a time, in the order in which they were
    submitted. TEXT and the options are those of headgate run. The configuration and the flow are fixed now:
    later changes to their files do not affect this task.

    If the environment fails a task, for example because the model server is down, the queue is paused and
    later tasks stay queued; headgate tasks shows the reason. A task that is submitted then stays queued, too.
    To continue, use submit --resume ID with a queued task or with the one that failed, or headgate run. A
    queued task that you name takes the configuration as it is now.
    """
    submission.check_text("submit", resume)
    engine = Engine.open(
        submission.root,
        start_worker=partial(start_worker, submission.root),
        read_config=submission.read_config,
    )
    engine.on_notice = lambda line: click.echo(printable(line), err=True)
    try:
        for note in (*submission.notes, *engine.notes):
            click.echo(note, err=True)
        task = submission.submit_to(engine, resume)
        if no_start and resume and task.resumes != resume.lower():
            raise ConfigError(f"Task {task.id} is already queued: leave out --no-start.")
        for model, address in task.models:
            if address and not is_on_this_machine(address):
                click.echo(f"Task {task.id} will use {model} at {address}.", err=True)
        if task.package:
            click.echo(f"Task {task.id} will work on the package {task.package}.", err=True)
        say(task.id)
        if not no_start:
            pause = engine.wake_worker(try_again=resume is not None)
            if pause:
                click.echo(printable(pause.sentence()), err=True)
    finally:
        engine.store.close()


@click.command("work", hidden=True)
@click.option("--lock", type=int, metavar="FD", help="The descriptor of the lock that is handed over.")
@repo_option
def work_command(lock: int | None, repo: Path | None) -> None:
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
