"""`headgate diff`: what a task proposes, or has changed."""

from pathlib import Path

import click

from headgate.cli.following import print_diff
from headgate.cli.lookup import find_task
from headgate.cli.options import find_repo, repo_option
from headgate.engine.engine import Engine


@click.command("diff")
@click.argument("task_id", metavar="[ID]", required=False)
@repo_option
def command(task_id: str | None, repo: Path | None) -> None:
    """Print what a task proposes, or has changed, as a diff that git apply takes. Without ID: the latest."""
    engine = Engine.open(find_repo(repo))
    try:
        for note in engine.store.notes:
            click.echo(note, err=True)
        print_diff(engine.diff(find_task(engine.store, task_id).task.id))
    finally:
        engine.store.close()
