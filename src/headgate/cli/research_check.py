"""What `headgate doctor` finds out about `research`: whether its backend answers."""

import asyncio

from headgate.cli.setup_checks import DoctorFinding
from headgate.core import ResearchSettings
from headgate.errors import ToolError
from headgate.web import Research, find_trafilatura

CHECK = "research"
QUERY = "documentation"
_PLAIN = "pages are read without trafilatura, which finds their main text: pip install 'headgate[research]'"


async def check_research(settings: ResearchSettings) -> DoctorFinding | None:
    """A real search; None where nothing is configured. A task works without it, so nothing is a failure."""
    if settings.backend == "off":
        return None
    try:
        found = await Research(settings).search(QUERY)
    except ToolError as error:
        return DoctorFinding(CHECK, "warn", str(error), "Tasks run, but `research` finds nothing.")
    named = f"SearXNG at {settings.url}" if settings.backend == "searxng" else "ddgs"
    if not found:
        fix = "Check which search engines it has switched on." if settings.backend == "searxng" else ""
        return DoctorFinding(CHECK, "warn", f'{named} answers, but found nothing for "{QUERY}"', fix)
    if await asyncio.to_thread(find_trafilatura) is None:
        return DoctorFinding(CHECK, "ok", f"{named} answers; {_PLAIN}")
    return DoctorFinding(CHECK, "ok", f"{named} answers")
