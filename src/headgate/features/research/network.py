"""The web as `research` uses it: a search backend, and pages that are fetched and read.

Loaded with the first query, because the HTTP client takes long to import.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp.abc import AbstractResolver

from headgate.config import ResearchSettings
from headgate.features.research.addresses import Permits, is_local, is_public
from headgate.features.research.backends import DdgsSearch, ask_ddgs, ask_searxng
from headgate.features.research.fetching import PageFetcher, Unreadable
from headgate.features.research.page_text import Extract, extract_text
from headgate.features.research.sources import WebSource
from headgate.first_use import dataclass


@dataclass(frozen=True)
class OpenedWeb:
    """Searches, and reads pages."""

    settings: ResearchSettings
    fetcher: PageFetcher
    extract: Extract
    ddgs: DdgsSearch | None

    async def search(self, query: str) -> tuple[WebSource, ...]:
        if self.settings.backend == "searxng":
            return await ask_searxng(self.settings, query)
        return await ask_ddgs(self.settings, query, self.ddgs)

    async def read(self, source: WebSource) -> WebSource:
        try:
            page = await self.fetcher.fetch(source.url)
            text = page.text
            if page.is_markup:
                text = await self._extract(text)
        except Unreadable as error:
            return replace(source, problem=str(error))
        text, most = text.strip(), self.settings.page_chars
        if not text or "\0" in text[:most]:
            return replace(source, url=page.url, problem="it holds no text")
        cut = max(len(text) - most, 0)
        return replace(source, url=page.url, text=text[:most], cut=cut, partial=page.is_partial)

    async def _extract(self, markup: str) -> str:
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await asyncio.to_thread(self.extract, markup)
        except TimeoutError:
            raise Unreadable(f"finding its text took longer than {self.settings.timeout:g} s") from None


@asynccontextmanager
async def open_web(
    settings: ResearchSettings,
    *,
    permits: Permits | None = None,
    resolver: AbstractResolver | None = None,
    extract: Extract = extract_text,
    ddgs: DdgsSearch | None = None,
) -> AsyncIterator[OpenedWeb]:
    """The web, closed on leaving. The further arguments take the place of the real rules and packages."""
    permits = permits or (is_local if settings.allow_private else is_public)
    async with PageFetcher(permits, settings.page_kb * 1_024, settings.timeout, resolver) as fetcher:
        yield OpenedWeb(settings, fetcher, extract, ddgs)
