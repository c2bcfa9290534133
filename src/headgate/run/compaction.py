"""Ended stages in conversations that stages share: a summary takes the place of their messages in the view.

By default the runtime writes it. A model may write it instead, in requests of its own that always fit its
context window. If that model fails, the runtime writes it after all.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.config import fill, prompt
from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    Compaction,
    CompactionAgent,
    Message,
    Request,
    StageCompacted,
    StageEnded,
    Usage,
    clean_text,
    cut_text,
    due_stages,
    place_of,
    share_out,
    shorten,
    size_of,
    spent,
    split_path,
)
from headgate.errors import ContextOverflow, ModelError, ModelUnavailable, ReplyInvalid
from headgate.models import find_window
from headgate.run.asking import reply_in_time
from headgate.run.first_messages import UNKNOWN_WINDOW
from headgate.run.job import Job
from headgate.run.stage import StageEnd, StageRun
from headgate.run.stage_summary import (
    StageRecord,
    chunk_texts,
    files_lines,
    first_line,
    preserved_fields,
    read_answer_object,
    render_answer,
    summarise_stage,
    whole_lines,
)
from headgate.run.transcript import Transcript

_GOES_ON = ("advance", "skip", "fail")
"""The decisions after which other stages may read the conversation."""


async def compact_ended(run: StageRun, end: StageEnd, ended: StageEnded) -> None:
    """Called when a stage has ended: replaces what is due in the conversation that it took part in.

    Where the flow ends with the stage, its last question still needs what was said.
    """
    action = end.decision.action
    run.transcript.end_stage(place_of(run.path), ended)
    if action in _GOES_ON and (action != "fail" or not run.stage.required):
        await compact_due(run)


async def compact_due(run: StageRun) -> None:
    """Replaces what is due in a conversation that stages share."""
    job, transcript = run.job, run.transcript
    await compact_asked(job)
    compaction = job.flow.compaction
    if compaction is None or not job.shares_conversation(run.stage):
        return
    for place in due_stages(compaction, _waiting(job, transcript), transcript.view_chars):
        await _compact(job, compaction, transcript, place)


async def compact_asked(job: Job) -> None:
    """Replaces what a program asked for; see `Job.compact`."""
    while job.memory.asked_compactions:
        await compact_stages(job, job.memory.asked_compactions.pop(0))


async def compact_stages(job: Job, stage: str | None = None) -> tuple[StageCompacted, ...]:
    """Replaces the messages of an ended stage, or of all of them, whatever the trigger is.

    Only between turns; at other times, see `Job.compact`.
    """
    done: list[StageCompacted] = []
    for transcript in list(job.memory.transcripts.values()):
        for place in _waiting(job, transcript):
            of_stage = job.stage_at(transcript.spans[place].path)
            wanted = stage is None or split_path(place).name == stage
            if wanted and of_stage and job.shares_conversation(of_stage):
                compaction = job.flow.compaction or Compaction()
                done.append(await _compact(job, compaction, transcript, place))
    await job.log.commit()
    return tuple(done)


def take_summary(job: Job, path: str, body: StageCompacted, summary: str) -> None:
    """Puts a summary into a conversation. The same happens after a crash, with what the log kept."""
    stage = job.stage_at(path)
    assert stage is not None
    transcript = job.transcript_of(stage)
    transcript.replace(place_of(path), body.start, body.end, summary)
    transcript.rebuild(stage.view)


def _waiting(job: Job, transcript: Transcript) -> list[str]:
    """The places of the stages that have ended and have messages in the conversation."""
    return [
        place
        for place, span in transcript.spans.items()
        if span.ended and place not in job.state.tree.retries and transcript.has_said(span)
    ]


async def _compact(job: Job, compaction: Compaction, transcript: Transcript, place: str) -> StageCompacted:
    span = transcript.spans[place]
    entered, ended = job.state.nodes[span.path], span.ended
    assert ended is not None
    start, said = transcript.said_in(span)
    record = StageRecord(entered.title, ended.ending, ended.note, tuple(entered.files_changed), said)
    writer = _Writer(job, compaction.agent) if compaction.agent else None
    text = await writer.write(record, compaction) if writer else ""
    strategy = "agent" if text else compaction.strategy
    text = job.place.redact(clean_text(text or summarise_stage(record, compaction)))
    body = StageCompacted(
        stage=ended.stage,
        start=start,
        end=span.end,
        strategy=strategy,
        chars_before=size_of(said),
        chars_after=size_of([Message("user", text)]),
        **(writer.told() if writer else {}),
    )
    job.log.record(span.path, entered.counts.turns, body, text)
    take_summary(job, span.path, body, text)
    return body


# A model that writes the summary.


PART = 0.5
"""Of the context window, for the messages in one request. The prompt and the answer need the rest."""
LEAST_ROOM = 1_000
MOST_PARTS = 24
"""Messages that would need more requests are shortened first."""
ANSWER_TOKENS = 2_000
TRIES = 2
DETAIL_CHARS = 300


class _Unreadable(ReplyInvalid):
    """The model's answers were not what was asked for."""


@dataclass
class _Writer:
    """Asks a model for a summary and counts what that costs."""

    job: Job
    agent: CompactionAgent
    usage: Usage = field(default_factory=Usage)
    estimated: bool = False
    requests: int = 0
    fault: str = ""
    detail: str = ""

    async def write(self, record: StageRecord, compaction: Compaction) -> str:
        """The summary of a stage; empty if the model failed, with the reason in `fault`."""
        if self.job.must_end:
            self.fault, self.detail = "limit", "The task is to end."
            return ""
        texts = _fitting([line for message in record.messages for line in whole_lines(message)], self._room())
        try:
            answer = await self._condense(record.title, texts)
        except ModelError as error:
            self.fault, self.detail = (
                _fault_of(error),
                shorten(self.job.place.redact(str(error)), DETAIL_CHARS),
            )
            return ""
        said = render_answer(preserved_fields(answer, compaction))
        return "\n".join((first_line(record), said, *files_lines(record)))

    async def _condense(self, title: str, texts: Sequence[str]) -> dict[str, object]:
        """One answer for all texts: where they need several requests, an answer about the answers."""
        room, part = self._room(), "Messages"
        while len(chunks := chunk_texts(texts, room)) > 1:
            answers = [await self._ask(title, part, chunk) for chunk in chunks]
            # Two answers fit one request at least, so there are fewer each time.
            texts = [cut_text(render_answer(answer), room // 3) for answer in answers]
            part = "Summaries of the parts"
        return await self._ask(title, part, chunks[0] if chunks else "(nothing was said)")

    async def _ask(self, title: str, part: str, text: str) -> dict[str, object]:
        """What the model answers, at the second try if need be. ModelError if it does not."""
        agent, schema = self.agent, self.agent.answer_schema
        fields = ", ".join(schema["properties"])
        question = fill("summary", part=part, stage=title, messages=text, fields=fields)
        messages = [Message("user", question)]
        longest = min(ANSWER_TOKENS, self._window // 4)
        if self._system.strip():  # an empty system message is an error to some servers
            messages.insert(0, Message("system", self._system))
        for _ in range(TRIES):
            request = Request(tuple(messages), max_tokens=longest, form=schema)
            self.requests += 1
            try:
                reply = await reply_in_time(self.job, agent.model, request)
            except ReplyInvalid as error:
                self.usage += Usage(*error.tokens)
                self.estimated = self.estimated or error.estimated or not any(error.tokens)
            else:
                self.usage += reply.usage + reply.aside
                self.estimated = self.estimated or reply.estimated
                answer = read_answer_object(clean_text(reply.message.content), schema)
                if answer is not None:
                    return answer
            again = fill("summary_again", fields=fields)
            messages[-1] = Message("user", f"{question}\n\n{again}")
        raise _Unreadable(f"The model did not answer with a JSON object with the fields {fields}.")

    @property
    def _system(self) -> str:
        own = self.agent.system_prompt
        return prompt("summary_system") if own is None else own

    @property
    def _window(self) -> int:
        name = self.agent.model
        return find_window(self.job.models.clients[name], self.job.models.settings[name]) or UNKNOWN_WINDOW

    def _room(self) -> int:
        """The characters of messages that one request may hold."""
        around = len(self._system) + len(json.dumps(dict(self.agent.answer_schema)))
        return max(int(self._window * CHARS_PER_CODE_TOKEN * PART) - around, LEAST_ROOM)

    def told(self) -> dict[str, object]:
        """What the log keeps of it."""
        cost = spent(self.usage, self.job.models.settings[self.agent.model], estimated=self.estimated)
        return {"fault": self.fault, "detail": self.detail, "requests": self.requests, **cost}


def _fitting(texts: list[str], room: int) -> list[str]:
    """The texts, the longest of them shortened if they would need too many requests."""
    limit = share_out([len(text) + 1 for text in texts], MOST_PARTS * room) - 1
    return [cut_text(text, limit) for text in texts]


def _fault_of(error: ModelError) -> str:
    kinds = {ModelUnavailable: "unavailable", ReplyInvalid: "unreadable", ContextOverflow: "overflow"}
    return next((fault for kind, fault in kinds.items() if isinstance(error, kind)), "refused")
