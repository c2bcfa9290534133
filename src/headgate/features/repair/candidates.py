"""Whole answers instead of tool calls: each is tried in a copy of the tree, the first that passes is written.

A turn is one answer. What was answered before is never shown again: small models repeat what they see.
"""

import asyncio
from typing import Literal

from headgate.checks import Verification
from headgate.core import (
    AnswersTried,
    Body,
    Candidates,
    CandidateTried,
    Decision,
    Message,
    MessageAdded,
    Pass,
    Reply,
    ReplyFailed,
    ReplyReceived,
    Request,
    Role,
    Stage,
    StageEnded,
    clean_text,
    show_path,
)
from headgate.features.repair.answers import (
    CODE,
    Partial,
    answered_sources,
    code_identity,
    code_mark,
    partners,
)
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
from headgate.features.repair.questions import Question, askable, pose, question_key, reachable
from headgate.features.repair.suspects import memory_of
from headgate.run import (
    Job,
    Search,
    StageEnd,
    StageRun,
    Trials,
    ask_model,
    read_reply,
    reply_content,
    take_step,
)
from headgate.tree import CopyImpossible, FileChange

STOP = ("\n```\n\n",)
"""The end of a block of code, and not the beginning of one: what would follow is talk."""
LISTED = 12
_BLOT = "[redacted]"
"""What a model is shown in the place of a secret: it is not to be written over the secret itself."""


async def take_candidate(run: StageRun) -> None:
    """Asks for one answer and tries it. Everything that happens is recorded."""
    job, candidates = run.job, Candidates.model_validate(run.stage.settings)
    memory = memory_of(job)
    run.turn += 1
    question = pose(job, run.stage, run.state.counts.turns)
    system, text = (job.place.redact(clean_text(part)) for part in (question.system, question.text))
    if text != memory.said:
        run.record(MessageAdded(role="user", slug="question"), text)
        memory.said = text
    request = Request(
        (Message("system", system), Message("user", text)),
        temperature=candidates.temperature,
        max_tokens=candidates.max_tokens,
        stop=() if candidates.as_json else STOP,
        form=CODE if candidates.as_json else None,
    )
    async with memory.asking:
        reply = await ask_model(run, request)
    if reply is not None:
        memory.cut_off[run.path] += reply.finish == "length"
        asked = job.models.settings[run.stage.model]
        run.record(ReplyReceived.of(reply, asked), reply_content(reply.message))
        await job.log.commit()
        await _try(run, question, reply)
    await job.log.commit()


async def _try(run: StageRun, question: Question, reply: Reply) -> None:
    """Has an answer judged, and writes it if it passed; the stage is over once one is written.

    Until then the model has nothing to do, so nothing else is tried in between.
    """
    memory = memory_of(run.job)
    async with memory.trying:
        if is_outrun(run):
            return
        try:
            judged = await _judge(run, question, reply)
        except CopyImpossible as error:
            judged = Judged(_tried(run, question, "refused", str(error)))
        _keep_in_mind(run, judged.tried)
        if not judged.changes:
            run.record(judged.tried)
        else:
            await keep(run, judged)


def _keep_in_mind(run: StageRun, tried: CandidateTried) -> None:
    """Notes that a question was asked, and whether its answer was useless."""
    memory = memory_of(run.job)
    memory.asked.setdefault(question_key(run.stage, tried.place), run.stage.id)
    is_stale = tried.verdict in ("unchanged", "repeated", "unusable")
    memory.stale[run.path] = memory.stale[run.path] + 1 if is_stale else 0


async def _judge(run: StageRun, question: Question, reply: Reply) -> Judged:
    """Puts an answer in its place and has it checked, unless it is none, or was there before."""
    job, suspect = run.job, question.suspect
    file = await asyncio.to_thread(job.place.context.workspace.read, show_path(suspect.path))
    is_python = suspect.path.endswith(".py")
    if reply.finish == "length":
        return Judged(_tried(run, question, "unusable", "it was cut off at its length limit"))
    answer = reply.message.content
    sources = await asyncio.to_thread(
        answered_sources, file.text, answer, suspect, question.ask, is_python=is_python
    )
    if _BLOT in answer and _BLOT not in file.text:
        return Judged(_tried(run, question, "unusable", "it contains a placeholder for a secret"))
    if not sources:
        return Judged(_tried(run, question, "unusable", "it contains no usable code"))
    before = code_identity(file.text, is_python=is_python)
    known = {tried.fingerprint for tried in job.state[AnswersTried].tried}
    verdict, reason, fingerprint = "unchanged", "", ""
    for source in sources:
        identity = code_identity(source, is_python=is_python)
        mark = code_mark(suspect.path, identity)
        if identity == before:
            continue
        if mark in known | memory_of(job).tried:
            verdict = "repeated" if verdict == "unchanged" else verdict
            fingerprint = fingerprint or mark
            continue
        if verdict == "failed" and is_late(run):
            break
        memory_of(job).tried.add(mark)
        change = FileChange(file.path, file.data, source.encode("utf-8", "surrogateescape"))
        found = await Trials(job).verify([change])
        if isinstance(found.verdict, Pass):
            return Judged(_tried(run, question, "passed", "", mark), (change,))
        verdict, reason, fingerprint = "failed", _say_failure(found), fingerprint or mark
        if any(step.timed_out for step in found.steps):
            break  # what does not end here will not end elsewhere
        if together := await _try_together(job, change, found):
            return Judged(_tried(run, question, "passed", "with an earlier answer", mark), together)
    return Judged(_tried(run, question, verdict, reason, fingerprint))


async def _try_together(job: Job, change: FileChange, found: Verification) -> tuple[FileChange, ...]:
    """If an answer fixes a part: the changes of it and of the first earlier one that fixes the rest."""
    memory = memory_of(job)
    assert memory.evidence is not None
    failing = frozenset(failure.name for failure in found.failures)
    if not failing or not failing < set(memory.evidence.failing):
        return ()
    partial = Partial(change, failing)
    for changes in partners(memory.partials, partial):
        if isinstance((await Trials(job).verify(changes)).verdict, Pass):
            return changes
    memory.partials.append(partial)
    return ()


def _tried(
    run: StageRun, question: Question, verdict: str, reason: str = "", mark: str = ""
) -> CandidateTried:
    told = run.job.place.redact(clean_text(reason))
    return CandidateTried.model_validate(
        {"place": clean_text(question.suspect.place), "verdict": verdict, "reason": told, "fingerprint": mark}
    )


def _say_failure(found: Verification) -> str:
    assert not isinstance(found.verdict, Pass)
    count = len(found.failures)
    return f"{count} test{'s' if count != 1 else ''}" if count else found.verdict.reason


async def _settle(run: StageRun, cut_off: bool) -> None:
    """After a crash: an answer that was being written, or that nobody had judged yet, is not lost."""
    job, memory = run.job, memory_of(run.job)
    answer = memory.unjudged.pop(run.path, None)
    begun = open_write(job, run.path)
    if begun and settle(run, begun):
        pass
    elif answer is not None and memory.evidence is not None and not is_outrun(run):
        question = pose(job, run.stage, run.state.counts.turns - 1)
        await _try(run, question, Reply(answer, finish="length" if cut_off else "stop"))
    await job.log.commit()
    if begun and open_write(job, run.path):  # it does not pass any more, or is not needed
        drop(run, begun)
        await job.log.commit()


# The kind of stage that asks for answers.


class Answer(Search):
    """The kind `answer`."""

    name = "answer"
    settings = Candidates
    roles = frozenset[Role]({"runs_beside", "may_not_apply"})

    async def run(self, run: StageRun) -> StageEnd:
        """Asks for one answer after the other, until one passes or the stage's turns are used up."""
        if run.interrupted:
            await _settle(run, run.interrupted.cut_off)
        else:
            await run.job.log.commit()
        settings, memory = Candidates.model_validate(run.stage.settings), memory_of(run.job)
        ends: Literal["skip", "fail"] = "skip" if run.stage.budget.exhausted == "skip" else "fail"
        if not askable(run.job, run.stage):
            return StageEnd(Decision(ends, "nothing_to_ask", "nothing new is left to ask"))
        while not is_outrun(run):
            if settings.cut_off and memory.cut_off[run.path] >= settings.cut_off:
                told = f"{settings.cut_off} replies cut off at the length limit"
                return StageEnd(Decision(ends, "retry_exhaustion", told))
            if settings.stale and memory.stale[run.path] >= settings.stale:
                return StageEnd(
                    Decision(ends, "retry_exhaustion", f"{settings.stale} useless answers in a row")
                )
            if end := await take_step(run, take_candidate):
                return end
        return StageEnd(OUTRUN)

    def adapt(self, job: Job, stage: Stage) -> Stage | None:
        """The stage, with no more turns than there is something new to ask; None if there is nothing."""
        is_new = stage.id not in job.state.tree.attempts
        if is_new and (not reachable(job, stage) or job.state[AnswersTried].repaired):
            return None
        if Candidates.model_validate(stage.settings).temperature != 0:
            return stage
        turns = min(stage.budget.turns, max(len(askable(job, stage)), 1))
        return stage.model_copy(update={"budget": stage.budget.model_copy(update={"turns": turns})})

    def explain_failure(self, job: Job, stage: Stage) -> str:
        tried = len(job.state[AnswersTried].tried)
        return (
            f"None of the {tried} answers passed."
            if tried > 1
            else "The only answer failed."
            if tried
            else ""
        )

    def say_tried(self, job: Job) -> str:
        """What was answered, and how that went, a line each."""
        tried = job.state[AnswersTried].tried[-LISTED:]
        lines = [f"- {each.place}: {each.verdict} {each.reason}".rstrip() for each in tried]
        return "\n".join(["Answers tried:", *lines]) if lines else ""

    def replay(self, run: StageRun, body: Body, content: str) -> None:
        """Keeps the latest answer until its result is known. Answers enter no conversation."""
        memory = memory_of(run.job)
        unjudged = memory.unjudged
        match body:
            case ReplyReceived():
                unjudged[run.path] = read_reply(content)
                memory.cut_off[run.path] += body.finish == "length"
            case CandidateTried():
                _keep_in_mind(run, body)
                unjudged.pop(run.path, None)
            case ReplyFailed() | StageEnded():
                unjudged.pop(run.path, None)
            case _:
                pass
