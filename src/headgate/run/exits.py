"""Leaving a stage: the model's signal, or a satisfied rule, and what the checks say to it."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headgate.checks.activity import check_activity
from headgate.config.texts import fill
from headgate.core.events import CheckFinished, Note, StageDoneSignalled
from headgate.core.messages import clean_text
from headgate.core.rules import Fail, Pass
from headgate.core.words import path_words
from headgate.errors import ToolError
from headgate.host.workspace import show_path
from headgate.run.job import Job, StageRun

MOST_NAMED = 10
"""A task that lists more files than this does not mean that each has to be read first."""


async def answer_done(run: StageRun, data: Mapping[str, Any]) -> tuple[bool, str]:
    """The model's closing signal: whether it is accepted, and the answer to it."""
    note = Note.model_validate({key: clean_value(run, value) for key, value in data.items()})
    missing = await try_exit(run, note)
    return (False, fill("not_done", stage=run.stage.id, reason=missing)) if missing else (True, "ok")


async def try_exit(run: StageRun, note: Note, *, implied: bool = False, quiet: bool = False) -> str:
    """Runs the stage's checks; returns what is missing, or nothing if the stage may be left.

    What they say is recorded with the answer to the model, in the caller's commit. `quiet` records only
    success: for rules that are tried after every turn.
    """
    await run.job.log.commit()
    needs_diff = run.stage.checks.code_changed
    changed = bool(await run.job.tree.changed_files()) if needs_diff else False
    named = await asyncio.to_thread(named_files, run.job) if run.stage.checks.named_files else ()
    verdict = check_activity(run.stage.checks, run.state, changed, named)
    if isinstance(verdict, Pass):
        run.record(StageDoneSignalled(note=note, implied=implied))
        run.record(CheckFinished(check="exit", verdict="pass"))
    elif isinstance(verdict, Fail) and not quiet:
        run.record(CheckFinished(check=verdict.kind, verdict="fail", reason=verdict.reason))
    return "" if isinstance(verdict, Pass) else verdict.reason


def named_files(job: Job) -> tuple[str, ...]:
    """The files that the task names and a model can read, as they are shown."""
    found: dict[str, None] = {}
    for word in path_words(job.task.request):
        with suppress(ToolError):
            file = job.context.workspace.read(word)
            if not file.is_binary:
                found[show_path(file.path)] = None
        if len(found) == MOST_NAMED:
            break
    return tuple(found)


def clean_value(run: StageRun, value: Any) -> Any:
    """Text from the model may hold secrets it has seen and characters that cannot be stored."""
    match value:
        case str():
            return run.job.redact(clean_text(value))
        case list() | tuple():
            return [clean_value(run, item) for item in value]
        case dict():
            return {clean_value(run, key): clean_value(run, item) for key, item in value.items()}
        case _:
            return value
