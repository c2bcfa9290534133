"""The tool that searches the web. It names no backend and opens no connection: its port does."""

from pydantic import Field

from headgate.core import cite, show_sources
from headgate.errors import ToolDenied, ToolFailed
from headgate.tools.base import Args, Outcome, ToolContext, tool


class Research(Args):
    """Arguments of research."""

    query: str = Field(min_length=1, max_length=400, description="What you would type into a search engine")


@tool("read", by_name=True)
async def research(ctx: ToolContext, args: Research) -> Outcome:
    """Search the web and read the best pages. Returns their text with numbered sources."""
    query = " ".join(args.query.split())
    if any(ctx.redact(text) != text for text in (args.query, query)):
        raise ToolDenied("research was not run: the query contains a secret value. Ask without it.")
    found = await ctx.research.find(query)
    text = show_sources(query, found, ctx.result_chars)
    if not found:
        raise ToolFailed(text)
    return Outcome(text, sources=tuple(map(cite, found)))
