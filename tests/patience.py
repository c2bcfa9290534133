"""Short timeouts on machines that may be slow."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def in_time(attempt: Callable[[float], Awaitable[T]], got_there: Callable[[T], bool]) -> T:
    """What came of an attempt with a timeout that was long enough for it to get to a certain point.

    A busy machine may need longer than a tenth of a second for that; then there is another attempt, which has
    twice the time.
    """
    seconds = 0.25
    while True:
        result = await attempt(seconds)
        if got_there(result) or seconds > 60:
            return result
        seconds *= 2
