"""`headgate show`: a task, its stages and what came of it."""

from pathlib import Path
from typing import Any

import click
import orjson

from headgate.cli.live import clock, printable, say
from headgate.cli.options import find_repo, repo_option
from headgate.cli.tasks import find_task, open_store, state_of
from headgate.core.events import Event, ToolFinished, ToolStarted
from headgate.core.milestones import milestone
from headgate.core.report import build_report
from headgate.core.state import State


@click.command("show")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--detail", is_flag=True, help="Every tool call, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the report and the events.")
@repo_option
def command(task_id: str | None, detail: bool, as_json: bool, repo: Path | None) -> None:
    """Show a task: its state, stages and changes."""
    with open_store(find_repo(repo)) as store:
        row = find_task(store, task_id)
        state, events = state_of(store, row), store.events(row.task.id)
    report = build_report(state)
    if as_json:
        shown: dict[str, Any] = {"id": row.task.id, "state": row.state, "text": row.task.text}
        shown |= {"report": report.model_dump(mode="json"), "events": [event.as_json() for event in events]}
        say(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
        return
    say(f"{row.task.id}  {row.state}  {printable(row.task.text.splitlines()[0])}")
    if constraints := row.task.constraints.render():
        say(constraints)
    replay = State()
    for event in events:
        replay.apply(event)
        line = milestone(event, replay) or (detail_line(event) if detail else None)
        if line:
            say(f"[{clock(event.at - (replay.started_at or event.at))}] {printable(line)}")
    if state.summary:
        say(f"\n{state.summary}")


def detail_line(event: Event) -> str | None:
    """A line for what is not a milestone."""
    match event.body:
        case ToolStarted() as body:
            return f"  {body.name} {body.target}".rstrip()
        case ToolFinished(ok=False) as body:
            return f"  {body.name}: {body.detail or body.error}"
        case _:
            return None
