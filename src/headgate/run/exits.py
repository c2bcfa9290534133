"""Leaving a stage: the model's signal, or a satisfied rule, and what the checks say to it."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

from headgate.checks import Check
from headgate.config import fill
from headgate.core import (
    AnswerGiven,
    Broken,
    CheckFinished,
    Decision,
    Fail,
    Flow,
    Note,
    Pass,
    Plan,
    PlanItem,
    StageDoneSignalled,
    StageState,
    State,
    bound_note,
    clean_text,
    path_words,
    shorten,
    show_path,
)
from headgate.errors import ToolError
from headgate.first_use import dataclass
from headgate.reading import TaskDiff, find_tests
from headgate.run.job import Job
from headgate.run.outputs import find_output_fault
from headgate.run.stage import StageRun
from headgate.run.trials import was_red

MOST_LOOKED_AT = 200
MOST_NAMED = 10
"""A task that lists more files than this does not mean that each has to be read first."""


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """The facts for one check about one attempt. Nothing is looked up before a check asks."""

    run: StageRun
    was_told: bool = False
    """Whether the model was told what this check found in the diff, and this is the second look."""

    @property
    def request(self) -> str:
        return self.run.job.request

    @property
    def text(self) -> str:
        return self.run.job.task.text

    @property
    def tests_closed(self) -> bool:
        return self.run.job.pinned.tests_closed

    @property
    def attempt(self) -> StageState:
        return self.run.state

    @property
    def plan(self) -> Sequence[PlanItem]:
        return self.run.job.state[Plan].items

    @property
    def open_stages(self) -> Sequence[str]:
        return self.run.conversation.open_stages(self.run)

    @property
    def has_acted(self) -> bool:
        job = self.run.job
        if not self.run.stage.execution:
            return True
        names = [leaf.id for leaf in job.stages_beside(self.run.path)]
        tried = [attempt for name in names for attempt in job.state.tree.attempts.get(name, ())]
        runs = {
            tool.name for tool in job.parts.tools.values() if tool.spec.category == "run" or tool.acts_itself
        }
        return any(attempt.files_changed or runs & attempt.calls.keys() for attempt in tried)

    @property
    def state(self) -> State:
        return self.run.job.state

    @property
    def flow(self) -> Flow:
        return self.run.job.flow

    def last_error(self, beginning: str) -> str:
        failed = (one.content for one in reversed(self.run.transcript.messages) if one.failed)
        return next((text for text in failed if text.startswith(beginning)), "")

    async def changed_files(self) -> Sequence[str]:
        return await self.run.job.place.tree.changed_files()

    async def named_files(self) -> Sequence[str]:
        return await asyncio.to_thread(_named_files, self.run.job)

    async def named_tests(self) -> Sequence[str]:
        return await asyncio.to_thread(_named_tests, self.run.job)

    async def count_readable(self, most: int) -> int:
        return await asyncio.to_thread(_count_readable, self.run.job, most)

    async def diff(self) -> TaskDiff:
        return await self.run.job.place.tree.own_diff()

    async def was_red(self) -> bool | None:
        return await was_red(self.run.job)


def _named_files(job: Job) -> tuple[str, ...]:
    """The files that the task names and a model can read, as they are shown."""
    found: dict[str, None] = {}
    for word in path_words(job.request):
        with suppress(ToolError):
            file = job.place.context.workspace.read(word)
            if not file.is_binary:
                found[show_path(file.path)] = None
        if len(found) == MOST_NAMED:
            break
    return tuple(found)


def _named_tests(job: Job) -> tuple[str, ...]:
    """The tests that exist for what the task names, as they are shown."""
    return tuple(map(show_path, find_tests(job.request, list(job.place.context.workspace.files()))))


def _count_readable(job: Job, most: int) -> int:
    """How many files a model could read, up to `most`; in a large repository only some are looked at.

    What configures Headgate says nothing about the task.
    """
    found = 0
    for path in islice(job.place.context.workspace.files(), MOST_LOOKED_AT):
        if path in job.task.config_files:
            continue
        with suppress(ToolError):
            found += not job.place.context.workspace.read(path).is_binary
        if found >= most:
            break
    return found


ANSWER_CHARS = 20_000
"""What is kept of an answer."""


class NotDone(ToolError):
    """The model asked to leave a stage in which something is missing."""

    slug = "not_done"


async def leave_stage(run: StageRun, said: Note) -> Note:
    """The model's closing signal; returns the note that is kept. NotDone says what is missing."""
    clean = Note.model_validate(clean_value(run, said.model_dump()))
    note = bound_note(clean)
    missing = await try_exit(run, note, answer=clean.summary)
    if missing and run.state.counts.granted:
        keep_refused_note(run, note)
    if missing:
        raise NotDone(fill("not_done", stage=run.stage.id, reason=missing))
    return note


async def try_exit(
    run: StageRun, note: Note, *, answer: str = "", by: Literal["signal", "words", "rules"] = "signal"
) -> str:
    """Runs the stage's checks; returns what is missing, or nothing if the stage may be left.

    `answer`: the model's words, whole, which the log keeps where they are all that the task asks for.

    What they say is recorded with the answer to the model, in the caller's commit. `by`: the closing signal,
    words instead of it, or rules that are tried after every turn. With rules, only success is recorded.
    """
    await run.job.log.commit()
    if fault := await find_output_fault(run.job, run.stage, note):
        if by != "rules":
            run.record(CheckFinished(check="output", verdict="fail", reason=fault))
        return fault
    for check, argument in _stage_checks(run):
        verdict = await check.judge(AttemptFacts(run), argument)
        if isinstance(verdict, Pass):
            continue
        if by != "rules" or isinstance(verdict, Broken):
            run.record(_say_failed(check, verdict))
        return verdict.reason
    if answer.strip() and (_is_answer(run) or await _has_insisted(run)):
        run.record(AnswerGiven(text=shorten(answer.strip(), ANSWER_CHARS)))
    run.record(StageDoneSignalled(note=note, implied=by != "signal"))
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


def keep_refused_note(run: StageRun, note: Note) -> None:
    """What the model says in its final turn is kept, although a check does not accept it."""
    refused = note.model_copy(update={"accepted": False})
    if run.state.conclusion != refused:  # it is there already if a crash came right after it
        run.record(StageDoneSignalled(note=refused))


def _is_answer(run: StageRun) -> bool:
    """Whether what the model says at the end of this stage is the answer of a flow that only reads."""
    stages, specs = run.job.conversations, [tool.spec for tool in run.job.parts.tools.values()]
    last = stages[-1]
    if run.stage.id != last.id and not (last.foreach and run.stage.item):
        return False
    # A stage that leads others writes, though not itself.
    return "rewrites_plan" not in run.kind.roles and not any(
        spec.category == "write" and stage.tools.admits(spec) for stage in stages for spec in specs
    )


async def _has_insisted(run: StageRun) -> bool:
    """Whether the model was asked for a change, and left everything as it was: its answer is the result."""
    return bool(run.state.refused_by["change_or_answer"]) and not await run.job.place.tree.changed_files()


async def fail_if_too_little_done(run: StageRun, decision: Decision) -> Decision:
    """A stage in which too little was done fails where it would otherwise be left."""
    if decision.reason == "done":
        return decision
    for check, argument in _stage_checks(run):
        if missing := await check.still_missing(AttemptFacts(run), argument):
            return Decision("fail", decision.reason, missing)
    return decision


def clean_value(run: StageRun, value: Any) -> Any:
    """Text from the model may hold secrets it has seen and characters that cannot be stored."""
    match value:
        case str():
            return run.job.place.redact(clean_text(value))
        case list() | tuple():
            return [clean_value(run, item) for item in value]
        case dict():
            return {clean_value(run, key): clean_value(run, item) for key, item in value.items()}
        case _:
            return value
