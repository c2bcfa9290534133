"""inspect_ai: its react agent in an evaluation, with its log, which it always writes."""

import os

os.environ |= {"INSPECT_DISPLAY": "none", "INSPECT_LOG_LEVEL": "warning"}

from inspect_ai import Task, eval_async
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.tool import tool
from session import RESULT, SYSTEM, TASK, Place, measure


@tool(name="read_file")
def reader():  # type: ignore[no-untyped-def]
    """The tool, as inspect_ai wants it."""

    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: path of the file
        """
        return RESULT

    return execute


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    model = get_model("openai-api/fake/fake", base_url=url, api_key="x", memoize=False)
    task = Task(dataset=[Sample(input=TASK)], solver=react(prompt=SYSTEM, tools=[reader()], submit=False))
    logs = await eval_async(task, model=model, log_dir=str(place.folder))
    return str(logs[0].samples[-1].output.completion)


measure(session, log="*.eval")
