"""What `headgate doctor` finds out about `research`: whether its backend answers."""

import asyncio

from headgate.cli.setup_checks import DoctorFinding
from headgate.core import Flow, ResearchSettings, all_stages
from headgate.errors import ToolError
from headgate.features.research import Research, find_trafilatura

CHECK = "research"
QUERY = "documentation"
_OFF = "off, although the flow here can use it: tasks continue without it"
_CHOOSE = (
    "Set `research: {backend: searxng, url: ADDRESS}` or `{backend: ddgs}` in your own configuration file."
)
_PLAIN = (
    "pages are read without trafilatura, which finds their main text:"
    " pip install '.[research]' in the clone of Headgate"
)


async def check_research(settings: ResearchSettings, flow: Flow | None = None) -> DoctorFinding | None:
    """A real search. A task works without it, so nothing is a failure.

    Where nothing is configured, a note if the flow of tasks, or one of its recipes, names the tool.
    """
    if settings.backend == "off":
        return DoctorFinding(CHECK, "note", _OFF, _CHOOSE) if flow and _names_research(flow) else None
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


def _names_research(flow: Flow) -> bool:
    stages = [*flow.stages, *(stage for recipe in flow.recipes.values() for stage in recipe.stages)]
    return any(CHECK in (stage.tools.allow or ()) for stage in all_stages(stages))
