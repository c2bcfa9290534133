"""Leaving a stage: the model's signal, or a satisfied rule, and what the checks say to it."""

import asyncio
from contextlib import suppress
from itertools import islice
from typing import Any

from headgate.checks import check_activity
from headgate.config import fill
from headgate.core import (
    AnswerGiven,
    CheckFinished,
    Decision,
    Fail,
    Note,
    Pass,
    StageDoneSignalled,
    bound_note,
    clean_text,
    path_words,
    shorten,
    show_path,
)
from headgate.errors import ToolError
from headgate.reading import find_tests
from headgate.run.job import Job
from headgate.run.leaf import StageRun

ANSWER_CHARS = 20_000
"""What is kept of an answer."""
MOST_LOOKED_AT = 200
MOST_NAMED = 10
"""A task that lists more files than this does not mean that each has to be read first."""


class NotDone(ToolError):
    """The model asked to leave a stage in which something is missing."""

    slug = "not_done"


async def leave_stage(run: StageRun, said: Note) -> None:
    """The model's closing signal. NotDone says what is missing."""
    clean = Note.model_validate(clean_value(run, said.model_dump()))
    note = bound_note(clean)
    missing = await try_exit(run, note, answer=clean.summary)
    if missing and run.state.final_granted:
        keep_conclusion(run, note)
    if missing:
        raise NotDone(fill("not_done", stage=run.stage.id, reason=missing))


async def try_exit(
    run: StageRun, note: Note, *, answer: str = "", implied: bool = False, quiet: bool = False
) -> str:
    """Runs the stage's checks; returns what is missing, or nothing if the stage may be left.

    `answer`: the model's words, whole, which the log keeps where they are all that the task asks for.

    What they say is recorded with the answer to the model, in the caller's commit. `quiet` records only
    success: for rules that are tried after every turn.
    """
    await run.job.log.commit()
    needs_diff = run.stage.checks.code_changed
    changed = bool(await run.job.tree.changed_files()) if needs_diff else False
    checks = run.stage.checks
    named = await asyncio.to_thread(named_files, run.job) if checks.named_files else ()
    tests = await asyncio.to_thread(named_tests, run.job) if checks.named_tests else ()
    lacking = len(run.state.files_read) < checks.files_read
    readable = await asyncio.to_thread(count_readable, run.job, checks.files_read) if lacking else None
    question = run.job.task.is_question
    verdict = check_activity(checks, run.state, changed, named, tests, readable, question)
    if isinstance(verdict, Pass):
        if answer.strip() and _is_answer(run):
            run.record(AnswerGiven(text=shorten(answer.strip(), ANSWER_CHARS)))
        run.record(StageDoneSignalled(note=note, implied=implied))
        run.record(CheckFinished(check="exit", verdict="pass"))
    elif isinstance(verdict, Fail) and not quiet:
        run.record(CheckFinished(check=verdict.kind, verdict="fail", reason=verdict.reason))
    return "" if isinstance(verdict, Pass) else verdict.reason


def keep_conclusion(run: StageRun, note: Note) -> None:
    """What the model says in its final turn is kept, although a check does not accept it."""
    refused = note.model_copy(update={"accepted": False})
    if run.state.conclusion != refused:  # it is there already if a crash came right after it
        run.record(StageDoneSignalled(note=refused))


def _is_answer(run: StageRun) -> bool:
    """Whether what the model says at the end of this stage answers the task: the flow's last stage does."""
    stages, specs = run.job.conversations, [tool.spec for tool in run.job.tools.values()]
    writes = any(spec.category == "write" and stage.tools.admits(spec) for stage in stages for spec in specs)
    last = stages[-1]
    is_last = run.stage.id == last.id or bool(last.foreach and run.stage.item)
    return is_last and (run.job.task.is_question or not writes)


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


def named_tests(job: Job) -> tuple[str, ...]:
    """The tests that exist for what the task names, as they are shown."""
    return tuple(map(show_path, find_tests(job.task.request, list(job.context.workspace.files()))))


def count_readable(job: Job, most: int) -> int:
    """How many files a model could read, up to `most`; in a large repository only some are looked at.

    What configures Headgate says nothing about the task.
    """
    found = 0
    for path in islice(job.context.workspace.files(), MOST_LOOKED_AT):
        if path in job.task.config_files:
            continue
        with suppress(ToolError):
            found += not job.context.workspace.read(path).is_binary
        if found >= most:
            break
    return found


async def judge_exhausted(run: StageRun, decision: Decision) -> Decision:
    """A stage that is to read, and in which nothing was read, fails where it would otherwise be left."""
    must_read = run.stage.checks.files_read and not run.state.files_read
    if decision.action != "advance" or decision.reason == "done" or not must_read:
        return decision
    if not await asyncio.to_thread(count_readable, run.job, 1):
        return decision
    return Decision("fail", decision.reason, "no file was read")


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
