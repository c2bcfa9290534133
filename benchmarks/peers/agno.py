"""agno: Agent with a model of an OpenAI-compatible server."""

import os

os.environ["AGNO_TELEMETRY"] = "false"

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from session import SYSTEM, TASK, Place, measure, read_file


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    model = OpenAILike(id="fake", base_url=url, api_key="x")
    agent = Agent(model=model, tools=[read_file], instructions=SYSTEM, telemetry=False)
    return str((await agent.arun(TASK)).content)


measure(session)
