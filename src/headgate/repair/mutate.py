"""The kind `mutate`: small changes to suspect lines, tried out in copies of the tree without asking anybody.

A change is selected by half of the tests that fail. It counts only if all others pass, too: the other half of
those that fail, and those that passed before. If the tests that select let several changes through that the
others refuse, they say too little, and no change counts. If several changes pass, the most plausible one is
taken, or the model chooses if the stage has a prompt.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from headgate.checks import Verification
from headgate.config import fill_text
from headgate.core import (
    CandidateTried,
    Data,
    Decision,
    Message,
    MessageAdded,
    Note,
    Pass,
    ReplyReceived,
    Request,
    Stage,
    clean_text,
    show_path,
)
from headgate.errors import ToolError
from headgate.repair.answers import Partial, code_identity, code_mark
from headgate.repair.keeping import (
    OUTRUN,
    Judged,
    drop,
    is_late,
    is_outrun,
    keep,
    open_write,
    settle,
)
from headgate.repair.mutations import Mutation, mutations
from headgate.repair.questions import known_facts
from headgate.repair.suspects import memory_of, places
from headgate.run import Job, Kind, StageEnd, StageRun, Trials, ask_model, reply_content
from headgate.scouts import Suspect
from headgate.workspace import CopyImpossible, FileChange

AT_A_TIME = 6
"""So many changes of a line are tried before the first ones of the next line get their turn."""
MORE = 12
"""So many more changes are tried once one passes: what else passes shows what the tests leave open."""


class MutateSettings(Data):
    """The settings of a stage of the kind `mutate`."""

    trials: int = Field(300, ge=1)
    """How many changes to try."""
    suspects: int = Field(20, ge=1)
    """How many lines to change, the most suspect first."""
    slow: float = Field(3.0, ge=0)
    """Try nothing where the check takes longer, in seconds."""
    failing: int = Field(2, ge=1)
    """Try nothing where fewer tests fail: one selects a change, and another one has to confirm it."""
    longest: float = Field(3.0, gt=0)
    """Give a trial up that takes longer, in seconds, unless the check is slow: a changed loop may not end."""
    doubts: int = Field(10, ge=1)
    """Give up after so many changes that the tests which select let through and the others refuse."""
    choices: int = Field(4, ge=1)
    """How many changes that pass are looked for."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A change that passed."""

    suspect: Suspect
    mutation: Mutation
    change: FileChange
    mark: str

    @property
    def words(self) -> str:
        before, after = (" ".join(text.split())[:200] for text in (self.mutation.before, self.mutation.after))
        return f"`{before}` became `{after}`" if before else f"`{after}` was added"


async def mutate(run: StageRun) -> StageEnd:
    """Tries changes in order, and writes one that passes."""
    begun = open_write(run.job, run.path)
    if begun and not settle(run, begun, "mutation", "as recorded before an interruption"):
        drop(run, begun)  # it is found again
    await run.job.log.commit()
    if not run.state.done and (missed := await _find(run)):
        return StageEnd(missed)
    return StageEnd(Decision("advance", "done"), run.state.done or Note())


async def _find(run: StageRun) -> Decision | None:
    """Looks for changes that pass, and writes one; returns how the stage ends if none is written."""
    job = run.job
    try:
        found = await _search(run)
    except CopyImpossible as error:
        return Decision("skip", "no_copy", job.redact(clean_text(str(error))))
    run.turn += 1
    found.sort(key=lambda each: each.mutation.rank)
    chosen = found[0] if found else None
    if len(found) > 1 and run.stage.prompt:
        chosen = await _choose(run, found)
    if chosen:
        async with memory_of(job).trying:
            if await keep(run, Judged(_tried(run, chosen), (chosen.change,))):
                return None
    await job.log.commit()
    return OUTRUN if is_outrun(run) else Decision("skip", "no_mutation", "no small change passes all tests")


async def _search(run: StageRun) -> list[_Found]:
    """The changes that pass, up to as many as the model is to choose from."""
    job, settings = run.job, MutateSettings.model_validate(run.stage.settings)
    memory, trials = memory_of(job), Trials(job, settings.longest, quiet=True)
    assert memory.evidence is not None
    selecting = frozenset(sorted(memory.evidence.failing)[::2])
    passed: list[_Found] = []
    doubts, tried, most, waited = 0, 0, settings.trials, 0.0
    for candidate in await asyncio.to_thread(lambda: list(_candidates(job, settings))):
        is_enough = tried == most or doubts == settings.doubts or len(passed) == settings.choices
        if is_enough or is_late(run, waited) or is_outrun(run):
            break
        since = job.now()
        async with memory.trying:
            waited += job.now() - since
            if candidate.mark in memory.tried:
                continue
            result = await trials.verify([candidate.change])
        tried += 1
        if isinstance(result.verdict, Pass):
            passed.append(candidate)
            most = min(most, tried + MORE) if len(passed) == 1 else most
        else:
            if not is_cut_short(result):  # an answer that says the same gets more time
                memory.tried.add(candidate.mark)
            doubts += _is_doubtful(result, selecting)
            _keep_partial(job, candidate.change, result)
    return [] if doubts == settings.doubts else passed


def _candidates(job: Job, settings: MutateSettings) -> Iterator[_Found]:
    """Every change to every suspect line: the most suspect lines first, but none before all others."""
    evidence = memory_of(job).evidence
    assert evidence is not None
    found: list[tuple[int, int, _Found]] = []
    for rank, suspect in enumerate(places("line", evidence)[: settings.suspects]):
        try:
            file = job.context.workspace.read(show_path(suspect.path))
        except ToolError:
            continue  # it is gone
        has_returns = "\r\n" in file.text
        for number, mutation in enumerate(mutations(file.text.replace("\r\n", "\n"), suspect.line)):
            source = mutation.source.replace("\n", "\r\n") if has_returns else mutation.source
            mark = code_mark(suspect.path, code_identity(source, is_python=True))
            change = FileChange(file.path, file.data, source.encode("utf-8", "surrogateescape"))
            found.append((rank + number // AT_A_TIME, rank, _Found(suspect, mutation, change, mark)))
    found.sort(key=lambda each: each[:2])
    yield from (each for _, _, each in found)


def _is_doubtful(result: Verification, selecting: frozenset[str]) -> bool:
    """Whether the tests that select would have let this through."""
    left = {failure.name for failure in result.failures}
    return bool(left) and not left & selecting and not is_cut_short(result)


def is_cut_short(result: Verification) -> bool:
    """Whether a trial took too long: on a busy machine, that says nothing about the change."""
    return any(step.timed_out for step in result.steps)


def _keep_partial(job: Job, change: FileChange, result: Verification) -> None:
    """What fixes a part may be what an answer lacks."""
    memory = memory_of(job)
    assert memory.evidence is not None
    left = frozenset(failure.name for failure in result.failures)
    if left and left < set(memory.evidence.failing):
        memory.partials.append(Partial(change, left))


async def _choose(run: StageRun, found: list[_Found]) -> _Found | None:
    """Shows the model what passed; the first one where it makes no choice."""
    job = run.job
    if job.is_pressed:
        return found[0]
    shown = "\n".join(f"{number}. {each.suspect.place}: {each.words}" for number, each in enumerate(found, 1))
    wanted = fill_text(run.stage.prompt, changes=shown)
    system, known = known_facts(job, run.stage, found[0].suspect)
    text = job.redact(clean_text(f"{known}\n\n{wanted.strip()}"))
    run.record(MessageAdded(role="user", slug="question"), text)
    request = Request(
        (Message("system", job.redact(clean_text(system))), Message("user", text)),
        temperature=0,
        max_tokens=16,
    )
    async with memory_of(job).asking:
        if is_outrun(run):
            return None
        reply = await ask_model(run, request)
    if reply is None:
        return found[0]
    asked = job.model_settings[run.stage.model]
    run.record(ReplyReceived.of(reply, asked), reply_content(reply.message))
    await job.log.commit()
    number = re.search(r"\d+", reply.message.content)
    chosen = int(number[0]) if number else 1
    return found[chosen - 1] if 0 < chosen <= len(found) else None if chosen == 0 else found[0]


def _tried(run: StageRun, found: _Found) -> CandidateTried:
    place, words = (run.job.redact(clean_text(text)) for text in (found.suspect.place, found.words))
    return CandidateTried(
        place=place, verdict="passed", reason=words, fingerprint=found.mark, origin="mutation"
    )


def _adapt(job: Job, stage: Stage) -> Stage | None:
    """None where nothing could be confirmed, or a trial takes too long."""
    settings, answers = MutateSettings.model_validate(stage.settings), job.state.answers
    if stage.id in job.state.tree.attempts:
        return stage
    evidence = memory_of(job).evidence
    if evidence is None or answers.opening is None or answers.repaired:
        return None
    took = sum(step.seconds for step in answers.opening.steps)
    fits = took <= settings.slow and len(evidence.failing) >= settings.failing and places("line", evidence)
    return stage if fits else None


MUTATE = Kind("mutate", mutate, settings=MutateSettings, adapt=_adapt, runs_beside=True)
