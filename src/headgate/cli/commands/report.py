"""`headgate report`: a task's report, for people or for scripts."""

from pathlib import Path

import click
import orjson

from headgate.cli.options import find_repo, repo_option
from headgate.cli.show.endings import next_steps
from headgate.cli.show.live import say
from headgate.cli.stored_tasks import find_interruption, find_task, open_store
from headgate.core import SETTLED_STATES, Report, State, build_report, render_markdown
from headgate.store import Folder, load_state


@click.command("report")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@repo_option
def command(task_id: str | None, as_json: bool, repo: Path | None) -> None:
    """Print a task's report. Without ID: the report of the latest task."""
    root = find_repo(repo)
    with open_store(root) as store:
        row = find_task(store, task_id)
        state = load_state(store, row)
        interrupted = find_interruption(store, Folder(root), row)
    report = build_report(state)
    if as_json:
        say(orjson.dumps(report.model_dump(mode="json"), option=orjson.OPT_INDENT_2).decode())
    elif row.state in SETTLED_STATES:
        say(_page(report, state, row.task.resumes))
    else:
        standing = "it was INTERRUPTED" if interrupted else f"it is {row.state}"
        say(f"Task {row.task.id} has not ended: {standing}.")
        for line in next_steps(row.task.id, row.state, interrupted=interrupted):
            say(line, hanging=2)


def _page(report: Report, state: State, resumes: str) -> str:
    """The report for people."""
    page = render_markdown(report, state).rstrip()
    return f"{page}\n\nRetry of {resumes}." if resumes else page
