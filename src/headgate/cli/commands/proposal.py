"""`headgate apply` and `headgate abort`: write what a dry run proposed and verify it, or discard it."""

import asyncio
import sys
from pathlib import Path

import click

from headgate.cli.exit_codes import EXIT_CANCELLED, EXIT_CODES, EXIT_ENVIRONMENT, EXIT_FAILED
from headgate.cli.options import find_repo_to_act, repo_option
from headgate.cli.show.follow import follow_task
from headgate.cli.show.live import say
from headgate.cli.stored_tasks import find_only, find_store
from headgate.core import Report, Task
from headgate.engine import Engine


@click.command("apply")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one event per line, then the report.")
@repo_option
def apply_command(task_id: str | None, as_json: bool, repo: Path | None) -> None:
    """Write a dry run's proposal, verify it, and wait for the end. Without ID: the only proposal.

    The proposal joins the end of the queue. Headgate writes the whole proposal or nothing: if the working
    tree has changed and the diff no longer applies, no file is changed, the conflicting parts are listed, and
    the exit code is 1. Then the result is verified. The model makes further changes only if verification
    fails, as with headgate run; the summary and headgate diff list the files that it changed after your
    review. If you cancel the task while it waits in the queue, it becomes a proposal again.
    """

    async def begin(engine: Engine) -> Task:
        return await engine.apply(find_only(engine.store, task_id, ("PROPOSED",), "proposal").task.id)

    followed = asyncio.run(follow_task(find_store(find_repo_to_act(repo)).repo, begin, as_json))
    sys.exit(EXIT_CANCELLED if followed.returned else apply_exit_code(followed.report))


def apply_exit_code(report: Report) -> int:
    """The exit code of an attempt to apply: a task that is still a proposal is no success."""
    if report.state != "PROPOSED":
        return EXIT_CODES[report.state]
    if report.conflicts:
        return EXIT_FAILED
    return EXIT_CANCELLED if report.reason == "cancelled" else EXIT_ENVIRONMENT


@click.command("abort")
@click.argument("task_id", metavar="[ID]", required=False)
@repo_option
def abort_command(task_id: str | None, repo: Path | None) -> None:
    """Discard a dry run's proposal; the working tree is not changed. Without ID: the only proposal."""
    engine = Engine.open(find_store(find_repo_to_act(repo)).repo)
    try:
        for note in engine.notes:
            click.echo(note, err=True)
        task = asyncio.run(engine.abort(find_only(engine.store, task_id, ("PROPOSED",), "proposal").task.id))
        say(f"The proposal of task {task.id} was discarded.")
    finally:
        engine.store.close()
