"""`headgate submit`: queues a task and returns at once."""

from functools import partial

import click

from headgate.cli.live import printable, say
from headgate.cli.submission import Submission, resume_option, submission_options
from headgate.cli.work import start_worker
from headgate.engine.engine import Engine
from headgate.errors import ConfigError


@click.command("submit")
@submission_options
@resume_option
@click.option("--no-start", is_flag=True, help="Only queue it: the next run or submit starts the work.")
def command(submission: Submission, resume: str | None, no_start: bool) -> None:
    """Queue a task and return at once.

    Prints the task's id. The work is done in the background, one task at a time, in the order in which they
    were submitted. TEXT and the options are those of headgate run. The configuration and the flow are settled
    now: later changes to their files have no effect on this task.

    If the environment fails a task, such as a model server that is down, the queue is paused and the tasks
    behind it stay queued: headgate tasks says why. A task that is submitted then stays
    queued, too. To continue, use submit --resume ID, with the ID of a queued task or of the one that failed,
    or headgate run. A queued task that is named takes the configuration as it is then.
    """
    submission.check_text("submit", resume)
    engine = Engine.open(submission.root, start_worker=partial(start_worker, submission.root))
    try:
        for note in (*submission.notes, *engine.store.notes):
            click.echo(note, err=True)
        task = submission.submit_to(engine, resume)
        if no_start and resume and task.resumes != resume.lower():
            raise ConfigError(f"Task {task.id} is queued already: leave --no-start out.")
        if task.package:
            click.echo(f"Task {task.id} works on the package {task.package}.", err=True)
        say(task.id)
        if not no_start:
            pause = engine.wake_worker(try_again=resume is not None)
            if pause:
                click.echo(printable(pause.sentence()), err=True)
    finally:
        engine.store.close()
