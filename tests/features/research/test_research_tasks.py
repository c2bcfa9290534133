"""Whole tasks that search the web: a real engine and a real site, with the user's own configuration."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from features.research.site import Site
from headgate.config import load_config
from headgate.core import Constraints, Options
from headgate.engine import Engine
from headgate.log import Report
from headgate.models import ScriptedModel

FLOW = "flow: [{id: look, prompt: Find out., tools: {allow: [read_file, internet.research]}}]\n"
DONE = {"calls": [{"stage_done": {"summary": "Found."}}]}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().running() as running:
        yield running


def searching(*queries: str) -> dict[str, Any]:
    return {"calls": [{"research": {"query": query}} for query in queries]}


def make_repo(repo: Path, agent: str) -> Path:
    repo.mkdir()
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "agent.yaml").write_text(agent)
    (repo / ".env").write_text("TOKEN=4f9c2e71ab-canal\n")
    return repo


async def run(
    tmp_path: Path, research: str, *replies: dict[str, Any], agent: str = FLOW, dry_run: bool = False
) -> tuple[Report, list[str]]:
    """The report, and what the model was told by tools."""
    repo = make_repo(tmp_path / "repo", agent)
    user_file = tmp_path / "user.yaml"
    user_file.write_text(f"sandbox: off\nresearch: {research}\n")
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump([*replies, DONE]))
    model = ScriptedModel.load(script)
    engine = Engine.open(
        repo, load_config(repo, environ={}, flags={}, user_file=user_file), models={None: model}
    )
    try:
        task = engine.submit("What is a headgate?", Constraints(), Options(dry_run=dry_run))
        report = await engine.run(task)
    finally:
        engine.store.close()
    return report, [message.content for message in model.requests[-1].messages if message.role == "tool"]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_task_reads_the_web(tmp_path: Path, site: Site, dry_run: bool) -> None:
    site.finds("/article", "/status/404")
    config = f"{{backend: searxng, url: '{site.url('')}', allow_private: true}}"
    report, told = await run(
        tmp_path, config, searching("headgate"), searching("headgate"), searching("canal"), dry_run=dry_run
    )
    assert report.status == "completed"
    assert report.tool_call_counts["research"] == 3
    assert report.files_read == ()
    first, second, third = told
    assert f"[1] Title of /article\n{site.url('/article')}\n> " in first
    assert "A headgate controls the flow of water" in first
    assert "Not read: the server answered 404." in first
    assert second == "Same result as the last call: nothing has changed since."
    assert third.startswith('Results for "canal".')
    assert site.asked == ["headgate", "canal"]


async def test_secrets_do_not_leave_in_a_query(tmp_path: Path, site: Site) -> None:
    config = f"{{backend: searxng, url: '{site.url('')}'}}"
    query = "what is 4f9c2e71ab-canal"
    _, told = await run(tmp_path, config, searching(query), searching("NGY5YzJlNzFhYi1jYW5hbA"))
    assert told == ["research was not run: the query contains a secret value. Ask without it."] * 2
    assert site.asked == []


async def test_secrets_that_a_page_repeats_are_not_shown(tmp_path: Path, site: Site) -> None:
    site.finds("/say/token-4f9c2e71ab-canal")
    config = f"{{backend: searxng, url: '{site.url('')}', allow_private: true}}"
    _, (told,) = await run(tmp_path, config, searching("headgate"))
    assert "> token-[redacted]" in told
    assert "4f9c2e71ab" not in told


async def test_the_report_names_what_research_returned(tmp_path: Path, site: Site) -> None:
    site.finds("/article", "/status/404", "/say/a", "/say/b")
    config = f"{{backend: searxng, url: '{site.url('')}', allow_private: true}}"
    report, _ = await run(tmp_path, config, searching("headgate"))
    named = [
        f"Title of {path} ({site.url(path)})" for path in ("/article", "/status/404", "/say/a", "/say/b")
    ]
    assert list(report.sources) == named
    assert f"Research returned 4 sources, not checked: {', '.join(named[:3])} and 1 more." in report.summary


PLANNED = "flow: planned\n"
SKILL = {"make_skill": {"name": "canals", "description": "How canals work.", "source": "Open the gate."}}


def executing(task_type: str) -> dict[str, Any]:
    return {"calls": [{"execute": {"task_type": task_type, "goals": ["Canals"]}}]}


@pytest.mark.parametrize(("status", "body"), [(403, None), (200, b"<html>")])
async def test_a_skill_is_built_although_the_backend_does_not_work(
    tmp_path: Path, site: Site, status: int, body: bytes | None
) -> None:
    site.search_status, site.search_body = status, body
    config = f"{{backend: searxng, url: '{site.url('')}'}}"
    steps = [executing("skill_build"), searching("canals"), {"calls": [SKILL]}]
    report, (told,) = await run(tmp_path, config, *steps, agent=PLANNED)
    assert "- research skipped: Handed back: The search failed: SearXNG at" in told
    assert "Warning: skill_build continued without its step research: The search failed" in report.summary
    assert report.state == "SUCCESS"


async def test_research_that_finds_nothing_is_not_complete(tmp_path: Path, site: Site) -> None:
    config = f"{{backend: searxng, url: '{site.url('')}'}}"
    steps = [executing("research"), searching("canals"), DONE, searching("gates"), DONE]
    report, _ = await run(
        tmp_path, config, *steps, {"calls": [{"escalate": {"reason": "Not found."}}]}, agent=PLANNED
    )
    assert report.state == "STUCK"
    assert report.sources == ()
    assert "Research returned no source." in report.summary
