"""`headgate doctor` and `research`: a real search, and one line about it."""

from pathlib import Path

import pytest

from features.research.site import Site
from headgate.cli.setup_checks import check_research
from headgate.config import Config, ResearchSettings, load_flow
from headgate.engine import with_recipes


async def test_nothing_is_configured(tmp_path: Path) -> None:
    assert await check_research(ResearchSettings()) is None
    for name, is_told in (("staged", False), ("planned", True)):
        flow = with_recipes(load_flow(name, tmp_path), tmp_path, Config())
        finding = await check_research(ResearchSettings(), flow)
        assert (finding is not None) == is_told
    assert finding is not None
    assert (finding.status, finding.detail) == (
        "note",
        "off, although the flow here can use it: tasks continue without it",
    )


@pytest.mark.parametrize(
    ("pages", "status", "found"),
    [
        (["/article"], 200, ("ok", "answers")),
        ([], 200, ("warn", 'answers, but found nothing for "documentation"')),
        ([], 403, ("warn", "answered 403: `search: {formats: [html, json]}` in its settings.yml")),
    ],
)
async def test_the_backend_is_asked(pages: list[str], status: int, found: tuple[str, str]) -> None:
    async with Site(search_status=status).running() as site:
        site.finds(*pages)
        finding = await check_research(ResearchSettings(backend="searxng", url=site.url("")))
    assert finding is not None
    assert (finding.check, finding.status, finding.fault) == ("research", found[0], "")
    assert f"SearXNG at {site.url('')} {found[1]}" in finding.detail
    assert site.asked == ["documentation"]
    assert site.requests == []


async def test_a_server_that_is_not_there_is_a_warning() -> None:
    finding = await check_research(ResearchSettings(backend="searxng", url="http://127.0.0.1:1"))
    assert finding is not None
    assert (finding.status, finding.detail) == (
        "warn",
        "The search failed: SearXNG at http://127.0.0.1:1 cannot be reached.",
    )
