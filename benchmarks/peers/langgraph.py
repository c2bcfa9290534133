"""langchain's create_agent, which runs on langgraph."""

import os

os.environ["LANGSMITH_TRACING"] = "false"

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from session import SYSTEM, TASK, Place, measure, read_file


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    model = ChatOpenAI(model="fake", base_url=url, api_key="x")
    agent = create_agent(model, [tool(read_file)], system_prompt=SYSTEM)
    answer = await agent.ainvoke({"messages": [("user", TASK)]}, {"recursion_limit": 4 * turns + 20})
    return str(answer["messages"][-1].content)


measure(session)
