"""Calls as JSON objects: each request carries a schema, and the server makes the model keep to it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from headgate.core import DONE_TOOL, Message, Model, OnDelta, Reply, Request, ToolCall, ToolSpec, shorten
from headgate.errors import ReplyInvalid
from headgate.first_use import regex
from headgate.models.call_schemas import (
    LONG_STRING,
    OUTPUT,
    SAFE_STRING,
    TIGHTEST,
    call_schema,
    find_cut_string,
    room_for,
)
from headgate.models.encoding import CallIds, arguments_as_object, call_ids, encode_json
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
from headgate.models.textcalls.offered_tools import ToolBook, coerce_arguments, is_variant, read_properties
from headgate.models.textcalls.source import Source, WorkLimitReached
from headgate.models.wire.failures import RequestRejected

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


_FORM = """# Tools

Answer with one JSON object that calls one tool. Its keys are thought (one short sentence: why), name (of the
tool) and arguments. The result follows in <tool_response>. The tools (? marks optional arguments):
{tools}"""
_SCHEMAS = 32
_GRAMMAR = regex(
    r"grammar|repetition|sampler"  # llama.cpp, vLLM
    r"|json[ _]?schema|invalid schema|schema (error|conversion|contains)",  # Ollama, vLLM, OpenAI
    re.IGNORECASE,
)
_REMARK_CHARS = 200


class SchemaModel:
    """Sends the schema of a call with each request and reads the object that comes back."""

    def __init__(self, inner: Model, profile: Profile, kind: ServerKind = "unknown") -> None:
        self.name = inner.name
        self.ignored = 0
        """Replies that are no object: the server does not do what it was asked."""
        self._inner = inner
        self._profile = profile
        self._long = LONG_STRING
        self._tightness = 0
        """How many replies were cut off, less those that were not: the more, the less room they are given."""
        self._bare: set[ToolSpec] = set()
        """Tools whose arguments the server could not make a grammar of."""
        self._constraints = list(CONSTRAINTS[kind])
        self._schemas: dict[tuple[int, tuple[ToolSpec, ...]], dict[str, Any]] = {}
        self._rendering = Rendering(_tell, _write, profile.needs_reasoning_back)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply; ReplyInvalid where it holds no call that can be run."""
        tools = request.tools
        rendered = self._rendering.render(request.messages, tools)
        asked = replace(request, messages=rendered, tools=(), listed=(), chars=0)
        shown = sort_stream(on_delta, tools)
        if not tools:
            reply = await self._inner.reply(asked, shown)
            return with_parsed(reply, read_text(reply, (), self._profile), request)
        tightness = self._tightness  # conversations at the same time may change it
        reply = await self._ask(asked, tools, tightness, shown)
        with charge_errors(reply, asked):
            reply = replace(reply, message=without_unknown_calls(reply.message, tools))
            return with_one_call(self._read(reply, request, tightness), self._profile)

    def _schema(self, tools: tuple[ToolSpec, ...], tightness: int) -> dict[str, Any]:
        known = self._schemas.get((tightness, tools))
        if known is None:
            if len(self._schemas) >= _SCHEMAS:
                self._schemas.clear()
            known = self._schemas[tightness, tools] = call_schema(tools, self._long, tightness, self._bare)
        return known

    async def _ask(
        self, request: Request, tools: tuple[ToolSpec, ...], tightness: int, on_delta: OnDelta | None
    ) -> Reply:
        """The reply, by the first of the server's fields for a schema that it does not object to."""
        open_tools = tuple(tool for tool in tools if tool.name not in request.withheld) or tools
        remark = ""
        while True:
            try:
                extra = {**request.extra_body, **self._constraints[0](self._schema(open_tools, tightness))}
                asked = replace(request, extra_body=extra)
                reply = await ask_for_calls(self._inner, asked, tools, self._profile, on_delta)
                return replace(reply, remark=remark) if remark else reply
            except RequestRejected as rejected:
                if _GRAMMAR.search(rejected.detail) and not self._bare.issuperset(open_tools):
                    remark = self._ask_for_less(open_tools, rejected.detail)
                elif len(self._constraints) > 1:
                    del self._constraints[0]
                else:
                    raise

    def _ask_for_less(self, tools: tuple[ToolSpec, ...], detail: str) -> str:
        """After a schema that the server cannot take: shorter strings, then any arguments. What to record."""
        self._schemas.clear()
        if self._long > SAFE_STRING:
            self._long = SAFE_STRING
            return ""
        # It was not their length, and other tools may still need it.
        self._long = LONG_STRING
        self._bare.update(tools)
        said = shorten(" ".join(detail.split()), _REMARK_CHARS).rstrip(".")
        return (
            "The model server cannot hold replies to the arguments of these tools, so they are only checked "
            f"when a call is made: {', '.join(tool.name for tool in tools)} ({said})."
        )

    def _read(self, reply: Reply, request: Request, tightness: int) -> Reply:
        if reply.message.calls:
            return with_parsed(reply, read_text(reply, (), self._profile), request)
        thought = read_text(reply, (), self._profile)
        decision = read_object(thought.content)
        if decision is None:
            return self._read_astray(reply, request)
        try:
            call, why = self._call(decision, reply, request, tightness)
        except RecursionError as error:
            raise ReplyInvalid("The arguments of the call are nested too deeply.") from error
        reasoning = "\n".join(part for part in (reply.message.reasoning, thought.reasoning) if part)
        message = replace(reply.message, content=why, calls=(call,), reasoning=reasoning, wire={})
        return replace(reply, message=message, finish="calls" if reply.finish == "stop" else reply.finish)

    def _call(
        self, decision: Mapping[str, Any], reply: Reply, request: Request, tightness: int
    ) -> tuple[ToolCall, str]:
        tool = ToolBook(request.tools).find(str(decision.get("name", "")))
        arguments = decision.get("arguments", {})
        if tool is None or not isinstance(arguments, dict):
            self.ignored += 1
            raise ReplyInvalid(f"The reply must name one of the tools and its arguments: {_names(request)}.")
        if reply.finish != "length" and tool not in self._bare:
            self._refuse_cut(tool, arguments, tightness)
        self._tightness = max(self._tightness - 1, 0)
        values = encode_json(coerce_arguments(arguments, tool.parameters)).decode()
        why = decision.get("thought")
        called = str(decision["name"])
        name = called if is_variant(tool, called) else tool.name
        call = ToolCall(CallIds(call_ids(request.messages)).take(""), name, values)
        return call, why if isinstance(why, str) else ""

    def _refuse_cut(self, tool: ToolSpec, arguments: Mapping[str, Any], tightness: int) -> None:
        """ReplyInvalid if the schema ended a text that is part of the work."""
        known = read_properties(tool.parameters)
        for name, value in arguments.items():
            is_output = tool.name == DONE_TOOL and name == OUTPUT
            if not is_output and tool.category not in ("write", "run"):
                continue
            room = room_for(tool, name, self._long, tightness)
            limit = find_cut_string(value, known.get(name), tool.parameters, room)
            if limit is not None:
                what = "a text in `output`" if is_output else "an argument"
                advice = "Write less" if is_output else "Make several smaller calls"
                raise ReplyInvalid(
                    f"The call to {tool.name} was not run: {what} reached the limit of {limit:,} characters "
                    f"and was cut off. {advice}."
                )

    def _read_astray(self, reply: Reply, request: Request) -> Reply:
        """A reply that is no object: cut off, or not held to the schema; calls in other forms count."""
        if reply.finish == "length":
            self._tightness = min(self._tightness + 1, TIGHTEST)
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
