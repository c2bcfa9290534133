"""Replies that run on after their calls: in rows that repeat, or with results that the model makes up.

What counts of a reply depends on its text, and is the same whether or not the reply could be ended early:
except that words behind bare calls, which make an example of them, have not come yet when a row of them goes
round. No model that gives an example writes it out twice.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from headgate.core.messages import Model, OnDelta, Reply, Request, ToolSpec, Usage
from headgate.models.profile import Profile
from headgate.models.textcalls import Parsed, ParsedCall, parse_calls
from headgate.models.textcalls.thinking import is_thinking

MOST_CALLS = 32
"""In the text of one reply."""
SAME_MOST = 4
"""How often a call may come, with others that change something in between."""
_RESULT = "<tool_response"
_RESULTS_TRIED = 16
_STEP = 120
"""Characters between two looks at a reply; the gaps grow with it, which keeps the work in proportion."""
_CHARACTERS = 4
"""To a token, about."""


def read_row(
    text: str, tools: Sequence[ToolSpec], profile: Profile, thinking: bool = False
) -> tuple[Parsed, bool]:
    """A text taken apart up to the first result in it that the model made up; whether there is one."""
    family = profile.calls if tools else None
    start = 0
    for _ in range(_RESULTS_TRIED if tools else 0):
        start = text.find(_RESULT, start)
        if start < 0:
            break
        before = parse_calls(text[:start], tools, family, thinking)
        # In the middle of a call it is part of the arguments.
        cut_off = any(problem.reason == "cut_off" for problem in before.problems)
        if before.calls and not cut_off and not is_thinking(text[:start], thinking):
            return before, True
        start += len(_RESULT)
    return parse_calls(text, tools, family, thinking), False


def count_before_repeat(calls: Sequence[ParsedCall], tools: Sequence[ToolSpec]) -> int:
    """How many calls come before the first that can bring nothing new.

    That is one which has come before with nothing but reading since, or SAME_MOST times already.
    """
    reading = {tool.name for tool in tools if tool.category == "read"}
    seen: Counter[tuple[str, str]] = Counter()
    fresh: set[tuple[str, str]] = set()
    for index, call in enumerate(calls[:MOST_CALLS]):
        key = (call.name, call.arguments)
        if key in fresh or seen[key] == SAME_MOST:
            return index
        if call.name not in reading:
            fresh.clear()
        fresh.add(key)
        seen[key] += 1
    return min(len(calls), MOST_CALLS)


class RunningOn:
    """Sees the text of a reply as it comes, and says when the rest of it would not count."""

    def __init__(self, tools: Sequence[ToolSpec], profile: Profile) -> None:
        self._tools = tools
        self._profile = profile
        self._pieces: list[str] = []
        self._size = 0
        self._look_at = _STEP
        self._ended = False

    def see(self, piece: str) -> bool:
        """Takes what has just arrived; whether that is enough."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= self._look_at and not self._ended:
            self._look_at = self._size + max(_STEP, self._size // 4)
            self._ended = self._is_enough("".join(self._pieces))
        return self._ended

    def charge(self, reply: Reply, request: Request) -> Reply:
        """The reply with its cost: a server counts at the end, and does not come to that if it is stopped."""
        if not self._ended:
            return reply
        told = reply.usage
        prompt = told.prompt or sum(len(message.content) for message in request.messages) // _CHARACTERS
        completion = max(told.completion, self._size // _CHARACTERS)
        return replace(reply, usage=Usage(prompt, completion, told.cached))

    def _is_enough(self, text: str) -> bool:
        opened = self._profile.opens_thinking
        if is_thinking(text, opened):
            return False
        parsed, made_up = read_row(text, self._tools, self._profile, opened)
        most = 1 if self._profile.one_call else count_before_repeat(parsed.calls, self._tools)
        return made_up or len(parsed.calls) > most


async def ask_for_calls(
    model: Model, request: Request, tools: Sequence[ToolSpec], profile: Profile, on_delta: OnDelta | None
) -> Reply:
    """The reply to a request whose answer may call these tools in its text; ended where it runs on."""
    running_on = RunningOn(tools, profile)
    reply = await model.reply(replace(request, enough=running_on.see), on_delta)
    return running_on.charge(reply, request)
