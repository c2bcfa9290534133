"""The kind `mutate`: small changes to suspect lines, tried out in copies of the tree without asking anybody.

A change counts if all tests pass, and at least two that failed before are among them. Many changes that pass
half of those and not the rest show that the tests say too little: then no change counts. If several changes
pass, the most plausible one is taken, or the model chooses if the stage has a prompt.
"""

import asyncio
import re
from collections import deque
from itertools import islice

from headgate.config import fill_text
from headgate.core import (
    AnswersTried,
    CandidateTried,
    Decision,
    Message,
    MessageAdded,
    Note,
    ReplyReceived,
    Request,
    Role,
    Stage,
    clean_text,
    show_path,
)
from headgate.errors import ToolError
from headgate.features.repair.keeping import (
    OUTRUN,
    Judged,
    drop,
    is_late,
    is_outrun,
    keep,
    open_write,
    settle,
)
from headgate.features.repair.mutation_search import (
    MOST_PAIRS,
    Candidate,
    MutateSettings,
    Search,
    candidates,
    take_some,
)
from headgate.features.repair.outside_effects import outside_modules, reaches_out
from headgate.features.repair.questions import known_facts
from headgate.features.repair.suspects import memory_of, places
from headgate.reading import parse_python
from headgate.run import Job, Kind, StageEnd, StageRun, ask_model, reply_content
from headgate.tree import CopyImpossible


async def _find(run: StageRun) -> Decision | None:
    """Looks for changes that pass, and writes one; returns how the stage ends if none is written."""
    job = run.job
    try:
        found = await _search(run)
    except CopyImpossible as error:
        return Decision("skip", "no_copy", job.place.redact(clean_text(str(error))))
    run.turn += 1
    found.sort(key=lambda each: each.rank)
    chosen = found[0] if found else None
    if len(found) > 1 and run.stage.prompt:
        chosen = await _choose(run, found)
    if chosen:
        async with memory_of(job).trying:
            if await keep(run, Judged(_tried(run, chosen), chosen.changes)):
                return None
    await job.log.commit()
    return OUTRUN if is_outrun(run) else Decision("skip", "no_mutation", "no small change passes all tests")


async def _search(run: StageRun) -> list[Candidate]:
    """The changes that pass, up to as many as the model is to choose from."""
    job, settings = run.job, MutateSettings.model_validate(run.stage.settings)
    memory, search = memory_of(job), Search(job, settings)
    source, waiting = candidates(job, settings), deque[Candidate]()
    waited, is_alone = 0.0, True
    while not (search.is_over or is_late(run, waited) or is_outrun(run)):
        if not waiting:
            waiting.extend(await asyncio.to_thread(take_some, source))
        if not waiting and is_alone and not search.passed:
            source, is_alone = islice(search.pairs(), MOST_PAIRS), False
            continue
        if not waiting:
            break
        since = job.clock.now()
        async with memory.trying:
            waited += job.clock.now() - since
            await search.try_next(waiting)
    return [] if search.doubts >= settings.doubts else search.passed


async def _choose(run: StageRun, found: list[Candidate]) -> Candidate | None:
    """Shows the model what passed; the first one where it makes no choice."""
    job = run.job
    if job.must_end:
        return found[0]
    shown = "\n".join(f"{number}. {each.place}: {each.words}" for number, each in enumerate(found, 1))
    wanted = fill_text(run.stage.prompt, changes=shown)
    system, known = known_facts(job, run.stage, found[0].suspects[0])
    text = job.place.redact(clean_text(f"{known}\n\n{wanted.strip()}"))
    run.record(MessageAdded(role="user", slug="question"), text)
    request = Request(
        (Message("system", job.place.redact(clean_text(system))), Message("user", text)),
        temperature=0,
        max_tokens=16,
    )
    async with memory_of(job).asking:
        if is_outrun(run):
            return None
        reply = await ask_model(run, request)
    if reply is None:
        return found[0]
    asked = job.models.settings[run.stage.model]
    run.record(ReplyReceived.of(reply, asked), reply_content(reply.message))
    await job.log.commit()
    number = re.search(r"\d+", reply.message.content)
    chosen = int(number[0]) if number else 1
    return found[chosen - 1] if 0 < chosen <= len(found) else None if chosen == 0 else found[0]


def _tried(run: StageRun, found: Candidate) -> CandidateTried:
    place, words = (run.job.place.redact(clean_text(text)) for text in (found.place, found.words))
    return CandidateTried(
        place=place, verdict="passed", reason=words, fingerprint=found.mark, origin="mutation"
    )


def _is_risky(job: Job) -> bool:
    """Whether code that failing tests run may reach files, processes or the network."""
    evidence = memory_of(job).evidence
    for path in {suspect.path for suspect in evidence.suspects} if evidence else ():
        try:
            module = parse_python(job.place.context.workspace.read(show_path(path)).text)
        except ToolError:
            continue  # it is gone
        if module and reaches_out(module, outside_modules(module)):
            return True
    return False


class Mutate(Kind):
    """The kind `mutate`."""

    name = "mutate"
    settings = MutateSettings
    roles = frozenset[Role]({"runs_beside", "may_not_apply"})

    async def run(self, run: StageRun) -> StageEnd:
        """Tries changes in order, and writes one that passes."""
        begun = open_write(run.job, run.path)
        if begun and not settle(run, begun, "mutation", "as recorded before an interruption"):
            drop(run, begun)  # it is found again
        await run.job.log.commit()
        if not run.state.counts.done and (missed := await _find(run)):
            return StageEnd(missed)
        return StageEnd(Decision("advance", "done"), run.state.counts.done or Note())

    def adapt(self, job: Job, stage: Stage) -> Stage | None:
        """None where nothing could be confirmed, or a trial takes too long."""
        settings, answers = MutateSettings.model_validate(stage.settings), job.state[AnswersTried]
        if stage.id in job.state.tree.attempts:
            return stage
        evidence = memory_of(job).evidence
        if evidence is None or answers.opening is None or answers.repaired:
            return None
        took = sum(step.seconds for step in answers.opening.steps)
        failing = max(len(evidence.failing), len(evidence.cases))
        fits = took <= settings.slow and failing >= settings.failing and places("line", evidence)
        verifier = job.place.verifier
        return stage if fits and (verifier is None or verifier.sandbox or not _is_risky(job)) else None
