"""`headgate show`: a task, its stages and what came of it."""

from pathlib import Path
from typing import Any

import click
import orjson

from headgate.cli.options import find_repo, repo_option
from headgate.cli.show.endings import last_lines, next_steps
from headgate.cli.show.live import clock, printable, say
from headgate.cli.stored_tasks import find_interruption, find_task, open_store
from headgate.core import (
    SETTLED_STATES,
    DiagnosisGiven,
    Event,
    FixAttempted,
    HypothesesGiven,
    PlanWritten,
    State,
    ToolFinished,
    ToolStarted,
    VerifyFinished,
    build_report,
    fold,
    milestone,
    plain,
)
from headgate.store import Folder, complete_state

LOG_LINES = 40


@click.command("show")
@click.argument("task_id", metavar="[ID]", required=False)
@click.option("--detail", is_flag=True, help="Also show every tool call, failure log, diagnosis and fix.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the report and the events.")
@repo_option
def command(task_id: str | None, detail: bool, as_json: bool, repo: Path | None) -> None:
    """Show a task: its state, stages and changes.

    INTERRUPTED means that the process that ran the task is gone; in JSON the state is RUNNING, with
    "interrupted": true.
    """
    root = find_repo(repo)
    folder = Folder(root)
    with open_store(root) as store:
        row = find_task(store, task_id)
        events = store.events(row.task.id)
        interrupted = find_interruption(store, folder, row)
    if as_json:
        report = build_report(complete_state(fold(events), row))
        shown: dict[str, Any] = {"id": row.task.id, "state": row.state, "text": row.task.text}
        shown |= {"interrupted": True} if interrupted else {}
        shown |= {"resumes": row.task.resumes} if row.task.resumes else {}
        shown |= {"report": report.model_dump(mode="json"), "events": [event.as_json() for event in events]}
        say(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
        return
    standing = "INTERRUPTED" if interrupted else row.state
    say(f"{row.task.id}  {standing}  {printable(row.task.text.strip().splitlines()[0])}", hanging=4)
    if row.task.resumes:
        say(f"Retry of {row.task.resumes}.")
    if row.task.package and not events:  # the first event names it
        say(f"Package: {printable(row.task.package)}")
    if row.task.added:
        say(f"Added for this attempt: {printable(row.task.added)}", hanging=2)
    if constraints := row.task.constraints.render():
        say(constraints)
    state = State()
    for event in events:
        state.apply(event)
        line = milestone(event, state, row.task.resumes)
        if line:
            stamp = f"[{clock(state.seconds)}] "
            say(f"{stamp}{printable(line)}", hanging=len(stamp))
        for more in detail_lines(event, folder) if detail else ():
            say(f"        {printable(more)}", hanging=12)
    say()
    if row.state in SETTLED_STATES:
        lines = last_lines(build_report(complete_state(state, row)), detailed=detail)
    else:
        lines = next_steps(row.task.id, row.state, interrupted=interrupted)
    for last in lines:
        say(last, hanging=2)


def detail_lines(event: Event, folder: Folder) -> list[str]:
    """What is behind the milestones: the plan, calls, failure logs, diagnoses and fixes."""
    match event.body:
        case PlanWritten() as body:
            return [f"  {item.id}: {item.description}" for item in body.items]
        case ToolStarted() as body:
            return [f"  {body.name} {body.target}".rstrip()]
        case ToolFinished(ok=False) as body:
            said = (body.detail or body.error).removeprefix(f"{body.name}: ")
            return [f"  {body.name}: {said}"]
        case VerifyFinished(passed=False) as body:
            return [f"  | {line}" for line in _log_tail(folder.runs / body.run_id / "combined.log")]
        case DiagnosisGiven() as body:
            return [f"  Diagnosis: {body.text}"]
        case FixAttempted() as body:
            return [f"  | {line}" for line in body.diff.splitlines()] or ["  Nothing was changed."]
        case HypothesesGiven() as body:
            return [f"  Hypotheses: {body.text}"]
        case _:
            return []


def _log_tail(log: Path) -> list[str]:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ["(the log is missing)"]
    lines = plain(text).rstrip().splitlines()
    left_out = len(lines) - LOG_LINES
    if left_out <= 0:
        return lines
    where = "/".join(log.parts[-4:])
    return [f"[{left_out} earlier lines are in {where}]", *lines[-LOG_LINES:]]
