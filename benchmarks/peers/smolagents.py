"""smolagents: ToolCallingAgent, without its display."""

from session import SYSTEM, TASK, Place, measure, read_file
from smolagents import LogLevel, OpenAIServerModel, ToolCallingAgent, tool


def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    model = OpenAIServerModel("fake", api_base=url, api_key="x")
    agent = ToolCallingAgent(
        tools=[tool(read_file)],
        model=model,
        max_steps=turns + 5,
        verbosity_level=LogLevel.OFF,
        instructions=SYSTEM,
    )
    return str(agent.run(TASK))


measure(session, script="smolagents")
