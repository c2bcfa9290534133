"""The tool that asks a scout."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from headgate.config import ScoutSettings
from headgate.core import SCOUTS, times
from headgate.errors import ToolFailed
from headgate.features.scouts.scout import report
from headgate.run import call_under_way
from headgate.tools import Args, ToolContext, tool

ANSWER_TOKENS = 800
"""What it returns at most."""


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
    with call_under_way(ctx).acting() as run:
        job, most = run.job, run.job.pinned.of(ScoutSettings).asks
        await job.log.commit()  # other calls of the same reply count
        if run.state.called[ask_scout.name] >= most:
            raise ToolFailed(
                f"ask_scout was refused: it was called {times(most)} in this stage, which is the limit. Use"
                " what it said, and read the files."
            )
        changing = (
            count
            for name, count in run.state.called.items()
            if name not in job.parts.tools or job.parts.tools[name].spec.category in ("write", "run")
        )
        when = f"{run.path}: {sum(changing)} calls"
        body, text = await report(job, args.scout, args.question, ANSWER_TOKENS, when)
        if not text:
            nothing = f"{SCOUTS[args.scout]} found nothing about this"
            raise ToolFailed(f"ask_scout: {body.problem or nothing}")
        run.record(body.model_copy(update={"question": job.place.redact(args.question)[:400]}))
        return text
