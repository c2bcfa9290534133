"""Leaving a stage: the model's signal, or a satisfied rule, and what the checks say to it."""

from collections.abc import Iterator
from typing import Any

from headgate.checks import Check
from headgate.config import fill
from headgate.core import (
    AnswerGiven,
    Broken,
    CheckFinished,
    Decision,
    Fail,
    Note,
    Pass,
    StageDoneSignalled,
    bound_note,
    clean_text,
    shorten,
)
from headgate.errors import ToolError
from headgate.run.facts import AttemptFacts
from headgate.run.leaf import StageRun

ANSWER_CHARS = 20_000
"""What is kept of an answer."""


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
    for check, argument in _stage_checks(run):
        verdict = await check.judge(AttemptFacts(run, check.name), argument)
        if isinstance(verdict, Pass):
            continue
        if not quiet or isinstance(verdict, Broken):
            run.record(_say_failed(check, verdict))
        return verdict.reason
    if answer.strip() and _is_answer(run):
        run.record(AnswerGiven(text=shorten(answer.strip(), ANSWER_CHARS)))
    run.record(StageDoneSignalled(note=note, implied=implied))
    run.record(CheckFinished(check="exit", verdict="pass"))
    return ""


def _stage_checks(run: StageRun) -> Iterator[tuple[Check, int]]:
    """The checks of a stage, in the order in which they run, with their arguments."""
    for check in run.job.checks_of(run.stage):
        yield check, int(run.stage.checks[check.name])


def _say_failed(check: Check, verdict: Fail | Broken) -> CheckFinished:
    """What is recorded about a refusal: its sentence for the model, and words for people."""
    spec = check.spec
    if isinstance(verdict, Broken):
        return CheckFinished(check=check.name, verdict="broken", reason=verdict.reason)
    return CheckFinished(
        check=check.name,
        verdict="fail",
        reason=verdict.reason,
        clause=spec.clause,
        exact_clause=verdict.clause,
        said_done=spec.said_done,
    )


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


async def judge_exhausted(run: StageRun, decision: Decision) -> Decision:
    """A stage in which too little was done fails where it would otherwise be left."""
    if decision.action != "advance" or decision.reason == "done":
        return decision
    for check, argument in _stage_checks(run):
        if missing := await check.still_missing(AttemptFacts(run, check.name), argument):
            return Decision("fail", decision.reason, missing)
    return decision


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
