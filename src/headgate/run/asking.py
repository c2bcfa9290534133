"""One request to a model: how long its reply may take and may be, and what becomes of one that is cut off."""

import asyncio
from dataclasses import replace

from headgate.core import (
    CHARS_PER_CODE_TOKEN,
    CHARS_PER_TOKEN,
    Delta,
    OnDelta,
    Reply,
    Request,
    Servers,
    estimate_missing,
    request_size,
)
from headgate.errors import ReplyInvalid
from headgate.models import find_window
from headgate.run.job import STOP_POLL, Job

# How long a reply may be.


LEAST_REPLY = 256
"""In tokens. Where less of the window is left, the conversation has to be cut."""
_MARGIN_OF_SIZE = 0.15
"""By how much a request may be larger than the ones before it let expect: code has more tokens than prose."""
_MOST_CHARS_PER_TOKEN = 5.0
"""A server that counts less than this has left out what it had in its cache."""


def known_window(job: Job, model: str | None) -> int | None:
    """The context window of a model in tokens: less than it is said to be, if its server has cut a prompt."""
    window = find_window(job.models.clients[model], job.models.settings[model])
    found = job.state[Servers].cut
    if found and found.window and found.model == job.models.settings[model].model:
        window = min(window or found.window, found.window)
    return window


def limit_reply(job: Job, model: str | None, request: Request) -> Request:
    """The request with the least limit on its reply: its own, the model's, or what the window has left."""
    given = [limit for limit in (request.max_tokens, job.models.settings[model].max_tokens) if limit]
    if not given:
        return request
    if window := known_window(job, model):
        sent = request_size(request) / job.models.chars_per_token.get(model, CHARS_PER_CODE_TOKEN)
        given.append(max(window - int(sent * (1 + _MARGIN_OF_SIZE)), LEAST_REPLY))
    return replace(request, max_tokens=min(given))


def _learn_size(job: Job, model: str | None, request: Request, reply: Reply) -> None:
    """Takes note of how many characters of a request its server counts as a token."""
    if reply.usage.prompt and not reply.cut:
        chars = request_size(request) / reply.usage.prompt
        job.models.chars_per_token[model] = min(max(chars, 1.0), _MOST_CHARS_PER_TOKEN)


# How long it may take.


STOPPED = "The task was asked to conclude before the reply ended."
_MARGIN = 0.05
"""Clocks differ: what was cut off for lack of time must find the time used up."""


class ReplyTooLong(ReplyInvalid):
    """The model was still answering when its time was up."""


class _Heard:
    """What has come of a reply, for one that is cut off."""

    def __init__(self, on_delta: OnDelta | None) -> None:
        self._on_delta = on_delta
        self._pieces: list[str] = []
        self._thoughts: list[str] = []

    def hear(self, delta: Delta) -> None:
        tool = f"{delta.tool} " if delta.tool else ""
        self._pieces += filter(None, (delta.text, tool, delta.arguments))
        self._thoughts.append(delta.reasoning)
        if self._on_delta:
            self._on_delta(delta)

    def cut_off(self, why: str, request: Request) -> ReplyTooLong:
        """The error; the server has read all of the request and written what came."""
        said, thoughts = "".join(self._pieces), "".join(self._thoughts)
        error = ReplyTooLong(why)
        written = (len(said) + len(thoughts)) // CHARS_PER_TOKEN
        error.tokens, error.estimated = (request_size(request) // CHARS_PER_TOKEN, written, 0), True
        error.said = said or thoughts
        return error


async def reply_in_time(
    job: Job,
    model: str | None,
    request: Request,
    on_delta: OnDelta | None = None,
    stage_left: float | None = None,
) -> Reply:
    """A reply that takes longer than it may, or than the task or stage has left, is cut off: ReplyTooLong.

    So is one that a person does not want to wait for. The last words of a task that is to end get a minute,
    if that is left.
    """
    request = limit_reply(job, model, request)
    most, left = job.models.settings[model].timeouts.reply, job.seconds_left()
    said = f"The reply took longer than {most:g} s and was cut off."
    if left is not None and left < most:
        most, said = left, "The task ran out of time before the reply ended."
    is_stopped = job.people.stopping()
    is_last = is_stopped or most <= 0
    if is_last:
        most = min(most, job.models.last_seconds) if most > 0 else job.models.last_seconds
        if (at_most := job.seconds_to_deadline()) is not None:
            most = min(most, at_most)
        if most <= 0:
            raise ReplyTooLong(said)
    if stage_left is not None and stage_left < most:
        most, said = stage_left, "The stage ran out of time before the reply ended."
        if most <= 0:
            raise ReplyTooLong(said)
    began, heard = job.clock.now(), _Heard(on_delta)
    try:
        async with asyncio.timeout(most + _MARGIN) as limit:
            watch = None if is_stopped else _StopWatch(job, limit)
            try:
                reply = await job.models.clients[model].reply(request, heard.hear if on_delta else None)
            finally:
                if watch:
                    watch.end()
    except TimeoutError:
        if not limit.expired():
            raise
        raise heard.cut_off(STOPPED if job.people.stopping() else said, request) from None
    finally:
        if is_last:
            job.models.last_seconds = max(job.models.last_seconds - (job.clock.now() - began), 0.0)
    _learn_size(job, model, request, reply)
    return estimate_missing(reply, request)


class _StopWatch:
    """Leaves a reply only a few seconds more once somebody wants the task concluded."""

    def __init__(self, job: Job, limit: asyncio.Timeout) -> None:
        self._people, self._limit = job.people, limit
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(STOP_POLL, self._look)

    def _look(self) -> None:
        if not self._people.stopping():
            self._next = self._loop.call_later(STOP_POLL, self._look)
            return
        soon, due = self._loop.time() + self._people.stop_seconds, self._limit.when()
        if (due is None or soon < due) and not self._limit.expired():
            self._limit.reschedule(soon)

    def end(self) -> None:
        """The reply has come, or is not waited for any more."""
        self._next.cancel()
