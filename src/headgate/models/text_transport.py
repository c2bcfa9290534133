"""Calls in the text of a reply: what all transports do with it, and the two transports that rely on text.

A reply may not stop after its calls: it repeats calls, or goes on with invented results. Only replies that
begin with calls are checked for that, and only calls that are complete and need no repair. So the finding
does not depend on what follows, and a call that is quoted, thought about or part of an argument does not
count.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headgate.core import (
    Message,
    Model,
    OnDelta,
    Reply,
    Request,
    ToolCall,
    ToolSpec,
    estimate_missing,
    written,
)
from headgate.errors import CallUnknown, ReplyInvalid
from headgate.first_use import dataclass, regex
from headgate.models.encoding import CallIds, call_ids
from headgate.models.profile import Profile
from headgate.models.rendering import Rendering, describe_tools
from headgate.models.textcalls import CallProblem, ParsedReply, parse_calls, sort_stream
from headgate.models.textcalls.json_families import attempts_in
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import THINKING_MARKS

MOST_CALLS = 32
"""In a row of one reply."""
SAME_MOST = 4
"""How often a call may come, with others that change something in between."""
UNKNOWN_MOST = 4
"""Calls in a row to tools that there are not."""
_STEP = 120
"""Characters between two looks at a reply; the gaps grow with it."""
_LOOK_EVERY = 2_000
"""The largest gap: a reply that goes round is to be ended here before it is given up as endless."""
_CALL = regex(r"\s*+(?P<mark><tool_call>\s*+)?(?=\{)")
_CALL_END = regex(r"\s*+</tool_call>")
_NEXT = regex(r'\s*+(?:<tool_call>|\{\s*+"(?:name|thought)")')
_RESULT = regex(r"\s*+<tool_response[\s>]")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class _RowCall:
    key: str
    """The same for calls that ask for the same."""
    tool: ToolSpec | None
    end: int


def find_end(text: str, tools: Sequence[ToolSpec], profile: Profile) -> int | None:
    """Where a reply should have ended; None where it runs on nowhere.

    That is behind the one call of a model that manages one, or MOST_CALLS, when another begins; before two
    calls in a row that can bring nothing new; behind UNKNOWN_MOST that there are no tools for; or before a
    result. What a text gives, its continuation gives.
    """
    ends: list[int] = []
    seen: Counter[str] = Counter()
    since_change: set[str] = set()
    stale = unknown = 0
    most = 1 if profile.one_call else MOST_CALLS
    start = _row_start(text, profile.opens_thinking)
    for call in _calls(text, start, ToolBook(tools)) if start is not None else ():
        unknown = unknown + 1 if call.tool is None else 0
        if unknown == UNKNOWN_MOST:
            return call.end
        if call.tool is None:
            continue
        if call.key in since_change or seen[call.key] == SAME_MOST:
            stale += 1  # it came with nothing but reading since, or often enough
        else:
            stale = 0
            if call.tool.category != "read":
                since_change.clear()
            since_change.add(call.key)
            seen[call.key] += 1
        if stale == 2:
            return ends[-2]
        ends.append(call.end)
        if len(ends) == most and _NEXT.match(text, call.end):
            return call.end
    return ends[-1] if ends and not unknown and _RESULT.match(text, ends[-1]) else None


def _row_start(text: str, opened: bool) -> int | None:
    """Where calls begin if a reply begins with any: behind its thinking. None where that has no end yet."""
    start = len(text) - len(text.lstrip())
    for opening, closing in THINKING_MARKS.items():
        if text.startswith(opening, start):
            return _behind(text, closing)
    # A server that splits the thinking off leaves neither mark.
    return _behind(text, "</think>") if opened and not _CALL.match(text) else 0


def _behind(text: str, mark: str) -> int | None:
    end = text.find(mark)
    return None if end < 0 else end + len(mark)


def _calls(text: str, start: int, book: ToolBook) -> Iterator[_RowCall]:
    """The calls of a row, with nothing but space between them."""
    while opening := _CALL.match(text, start):
        try:
            value, start = _DECODER.raw_decode(text, opening.end())
            attempts = attempts_in(value) or ()
            key = json.dumps([(attempt.name, attempt.arguments) for attempt in attempts], sort_keys=True)
        except (ValueError, RecursionError):
            return
        if opening["mark"]:
            closing = _CALL_END.match(text, start)
            if not closing:
                return
            start = closing.end()
        if len(attempts) != 1:
            return
        yield _RowCall(key, book.find(attempts[0].name), start)


class _RunningOn:
    """Sees the text of a reply as it comes, and says when the rest of it would not count."""

    def __init__(self, tools: Sequence[ToolSpec], profile: Profile) -> None:
        self.ended = False
        self._tools = tools
        self._profile = profile
        self._pieces: list[str] = []
        self._size = 0
        self._look_at = _STEP

    def see(self, piece: str) -> bool:
        """Takes what has just arrived; whether that is enough."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= self._look_at and not self.ended:
            self._look_at = self._size + min(max(_STEP, self._size // 4), _LOOK_EVERY)
            self.ended = find_end("".join(self._pieces), self._tools, self._profile) is not None
        return self.ended


async def ask_for_calls(
    model: Model, request: Request, tools: Sequence[ToolSpec], profile: Profile, on_delta: OnDelta | None
) -> Reply:
    """The reply to a request whose answer may call these tools in its text, without what runs on."""
    if not tools:
        return await model.reply(request, on_delta)
    running_on = _RunningOn(tools, profile)
    reply = await model.reply(replace(request, enough=running_on.see), on_delta)
    if running_on.ended:
        reply = estimate_missing(reply, request)  # a server counts at the end, which it did not come to
    message = reply.message
    end = None if message.calls else find_end(message.content, tools, profile)
    if end is None:
        return reply
    # One that was cut off at the server's limit has its calls all the same.
    finish = "stop" if reply.finish == "length" else reply.finish
    return replace(reply, message=replace(message, content=message.content[:end], wire={}), finish=finish)


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
    ids = CallIds(call_ids([*request.messages, message]))
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
def charge_errors(reply: Reply, request: Request) -> Iterator[None]:
    """A reply that turns out to be of no use has cost what it cost, and is what the model wrote."""
    try:
        yield
    except ReplyInvalid as error:
        reply = estimate_missing(reply, request)
        error.said = written(reply.message)
        cost = reply.usage + reply.aside
        error.tokens = (cost.prompt, cost.completion, cost.cached)
        error.estimated = reply.estimated
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
        tools = request.tools if self._rescue else ()
        shown = sort_stream(on_delta, tools)
        reply = await ask_for_calls(self._inner, request, tools, self._profile, shown)
        with charge_errors(reply, request):
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
        asked = replace(request, messages=rendered, tools=(), listed=(), chars=0)
        shown = sort_stream(on_delta, tools)
        reply = await ask_for_calls(self._inner, asked, tools, self._profile, shown)
        with charge_errors(reply, asked):
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
