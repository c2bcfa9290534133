"""`headgate diff`: what a task proposes, or has changed."""

from pathlib import Path

import click

from headgate.cli.options import find_repo, repo_option
from headgate.cli.show.follow import print_diff
from headgate.cli.stored_tasks import find_task, open_store
from headgate.core import WHY_NOT_IN_DIFF, build_report
from headgate.engine import diff_of
from headgate.store import load_state


@click.command("diff")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--after-review", is_flag=True, help="Print only what changed after the proposal was applied.")
@repo_option
def command(task_id: str | None, after_review: bool, repo: Path | None) -> None:
    """Print what a task proposes or has changed, as a diff for git apply. Without ID: the latest task.

    If verification failed after a proposal was applied, the model may have changed more files. A note on
    standard error names them. Another note names changed files that a diff cannot show, such as those in a
    submodule.
    """
    root = find_repo(repo)
    with open_store(root) as store:
        row = find_task(store, task_id)
        state = load_state(store, row)
        diff = diff_of(root, row, state, after_review=after_review)
        print_diff(diff)
        report = build_report(state)
    if not diff:
        click.echo(f"Task {row.task.id} changes nothing.", err=True)
    if report.changed_after_review and not after_review:
        click.echo(f"Changed after the review: {', '.join(report.changed_after_review)}.", err=True)
        click.echo(f"headgate diff {row.task.id} --after-review prints only those changes.", err=True)
    if report.not_in_diff:
        click.echo(f"Not in the diff ({WHY_NOT_IN_DIFF}): {', '.join(report.not_in_diff)}.", err=True)
