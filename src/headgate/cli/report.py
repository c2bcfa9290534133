"""`headgate report`: a task's report, for people or for scripts."""

from pathlib import Path

import click
import orjson

from headgate.cli.live import say
from headgate.cli.lookup import find_task, open_store
from headgate.cli.options import find_repo, repo_option
from headgate.core.report import build_report, render_markdown
from headgate.engine.log import recall


@click.command("report")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@repo_option
def command(task_id: str | None, as_json: bool, repo: Path | None) -> None:
    """Print a task's report."""
    with open_store(find_repo(repo)) as store:
        state = recall(store, find_task(store, task_id))
    report = build_report(state)
    say(
        orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_INDENT_2).decode()
        if as_json
        else render_markdown(report, state).rstrip()
    )
