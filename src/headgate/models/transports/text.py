"""Calls in the text of a reply: what all transports do with it, and the two transports that rely on text."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headgate.core import Delta, Message, Model, OnDelta, Reply, Request, ToolCall, ToolSpec
from headgate.errors import CallUnknown, ReplyInvalid
from headgate.models.encoding import CallIds, decode_json
from headgate.models.profile import Profile
from headgate.models.textcalls import CallProblem, CallScanner, ParsedReply, parse_calls
from headgate.models.transports.rendering import Rendering, describe_tools
from headgate.models.transports.runaway import ask_for_calls

_CLOSING = "</think>"
_NAMES_TOLD = 30


def read_text(reply: Reply, tools: Sequence[ToolSpec], profile: Profile) -> ParsedReply:
    """A reply's content taken apart."""
    message = reply.message
    # A server that splits the thinking off itself leaves nothing of it in the content.
    thinking = (
        profile.opens_thinking
        and not message.reasoning
        and (_CLOSING in message.content or reply.finish == "length")
    )
    return parse_calls(message.content, tools, profile.calls if tools else None, thinking)


def with_parsed(reply: Reply, parsed: ParsedReply, request: Request) -> Reply:
    """The reply with what was found in its content; what the server itself told of calls stays."""
    message = reply.message
    reasoning = "\n".join(part for part in (message.reasoning, parsed.reasoning) if part)
    if not parsed.calls and not parsed.reasoning:
        return reply
    ids = CallIds(request.messages, [call.id for call in message.calls])
    found = tuple(ToolCall(ids.take(call.id), call.name, call.arguments) for call in parsed.calls)
    changed = replace(
        message, content=parsed.content, reasoning=reasoning, calls=message.calls + found, wire={}
    )
    return _finished(reply, changed)


def with_one_call(reply: Reply, profile: Profile) -> Reply:
    """The reply with its first call alone, where the model manages only one."""
    if not profile.one_call or len(reply.message.calls) < 2:
        return reply
    return replace(reply, message=replace(reply.message, calls=reply.message.calls[:1], wire={}))


@contextmanager
def charge_errors(reply: Reply) -> Iterator[None]:
    """A reply that turns out to be of no use has cost what it cost."""
    try:
        yield
    except ReplyInvalid as error:
        cost = reply.usage + reply.aside
        error.tokens = (cost.prompt, cost.completion, cost.cached)
        raise


def explain_problem(problem: CallProblem, tools: Sequence[ToolSpec]) -> ReplyInvalid:
    """The error for an attempt at a call, in words that help the model to fix it."""
    if problem.reason != "unknown_tool":
        return ReplyInvalid(problem.message)
    if not tools:
        return CallUnknown(f"{problem.message} No tools can be called here.", problem.name)
    names = ", ".join(tool.name for tool in tools[:_NAMES_TOLD])
    return CallUnknown(f"{problem.message} The tools are {names}.", problem.name)


def without_unknown_calls(message: Message, tools: Sequence[ToolSpec]) -> Message:
    """A message without calls to tools that were not offered: no server should make any up.

    ReplyInvalid where no other is left.
    """
    names = {tool.name for tool in tools}
    kept = tuple(call for call in message.calls if call.name in names)
    if message.calls and not kept:
        unknown = message.calls[0].name[:80]
        raise explain_problem(CallProblem("unknown_tool", unknown, f'There is no tool "{unknown}".'), tools)
    return message if len(kept) == len(message.calls) else replace(message, calls=kept, wire={})


def _finished(reply: Reply, message: Message) -> Reply:
    finish = "calls" if message.calls and reply.finish == "stop" else reply.finish
    return replace(reply, message=message, finish=finish)


# A reply while it streams, for people: text, thinking, and which tool is being called; never raw JSON.


_THOUGHT = re.compile(r'"thought"\s*:\s*"((?:[^"\\]|\\.)*)(")?')
_HEAD = 4_000
"""A call whose name does not come within so many characters is not looked at any further."""


def sort_stream(on_delta: OnDelta | None, tools: Sequence[ToolSpec]) -> OnDelta | None:
    """Passes a stream on, sorted into text, thinking and calls."""
    if on_delta is None:
        return None
    scanner, head = CallScanner(), CallHead(tools)

    def sort(delta: Delta) -> None:
        shown = scanner.feed(delta.text) if delta.text else Delta()
        thought, tool = head.feed(shown.arguments) if shown.arguments else ("", "")
        shown = replace(
            delta,
            text=shown.text + thought,
            reasoning=delta.reasoning + shown.reasoning,
            arguments=shown.arguments + delta.arguments,
            tool=delta.tool or tool,
        )
        if shown != Delta():
            on_delta(shown)

    return sort


class CallHead:
    """Reads the beginning of a call that is being written as text: its thought, and the tool's name."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        names = "|".join(re.escape(tool.name) for tool in tools)
        # A name counts where the syntax of a call follows it, not in a sentence.
        self._name = re.compile(rf"(?<![\w.])(?:{names})(?=\s*[\"'(<>{{:\]])") if names else None
        self._head = ""
        self._shown = 0

    def feed(self, piece: str) -> tuple[str, str]:
        """Takes the next piece; returns what it adds to the thought, and the tool's name once it is known."""
        if self._name is None:
            return "", ""
        self._head += piece
        thought = _THOUGHT.search(self._head)
        added = self._new_words(thought)
        if thought and not thought[2]:
            return added, ""  # a tool that the thought names is not called yet
        found = self._name.search(self._head, thought.end() if thought else 0)
        if found or len(self._head) > _HEAD:
            self._name = None
        return added, found[0] if found else ""

    def _new_words(self, thought: re.Match[str] | None) -> str:
        if thought is None:
            return ""
        try:
            words = str(decode_json(f'"{thought[1]}"'))
        except ValueError:
            return ""  # an escape is not complete yet
        added, self._shown = words[self._shown :], len(words)
        return added


# The transports.


class NativeModel:
    """Passes requests on as they are, and splits the thinking off where the server did not."""

    def __init__(self, inner: Model, profile: Profile, *, rescue: bool) -> None:
        self.name = inner.name
        self.rescued = 0
        """Replies whose calls were in the text."""
        self._inner = inner
        self._profile = profile
        self._rescue = rescue

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply."""
        tools = request.tools if self._rescue else ()
        shown = sort_stream(on_delta, tools)
        reply = await ask_for_calls(self._inner, request, tools, self._profile, shown)
        with charge_errors(reply):
            return self._read(reply, request)

    def _read(self, reply: Reply, request: Request) -> Reply:
        message = reply.message
        if not message.content:
            return with_one_call(reply, self._profile)
        tools = request.tools if self._rescue and not message.calls else ()
        parsed = read_text(reply, tools, self._profile)
        if parsed.calls:
            self.rescued += 1
        if tools and parsed.problems and not parsed.calls and reply.finish != "length":
            self.rescued += 1
            raise explain_problem(parsed.problems[0], tools)
        return with_one_call(with_parsed(reply, parsed, request), self._profile)


_FORM = """# Tools

Call a tool by writing exactly this, with its arguments as JSON:
<tool_call>
{{"name": "{name}", "arguments": {{}}}}
</tool_call>
{number} The result follows in <tool_response>; never write one yourself.
The tools (? marks optional arguments):
{tools}"""


class TextModel:
    """Describes the tools in the system message and reads the calls from the reply."""

    def __init__(self, inner: Model, profile: Profile) -> None:
        self.name = inner.name
        self._inner = inner
        self._profile = profile
        self._rendering = Rendering(self._tell, _write, profile.needs_reasoning_back)

    async def reply(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """One reply; ReplyInvalid where it attempts calls and none can be run."""
        tools = request.tools
        rendered = self._rendering.render(request.messages, tools)
        asked = replace(request, messages=rendered, tools=())
        shown = sort_stream(on_delta, tools)
        reply = await ask_for_calls(self._inner, asked, tools, self._profile, shown)
        with charge_errors(reply):
            return self._read(reply, request)

    def _read(self, reply: Reply, request: Request) -> Reply:
        tools = request.tools
        reply = replace(reply, message=without_unknown_calls(reply.message, tools))
        parsed = read_text(reply, tools, self._profile)
        # Of a reply that was cut off the runtime tells the model by itself.
        if parsed.problems and not (parsed.calls or reply.message.calls) and reply.finish != "length":
            raise explain_problem(parsed.problems[0], tools)
        return with_one_call(with_parsed(reply, parsed, request), self._profile)

    def _tell(self, tools: tuple[ToolSpec, ...]) -> str:
        number = (
            "Write one call per reply." if self._profile.one_call else "You may write several calls in a row."
        )
        return _FORM.format(name=tools[0].name, number=number, tools=describe_tools(tools))


def _write(message: Message) -> str:
    return "\n".join(part for part in (message.content, *map(_write_call, message.calls)) if part)


def _write_call(call: ToolCall) -> str:
    # The arguments as the model wrote them: they were JSON, or the result says why not.
    return f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}\n</tool_call>'
