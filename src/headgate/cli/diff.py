"""`headgate diff`: what a task proposes, or has changed."""

from pathlib import Path

import click

from headgate.cli.following import print_diff
from headgate.cli.lookup import find_task, open_store
from headgate.cli.options import find_repo, repo_option
from headgate.engine.diffs import diff_of


@click.command("diff")
@click.argument("task_id", metavar="[ID]", required=False)
@repo_option
def command(task_id: str | None, repo: Path | None) -> None:
    """Print what a task proposes, or has changed, as a diff that git apply takes. Without ID: the latest."""
    root = find_repo(repo)
    with open_store(root) as store:
        print_diff(diff_of(store, root, find_task(store, task_id).task.id))
