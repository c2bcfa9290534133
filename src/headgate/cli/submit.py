"""`headgate submit`: queues a task and returns at once."""

from functools import partial

import click

from headgate.cli.live import say
from headgate.cli.submission import Submission, submission_options
from headgate.cli.work import start_worker
from headgate.engine.engine import Engine


@click.command("submit")
@submission_options(text_required=True)
@click.option("--no-start", is_flag=True, help="Only queue it: the next run, or submit, starts the work.")
def command(submission: Submission, no_start: bool) -> None:
    """Queue a task and return at once.

    Prints the new task's id. The work is done in the background, one task at a time, in the order in which
    they were submitted. TEXT and the options are those of headgate run.

    The configuration and the flow are settled now: changes to their files have no effect on this task.
    """
    engine = Engine.open(submission.root, start_worker=partial(start_worker, submission.root))
    try:
        for note in (*submission.notes, *engine.store.notes):
            click.echo(note, err=True)
        task = submission.submit_to(engine)
        if task.package:
            click.echo(f"Task {task.id} works on the package {task.package}.", err=True)
        say(task.id)
        if not no_start:
            engine.wake_worker()
    finally:
        engine.store.close()
