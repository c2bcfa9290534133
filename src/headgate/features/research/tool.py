"""The tool that searches the web. It names no backend and opens no connection."""

from pydantic import Field

from headgate.errors import ToolDenied, ToolFailed
from headgate.features.research.search import Research
from headgate.features.research.sources import cite, show_sources
from headgate.tools import NOT_IN_A_STAGE, Args, Outcome, Tool, ToolContext, tool


class ResearchArgs(Args):
    """Arguments of research."""

    query: str = Field(min_length=1, max_length=400, description="What you would type into a search engine")


def research_tool(web: Research | None) -> Tool:
    """`research` for one task; without the web it can only be described."""

    @tool("read", by_name=True)
    async def research(ctx: ToolContext, args: ResearchArgs) -> Outcome:
        """Search the web and read the best pages. Returns their text with numbered sources."""
        query = " ".join(args.query.split())
        if any(ctx.redact(text) != text for text in (args.query, query)):
            raise ToolDenied("research was not run: the query contains a secret value. Ask without it.")
        if web is None:
            raise ToolFailed(NOT_IN_A_STAGE)
        found = await web.find(query)
        text = show_sources(query, found, ctx.result_chars)
        if not found:
            raise ToolFailed(text)
        return Outcome(text, sources=tuple(map(cite, found)))

    return research
