"""Calls as JSON objects: each request carries a schema, and the server makes the model keep to it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.core import Message, Model, OnDelta, Reply, Request, ToolCall, ToolSpec
from headgate.errors import ReplyInvalid
from headgate.models.encoding import CallIds, arguments_as_object, encode_json
from headgate.models.profile import Profile
from headgate.models.rendering import Rendering, describe_tools
from headgate.models.servers import ServerKind
from headgate.models.text_transport import (
    ask_for_calls,
    charge_errors,
    read_text,
    with_one_call,
    with_parsed,
    without_unknown_calls,
)
from headgate.models.textcalls import sort_stream
from headgate.models.textcalls.offered_tools import ToolBook, coerce_arguments, read_properties, resolve
from headgate.models.textcalls.source import Source, WorkLimitReached
from headgate.models.wire.failures import RequestRejected

# The JSON schema of one decision: a short thought, then one call to one of the tools.


THOUGHT_CHARS = 160
SHORT_CHARS = 500
"""Of a string in the arguments of a tool that changes nothing."""
ITEMS = 50
DEPTH = 8
_KEPT = ("enum", "const", "minLength", "minimum", "maximum", "minItems")
_SCALARS = ("string", "integer", "number", "boolean", "null", "array", "object")


def call_schema(tools: Sequence[ToolSpec], long_chars: int) -> dict[str, Any]:
    """What a reply must look like. Every string and every list in it has an end.

    `long_chars` bounds the strings of tools that write or run something.
    """
    return {"anyOf": [_branch(tool, long_chars) for tool in tools]}


def _branch(tool: ToolSpec, long_chars: int) -> dict[str, Any]:
    properties = {
        "thought": {"type": "string", "maxLength": THOUGHT_CHARS},
        "name": {"type": "string", "const": tool.name},
        "arguments": bound_schema({**tool.parameters, "type": "object"}, string_limit(tool, long_chars)),
    }
    return _object(properties, list(properties))


def string_limit(tool: ToolSpec, long_chars: int) -> int:
    """How long a string in a tool's arguments may be."""
    return long_chars if tool.category in ("write", "run") else min(SHORT_CHARS, long_chars)


def bound_schema(
    schema: Any, limit: int, root: Mapping[str, Any] | None = None, depth: int = 0
) -> dict[str, Any]:
    """A schema with only what servers can hold a model to, and with every string bounded."""
    root = root if root is not None else schema
    schema = resolve(schema, root or {})
    if not schema or depth > DEPTH:
        return {"type": "string", "maxLength": limit}
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list | tuple) and options:
        return {"anyOf": [bound_schema(option, limit, root, depth + 1) for option in options]}
    stated = schema.get("type")
    if isinstance(stated, list | tuple):
        return {"anyOf": [bound_schema({**schema, "type": one}, limit, root, depth + 1) for one in stated]}
    kept = {word: schema[word] for word in _KEPT if word in schema}
    if "enum" in kept or "const" in kept:
        return kept | ({"type": stated} if isinstance(stated, str) else {})
    match stated if stated in _SCALARS else "object" if read_properties(schema) else "string":
        case "string":
            own = schema.get("maxLength")
            longest = min(own, limit) if isinstance(own, int) else limit
            return {"type": "string", **kept, "maxLength": longest}
        case "array":
            own = schema.get("maxItems")
            most = min(own, ITEMS) if isinstance(own, int) else ITEMS
            items = bound_schema(schema.get("items"), limit, root, depth + 1)
            return {"type": "array", "items": items, **kept, "maxItems": most}
        case "object":
            inner = read_properties(schema).items()
            properties = {name: bound_schema(value, limit, root, depth + 1) for name, value in inner}
            required = schema.get("required")
            needed = (
                [name for name in required if name in properties]
                if isinstance(required, list | tuple)
                else []
            )
            return _object(properties, needed)
        case other:
            return {"type": other, **kept}


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }


def reaches_limit(value: Any, limit: int) -> bool:
    """Whether some string is as long as the schema allows: the server then ended it, not the model."""
    match value:
        case str():
            return len(value) >= limit
        case dict():
            return any(reaches_limit(item, limit) for item in value.values())
        case list():
            return any(reaches_limit(item, limit) for item in value)
    return False


# The fields of a request that take a schema.


Constrain = Callable[[Mapping[str, Any]], dict[str, Any]]


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = {"name": "call", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


_COMMON: tuple[Constrain, ...] = (_response_format,)
CONSTRAINTS: Mapping[ServerKind, tuple[Constrain, ...]] = {
    "llamacpp": (_response_format, lambda schema: {"json_schema": schema}),
    "vllm": (
        _response_format,
        lambda schema: {"structured_outputs": {"json": schema}},
        lambda schema: {"guided_json": schema},
    ),
    "sglang": _COMMON,
    "ollama": (_response_format, lambda schema: {"format": schema}),
    "ollama-api": (lambda schema: {"format": schema},),
    "lmstudio": _COMMON,
    "unknown": _COMMON,
}
"""The fields that hold a reply to a schema, by server, in the order in which they are tried."""
LONG_STRING, SAFE_STRING = 8_000, 2_000
"""The longest string in a call: at first, and where a server cannot make a grammar of that."""


_FORM = """# Tools

Answer with one JSON object that calls one tool. Its keys are thought (one short sentence: why), name (of the
tool) and arguments. The result follows in <tool_response>. The tools (? marks optional arguments):
{tools}"""
_SCHEMAS = 32
_GRAMMAR = re.compile("grammar|repetition|sampler", re.IGNORECASE)


class SchemaModel:
    """Sends the schema of a call with each request and reads the object that comes back."""

    def __init__(self, inner: Model, profile: Profile, kind: ServerKind = "unknown") -> None:
        self.name = inner.name
        self.ignored = 0
        """Replies that are no object: the server does not do what it was asked."""
        self._inner = inner
        self._profile = profile
        self._long = LONG_STRING
        self._constraints = list(CONSTRAINTS[kind])
        self._schemas: dict[tuple[ToolSpec, ...], dict[str, Any]] = {}
        self._rendering = Rendering(_tell, _write, profile.needs_reasoning_back)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply; ReplyInvalid where it holds no call that can be run."""
        tools = request.tools
        rendered = self._rendering.render(request.messages, tools)
        asked = replace(request, messages=rendered, tools=())
        shown = sort_stream(on_delta, tools)
        if not tools:
            reply = await self._inner.reply(asked, shown)
            return with_parsed(reply, read_text(reply, (), self._profile), request)
        reply = await self._ask(asked, tools, shown)
        with charge_errors(reply):
            reply = replace(reply, message=without_unknown_calls(reply.message, tools))
            return with_one_call(self._read(reply, request), self._profile)

    def _schema(self, tools: tuple[ToolSpec, ...]) -> dict[str, Any]:
        known = self._schemas.get(tools)
        if known is None:
            if len(self._schemas) >= _SCHEMAS:
                self._schemas.clear()
            known = self._schemas[tools] = call_schema(tools, self._long)
        return known

    async def _ask(self, request: Request, tools: tuple[ToolSpec, ...], on_delta: OnDelta | None) -> Reply:
        """The reply, by the first of the server's fields for a schema that it does not object to."""
        while True:
            try:
                open_tools = tuple(tool for tool in tools if tool.name not in request.withheld)
                extra = {**request.extra_body, **self._constraints[0](self._schema(open_tools or tools))}
                asked = replace(request, extra_body=extra)
                return await ask_for_calls(self._inner, asked, tools, self._profile, on_delta)
            except RequestRejected as rejected:
                if self._long > SAFE_STRING and _GRAMMAR.search(rejected.detail):
                    self._long = SAFE_STRING
                    self._schemas.clear()
                elif len(self._constraints) > 1:
                    del self._constraints[0]
                else:
                    raise

    def _read(self, reply: Reply, request: Request) -> Reply:
        if reply.message.calls:
            return with_parsed(reply, read_text(reply, (), self._profile), request)
        thought = read_text(reply, (), self._profile)
        decision = read_object(thought.content)
        if decision is None:
            return self._read_astray(reply, request)
        try:
            call, why = self._call(decision, reply, request)
        except RecursionError as error:
            raise ReplyInvalid("The arguments of the call are nested too deeply.") from error
        reasoning = "\n".join(part for part in (reply.message.reasoning, thought.reasoning) if part)
        message = replace(reply.message, content=why, calls=(call,), reasoning=reasoning, wire={})
        return replace(reply, message=message, finish="calls" if reply.finish == "stop" else reply.finish)

    def _call(self, decision: Mapping[str, Any], reply: Reply, request: Request) -> tuple[ToolCall, str]:
        tool = ToolBook(request.tools).find(str(decision.get("name", "")))
        arguments = decision.get("arguments", {})
        if tool is None or not isinstance(arguments, dict):
            self.ignored += 1
            raise ReplyInvalid(f"The reply must name one of the tools and its arguments: {_names(request)}.")
        if reply.finish != "length" and tool.category in ("write", "run"):
            limit = string_limit(tool, self._long)
            if reaches_limit(arguments, limit):
                raise ReplyInvalid(
                    f"The call to {tool.name} was not run: an argument reached the limit of {limit:,} "
                    "characters and was cut off. Make several smaller calls."
                )
        values = encode_json(coerce_arguments(arguments, tool.parameters)).decode()
        why = decision.get("thought")
        call = ToolCall(CallIds(request.messages).take(""), tool.name, values)
        return call, why if isinstance(why, str) else ""

    def _read_astray(self, reply: Reply, request: Request) -> Reply:
        """A reply that is no object: cut off, or not held to the schema; calls in other forms count."""
        if reply.finish == "length":
            return reply
        self.ignored += 1
        parsed = read_text(reply, request.tools, self._profile)
        if parsed.calls:
            return with_parsed(reply, parsed, request)
        raise ReplyInvalid(
            'The reply must be one JSON object: {"thought": ..., "name": ..., "arguments": ...}. '
            f"The tools are {_names(request)}."
        )


def read_object(text: str) -> dict[str, Any] | None:
    """The object that a whole reply is: strictly read, else repaired where nothing is made up.

    An object that does not end is none: the half of a file must not be taken for a file.
    """
    text = text.strip()
    try:
        found = Source(text).json_at(0)
    except WorkLimitReached:
        return None
    if found is None or found.cut or text[found.end :].strip():
        return None
    return found.value if isinstance(found.value, dict) else None


def _names(request: Request) -> str:
    return ", ".join(tool.name for tool in request.tools)


def _tell(tools: tuple[ToolSpec, ...]) -> str:
    return _FORM.format(tools=describe_tools(tools))


def _write(message: Message) -> str:
    if not message.calls:
        return message.content
    return "\n".join(_write_call(message, call) for call in message.calls)


def _write_call(message: Message, call: ToolCall) -> str:
    fields = {"thought": message.content, "name": call.name, "arguments": arguments_as_object(call.arguments)}
    return encode_json(fields).decode()
