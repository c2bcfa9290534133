"""The tool that asks a scout. It finds out nothing itself: its port does."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from headgate.tools.base import Args, ToolContext, tool


def _plain_name(value: Any) -> Any:
    """`A`, `Scout A` and `code map` are what models write for `code`."""
    if not isinstance(value, str):
        return value
    word = value.lower().replace("scout", "").strip(" _-")
    return {"a": "code", "b": "build", "code map": "code", "tests": "build", "test": "build"}.get(word, word)


class AskScout(Args):
    """Arguments of ask_scout."""

    scout: Annotated[Literal["code", "build"], BeforeValidator(_plain_name)] = Field(
        description="code: where something is; build: how it is tested, and what fails"
    )
    question: str = Field(min_length=1, max_length=2_000, description="Name the files, functions or tests")


@tool("read", by_name=True)
async def ask_scout(ctx: ToolContext, args: AskScout) -> str:
    """Ask where code is, or how the project is tested. Faster than searching."""
    return await ctx.scouts.ask(args.scout, args.question)
