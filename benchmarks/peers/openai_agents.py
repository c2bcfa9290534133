"""openai-agents: Agent with a model of an OpenAI-compatible server, without tracing."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from session import SYSTEM, TASK, Place, measure, read_file

set_tracing_disabled(True)


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    model = OpenAIChatCompletionsModel(model="fake", openai_client=AsyncOpenAI(base_url=url, api_key="x"))
    agent = Agent(name="reader", instructions=SYSTEM, tools=[function_tool(read_file)], model=model)
    return str((await Runner.run(agent, TASK, max_turns=turns + 5)).final_output)


measure(session)
