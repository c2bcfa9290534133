"""The SDK of OpenAI in a hand-written loop: what many frameworks are built on."""

import json

from openai import AsyncOpenAI
from session import SYSTEM, TASK, TOOLS, Place, measure, read_file


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    client = AsyncOpenAI(base_url=url, api_key="x")
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    while True:
        answer = await client.chat.completions.create(model="fake", messages=messages, tools=TOOLS)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return str(message.content)
        for call in message.tool_calls:
            result = read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


measure(session)
