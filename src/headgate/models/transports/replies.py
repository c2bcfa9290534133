"""What all transports do with a reply: thinking apart, calls as calls, one of them where only one counts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from headgate.core.messages import Message, Reply, Request, ToolCall, ToolSpec
from headgate.errors import CallUnknown, ReplyInvalid
from headgate.models.callids import CallIds
from headgate.models.profile import Profile
from headgate.models.textcalls import Parsed, Problem, parse_calls

_CLOSING = "</think>"
_NAMES_TOLD = 30


def read_text(reply: Reply, tools: Sequence[ToolSpec], profile: Profile) -> Parsed:
    """A reply's content taken apart."""
    message = reply.message
    # A server that splits the thinking off itself leaves nothing of it in the content.
    thinking = (
        profile.opens_thinking
        and not message.reasoning
        and (_CLOSING in message.content or reply.finish == "length")
    )
    return parse_calls(message.content, tools, profile.calls if tools else None, thinking)


def with_parsed(reply: Reply, parsed: Parsed, request: Request) -> Reply:
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
def paid_for(reply: Reply) -> Iterator[None]:
    """A reply that turns out to be of no use has cost what it cost."""
    try:
        yield
    except ReplyInvalid as error:
        cost = reply.usage + reply.aside
        error.tokens = (cost.prompt, cost.completion, cost.cached)
        raise


def explain_problem(problem: Problem, tools: Sequence[ToolSpec]) -> ReplyInvalid:
    """The error for an attempt at a call, in words that help the model to mend it."""
    if problem.reason != "unknown_tool":
        return ReplyInvalid(problem.message)
    if not tools:
        return CallUnknown(f"{problem.message} No tools can be called here.", problem.name)
    names = ", ".join(tool.name for tool in tools[:_NAMES_TOLD])
    return CallUnknown(f"{problem.message} The tools are {names}.", problem.name)


def known_calls(message: Message, tools: Sequence[ToolSpec]) -> Message:
    """A message without calls to tools that were not offered: no server should make any up.

    ReplyInvalid where no other is left.
    """
    names = {tool.name for tool in tools}
    kept = tuple(call for call in message.calls if call.name in names)
    if message.calls and not kept:
        unknown = message.calls[0].name[:80]
        raise explain_problem(Problem("unknown_tool", unknown, f'There is no tool "{unknown}".'), tools)
    return message if len(kept) == len(message.calls) else replace(message, calls=kept, wire={})


def _finished(reply: Reply, message: Message) -> Reply:
    finish = "calls" if message.calls and reply.finish == "stop" else reply.finish
    return replace(reply, message=message, finish=finish)
