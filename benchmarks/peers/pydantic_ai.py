"""pydantic-ai: Agent with a model of an OpenAI-compatible server."""

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from session import SYSTEM, TASK, Place, measure, read_file


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    model = OpenAIChatModel("fake", provider=OpenAIProvider(base_url=url, api_key="x"))
    agent = Agent(model, system_prompt=SYSTEM, tools=[read_file])
    return str((await agent.run(TASK, usage_limits=UsageLimits(request_limit=None))).output)


measure(session)
