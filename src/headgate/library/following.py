"""Following the events of a run, from its first one on, however late or slow the follower is.

The latest events are passed on as they are. Who is further behind reads the log, so that nothing is kept for
followers, and none of them holds up the flow.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from itertools import islice

from headgate.core import Event
from headgate.library.log import History

RECENT = 256
"""How many events stay in memory for those who follow closely."""


class EventFeed:
    """What those who follow a run are told."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._recent: deque[tuple[Event, int]] = deque(maxlen=RECENT)
        """The latest events, each with the position behind it."""
        self._told = 0
        self._ended = False
        self._news: asyncio.Event | None = None
        """Whoever waits for something new waits for this."""

    def tell(self, event: Event) -> None:
        """Takes an event that was committed."""
        self._recent.append((event, self._history.told))
        self._told += 1
        self._wake()

    def end(self) -> None:
        """Nothing else comes."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news:
            news.set()

    async def follow(self) -> AsyncIterator[Event]:
        """Every event of the run, until it ends."""
        taken, position = 0, -1
        while True:
            if taken >= self._told:
                if self._ended:
                    return
                self._news = self._news or asyncio.Event()
                await self._news.wait()
                continue
            forgotten = self._told - len(self._recent)
            if taken >= forgotten:
                for event, behind in list(islice(self._recent, taken - forgotten, None)):
                    taken, position = taken + 1, behind
                    yield event
                continue
            earlier, position = self._history.read(self._history.start if position < 0 else position)
            if not earlier:  # somebody has removed the task
                taken = forgotten
            for event in earlier:
                taken += 1
                yield event
