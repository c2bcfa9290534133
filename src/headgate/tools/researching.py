"""The tool that searches the web. It names no backend and opens no connection: its port does."""

from pydantic import Field

from headgate.core import show_sources
from headgate.errors import ToolDenied
from headgate.tools.base import Args, ToolContext, tool


class Research(Args):
    """Arguments of research."""

    query: str = Field(min_length=1, max_length=400, description="What you would type into a search engine")


@tool("read", by_name=True)
async def research(ctx: ToolContext, args: Research) -> str:
    """Search the web and read the best pages. Returns their text with numbered sources."""
    query = " ".join(args.query.split())
    if any(ctx.redact(text) != text for text in (args.query, query)):
        raise ToolDenied("research was not run: the query contains a secret value. Ask without it.")
    return show_sources(query, await ctx.research.find(query), ctx.result_chars)
