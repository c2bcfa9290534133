"""The search backends: a SearXNG server, and the package ddgs. Each makes sources of a query."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from headgate.config import ResearchSettings
from headgate.errors import ToolFailed, ToolUnavailable
from headgate.features.research.fetching import HEADERS, Unreadable, read_body
from headgate.features.research.sources import WebSource

URL_CHARS = 1_000
"""The longest address that can be cited."""
_MOST_BYTES = 4 << 20

DdgsSearch = Callable[[str, int, float], Iterable[Any]]
"""Takes a query, how many results are wanted, and a time limit in seconds. It runs in a thread."""


async def ask_searxng(settings: ResearchSettings, query: str) -> tuple[WebSource, ...]:
    """What a SearXNG server finds. Its address is the user's own choice and may be a private one."""
    if not settings.url:
        raise ToolUnavailable("The search failed: research.url has to name the SearXNG server.")
    root = settings.url.rstrip("/").removesuffix("/search")
    name = f"SearXNG at {root}"
    try:
        async with (
            asyncio.timeout(settings.timeout),
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, timeout=aiohttp.ClientTimeout()
            ) as session,
            session.get(
                f"{root}/search",
                params={"q": query, "format": "json"},
                headers={**HEADERS, "Accept": "application/json", "Accept-Encoding": "identity"},
                allow_redirects=False,
            ) as response,
        ):
            if response.status != 200:
                passing = response.status == 429 or response.status >= 500
                failure = ToolFailed if passing else ToolUnavailable
                raise failure(f"The search failed: {name} {_explain_status(response)}.")
            packing = response.headers.get("Content-Encoding", "").strip().lower()
            body, _ = await read_body(response, _MOST_BYTES, packing)
    except TimeoutError:
        raise ToolFailed(f"The search failed: {name} did not answer in {settings.timeout:g} s.") from None
    except Unreadable as error:
        raise ToolFailed(f"The search failed: the answer of {name} cannot be read: {error}.") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ToolUnavailable(f"The search failed: {name} cannot be reached.") from error
    try:
        answer = orjson.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, Mapping) or not isinstance(answer.get("results"), list):
        raise ToolUnavailable(f"The search failed: {name} does not answer like SearXNG.")
    return _sources(answer["results"], "url", "content")


def _explain_status(response: aiohttp.ClientResponse) -> str:
    match response.status:
        case 403:
            return "answered 403: `search: {formats: [html, json]}` in its settings.yml allows it to answer"
        case 429:
            return "answered 429: its limiter asks for fewer requests"
        case status if 300 <= status < 400:
            return f"redirects elsewhere ({status}): research.url has to name the address where it is"
        case status:
            return f"answered {status}"


async def ask_ddgs(
    settings: ResearchSettings, query: str, search: DdgsSearch | None = None
) -> tuple[WebSource, ...]:
    """What the package ddgs finds with the search engines that it knows."""
    try:
        async with asyncio.timeout(settings.timeout):
            found = await asyncio.to_thread(search or _search_ddgs, query, settings.results, settings.timeout)
    except TimeoutError:
        raise ToolFailed(f"The search failed: ddgs found nothing in {settings.timeout:g} s.") from None
    return _sources(found, "href", "body")


def _search_ddgs(query: str, count: int, seconds: float) -> Iterable[Any]:
    try:
        from ddgs import DDGS  # an optional package
        from ddgs.exceptions import DDGSException
    except ImportError as error:
        raise ToolUnavailable(
            "The search failed: the package ddgs is not installed. A person can install it:"
            " pip install '.[research]' in the clone of Headgate."
        ) from error
    try:
        found: Iterable[Any] = DDGS(timeout=max(int(seconds), 1)).text(query, max_results=count)
        return found
    except DDGSException as error:
        if "no results" in str(error).lower():
            return []
        said = " ".join(str(error).split())[:200]
        raise ToolFailed(f"The search failed: ddgs says: {said}") from error


def _sources(entries: Iterable[Any], address: str, excerpt: str) -> tuple[WebSource, ...]:
    """The entries that name a web page, each page once."""
    found: dict[str, WebSource] = {}
    for entry in entries:
        if not isinstance(entry, Mapping):
            continue
        url = entry.get(address)
        if isinstance(url, str) and _is_web(url):
            found.setdefault(url, WebSource(_text(entry.get("title")), url, _text(entry.get(excerpt))))
    return tuple(found.values())


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(url) <= URL_CHARS


def _text(value: Any) -> str:
    return value[:2_000] if isinstance(value, str) else ""
