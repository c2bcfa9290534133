"""openhands-sdk: Agent in a LocalConversation, without its display."""

import logging
import os
from collections.abc import Sequence
from typing import Any

os.environ |= {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "LOG_LEVEL": "ERROR",
    "OTEL_SDK_DISABLED": "true",
}

from openhands.sdk import LLM, Agent, Conversation, Tool, register_tool
from openhands.sdk.conversation.response_utils import get_agent_final_response
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor
from pydantic import Field, SecretStr
from session import RESULT, TASK, Place, measure

logging.disable(logging.WARNING)


class ReadFileAction(Action):
    """What is asked."""

    path: str = Field(description="path of the file")


class ReadFileObservation(Observation):
    """What is answered."""


class Reader(ToolExecutor):
    """Answers."""

    def __call__(self, action: Any, conversation: Any = None) -> Any:
        return ReadFileObservation.from_text(text=RESULT)


class ReadFileTool(ToolDefinition[ReadFileAction, ReadFileObservation]):
    """The tool, as openhands-sdk wants it."""

    @classmethod
    def create(cls, conv_state: Any = None, **params: Any) -> Sequence["ReadFileTool"]:
        """One tool."""
        return [
            cls(
                description="Read a file.",
                action_type=ReadFileAction,
                observation_type=ReadFileObservation,
                executor=Reader(),
            )
        ]


register_tool("ReadFileTool", ReadFileTool)


def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    model = LLM(model="openai/fake", base_url=url, api_key=SecretStr("x"), usage_id="a", num_retries=0)
    agent = Agent(llm=model, tools=[Tool(name="ReadFileTool")])
    conversation = Conversation(
        agent,
        workspace=str(place.folder),
        max_iteration_per_run=turns + 5,
        visualizer=None,
        delete_on_close=False,
    )
    conversation.send_message(TASK)
    conversation.run()
    answer = get_agent_final_response(conversation.state.events)
    conversation.close()
    return str(answer)


measure(session)
