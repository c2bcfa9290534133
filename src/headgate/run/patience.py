"""How long a reply may take."""

import asyncio

from headgate.core.messages import OnDelta, Reply, Request
from headgate.errors import ReplyInvalid
from headgate.run.job import Job

LAST_SECONDS = 60.0
"""What a last turn gets once the task's time is up: a local model may have to read the prompt again."""
_MARGIN = 0.05
"""Clocks differ: what was cut off for lack of time must find the time used up."""


class ReplyTooLong(ReplyInvalid):
    """The model was still answering when its time was up."""


async def reply_in_time(
    job: Job, model: str | None, request: Request, on_delta: OnDelta | None = None
) -> Reply:
    """A reply that takes longer than it may, or than the task has time for, is cut off: ReplyTooLong."""
    most, left = job.model_settings[model].timeouts.reply, job.seconds_left()
    said = f"The reply took longer than {most:g} s and was cut off."
    if left is not None and left < most:
        most, said = left if left > 0 else LAST_SECONDS, "The task ran out of time before the reply ended."
    try:
        async with asyncio.timeout(most + _MARGIN) as limit:
            return await job.models[model].reply(request, on_delta)
    except TimeoutError:
        if not limit.expired():
            raise
        raise ReplyTooLong(said) from None
