"""A model that writes summaries, in requests of its own that always fit its context window."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from headgate.config import fill, prompt
from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    Compaction,
    CompactionAgent,
    Message,
    Request,
    Usage,
    clean_text,
    cut_text,
    share_out,
    shorten,
    spent,
)
from headgate.errors import ContextOverflow, ModelError, ModelUnavailable, ReplyInvalid
from headgate.features.compaction.summary import (
    StageRecord,
    chunk_texts,
    files_lines,
    first_line,
    preserved_fields,
    read_answer_object,
    render_answer,
)
from headgate.first_use import dataclass
from headgate.models import find_window
from headgate.run import UNKNOWN_WINDOW, Job, reply_in_time, whole_lines

_TEXTS = {"type": "array", "items": {"type": "string"}}
SUMMARY_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "key_outputs": _TEXTS,
        "decisions": _TEXTS,
        "errors": _TEXTS,
    },
    "required": ["summary", "key_outputs", "decisions", "errors"],
    "additionalProperties": False,
}
"""What a model that writes summaries answers, unless the flow says otherwise."""
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
class Writer:
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
        agent, schema = self.agent, self._schema
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
    def _schema(self) -> Mapping[str, Any]:
        """What its answers must look like."""
        return SUMMARY_SCHEMA if self.agent.output_schema is None else self.agent.output_schema

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
        around = len(self._system) + len(json.dumps(dict(self._schema)))
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
