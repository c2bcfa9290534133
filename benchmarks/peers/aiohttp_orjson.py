"""No framework: aiohttp and orjson, the whole conversation encoded for each turn."""

import aiohttp
import orjson
from session import SYSTEM, TASK, TOOLS, Place, measure, read_file


async def session(url: str, turns: int, place: Place) -> str:
    """One task."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    async with aiohttp.ClientSession(headers={"content-type": "application/json"}) as client:
        while True:
            body = orjson.dumps({"model": "fake", "messages": messages, "tools": TOOLS})
            async with client.post(f"{url}/chat/completions", data=body) as answer:
                message = orjson.loads(await answer.read())["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                result = read_file(**orjson.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


measure(session)
