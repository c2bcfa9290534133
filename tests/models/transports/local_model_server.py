"""A real server with the habits of local ones: what it tells of itself, and what it makes of requests."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import fastjsonschema

from headgate.core import Message, Model, ModelSettings, ToolSpec
from headgate.models.network import open_model
from headgate.models.server_facts import ServerFacts, ServerInquiry
from models.model_server import Seen, Server, Wire, answer, serve

LS = ToolSpec("ls", "List a folder.", {"type": "object", "properties": {"path": {"type": "string"}}}, "read")
WRITE = ToolSpec(
    "write_file",
    "Write a file.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string", "description": "All of it"},
            "mode": {"type": "integer"},
        },
        "required": ["path", "content"],
    },
    "write",
)
DONE = ToolSpec(
    "stage_done",
    "End the stage.",
    {
        "type": "object",
        "properties": {"stage": {"enum": ["a"], "type": "string"}, "summary": {"type": "string"}},
        "required": ["summary"],
    },
    "control",
)
TOOLS = (LS, WRITE, DONE)
ASK = Message("user", "Begin.")

Body = dict[str, Any]


@dataclass
class Habits:
    """What it answers."""

    say: Callable[[Body], Body]
    """A request's body -> the message of the reply, and its `finish_reason` if it is not `stop`."""
    pages: dict[str, Any] = field(default_factory=dict)
    """What is at other paths."""
    count_tools: bool = True
    """Whether tools take part in the prompt."""
    refuse: Callable[[Body], str | None] = lambda body: None
    """The complaint about a request, if there is one."""
    refusal_status: int = 400
    asked: list[Body] = field(default_factory=list)

    async def respond(self, seen: Seen, wire: Wire) -> None:
        if not seen.path.endswith("/chat/completions"):
            page = self.pages.get(seen.path)
            await (answer(page) if page else answer({"error": "not found"}, 404))(seen, wire)
            return
        body = seen.json
        self.asked.append(body)
        if complaint := self.refuse(body):
            await answer({"error": {"message": complaint}}, self.refusal_status)(seen, wire)
            return
        message = {"role": "assistant", "content": None, **self.say(body)}
        finish = message.pop("finish_reason", "stop")
        counted = [body["messages"], body.get("tools", []) if self.count_tools else []]
        usage = {"prompt_tokens": len(json.dumps(counted)) // 4, "completion_tokens": 5}
        reply = {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}
        await answer(reply)(seen, wire)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        async with serve(self.respond) as server:
            yield server


@asynccontextmanager
async def asking(
    habits: Habits, transport: str, found: ServerFacts | None = None, **fields: Any
) -> AsyncIterator[Model]:
    """A model of such a server, of which this is known."""
    async with habits.running() as server:
        given = {"model": "openai/m", "base_url": server.url, "tool_transport": transport, **fields}
        wanted = ModelSettings.model_validate(given)
        async with open_model(wanted, ServerInquiry(wanted, findings=found)) as model:
            yield model


def text(content: str) -> Callable[[Body], Body]:
    return lambda body: {"content": content}


def calling(name: str, **arguments: Any) -> Body:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": "c", "type": "function", "function": function}]}


def obedient(body: Body) -> Body:
    """Talks, unless a schema holds it to something; calls no tool by itself."""
    if "response_format" not in body:
        return {"content": "Certainly! Here is what I would do."}
    shape = body["response_format"]["json_schema"]["schema"]
    if "properties" in shape:
        return {"content": json.dumps({"state": shape["properties"]["state"]["const"]})}
    return {"content": '{"thought": "I look.", "name": "ls", "arguments": {}}'}


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is what a JSON schema asks for."""
    known = json.loads(json.dumps(schema).replace('"prefixItems"', '"items"'))  # its name in earlier drafts
    try:
        fastjsonschema.compile(known)(value)
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True
