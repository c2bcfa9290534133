"""Answering a query: a search, then its best pages. The same query is asked once in a task."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Protocol

from headgate.config import ResearchSettings
from headgate.errors import ToolUnavailable
from headgate.features.research.sources import WebSource
from headgate.first_use import dataclass

NOT_CONFIGURED = (
    "No search backend is configured, so research cannot be used."
    " A person can set `research: {backend: searxng, url: ADDRESS}` or `research: {backend: ddgs}` in their"
    " own configuration file; docs/research.md describes it."
)
MOST_KEPT = 100
"""Queries whose answers are kept."""


class Web(Protocol):
    """What searches and reads, while it is open."""

    async def search(self, query: str) -> tuple[WebSource, ...]:
        """The results, best first. ToolFailed says why there are none to be had."""
        ...

    async def read(self, source: WebSource) -> WebSource:
        """The source with the text of its page, or with what is wrong with the page."""
        ...


OpenWeb = Callable[[ResearchSettings], AbstractAsyncContextManager[Web]]


def _open_web(settings: ResearchSettings) -> AbstractAsyncContextManager[Web]:
    # A lazy import: the HTTP client takes long to load, and most tasks search for nothing.
    from headgate.features.research.network import open_web

    return open_web(settings)


@dataclass
class _Query:
    """A query, and its answer once there is one."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    sources: tuple[WebSource, ...] | None = None


class Research:
    """Searches the web for one task. `open_web` takes the place of the real one."""

    def __init__(self, settings: ResearchSettings, open_web: OpenWeb = _open_web) -> None:
        self._settings = settings
        self._open_web = open_web
        self._queries: dict[str, _Query] = {}

    async def find(self, query: str) -> tuple[WebSource, ...]:
        """The sources for a query, the first ones read. ToolFailed if there is no backend, or it fails."""
        if self._settings.backend == "off":
            raise ToolUnavailable(NOT_CONFIGURED)
        asked = self._queries.setdefault(query, _Query())
        if len(self._queries) > MOST_KEPT:
            del self._queries[next(iter(self._queries))]
        async with asked.lock:
            if asked.sources is None:
                asked.sources = await self._look_up(query)
            return asked.sources

    async def search(self, query: str) -> tuple[WebSource, ...]:
        """What the backend finds; no page is read."""
        async with self._open_web(self._settings) as web:
            return (await web.search(query))[: self._settings.results]

    async def _look_up(self, query: str) -> tuple[WebSource, ...]:
        async with self._open_web(self._settings) as web:
            found = (await web.search(query))[: self._settings.results]
            first, rest = found[: self._settings.pages], found[self._settings.pages :]
            return (*await asyncio.gather(*map(web.read, first)), *rest)
