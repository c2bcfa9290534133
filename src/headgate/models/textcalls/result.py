"""What is found in a reply: its parts, the calls to run, and attempts that are quoted or cannot be run."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from headgate.core import clean_text
from headgate.first_use import dataclass, regex
from headgate.models.textcalls.offered_tools import ToolBook, coerce_arguments, is_variant, read_properties
from headgate.models.textcalls.source import Source

Fault = Literal["", "cut_off", "unreadable"]
Reason = Literal["unknown_tool", "cut_off", "unreadable", "decision"]


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call to a tool that exists. `arguments` is the text of a JSON object."""

    name: str
    arguments: str
    id: str = ""
    """The id that the model wrote beside the call, if any."""


@dataclass(frozen=True, slots=True)
class CallProblem:
    """An attempt at a call that is not run; its text stays in the content."""

    reason: Reason
    name: str
    """The tool that the model meant, as far as it can be told."""
    message: str
    """One sentence for the model."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply taken apart."""

    content: str
    reasoning: str = ""
    calls: tuple[ParsedCall, ...] = ()
    problems: tuple[CallProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """One call as a family's reader understood it, before names and schemas are looked at."""

    name: str
    arguments: dict[str, Any] | None = None
    """None: there are none, or none that can be read."""
    id: str = ""
    fault: Fault = ""


class Opening(NamedTuple):
    """The mark that begins a call."""

    end: int
    closings: Sequence[str] = ()
    """The marks that may end the call."""
    prefix: str = ""
    """What its tags begin with: `｜DSML｜`."""


@dataclass(frozen=True, slots=True)
class CallsFound:
    """What a reader took: everything up to `end`."""

    end: int
    attempts: tuple[CallAttempt, ...]


# The marks around thinking, by family.


THINKING_MARKS: Mapping[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
FINAL_RESPONSE = "[BEGIN FINAL RESPONSE]"
"""Ends the thinking of models that begin every reply with it."""
THINKING_OPENING = "|".join(re.escape(mark) for mark in THINKING_MARKS)
THINKING_CLOSING = "|".join(
    re.escape(mark) for mark in (*THINKING_MARKS.values(), FINAL_RESPONSE) if mark != "<channel|>"
)


# Marks around calls that mean nothing by themselves, before and after one; and ends of turns.
_BEFORE = regex(
    r"(?:\s*+(?:<(?:\w{1,12}:)?(?:tool_calls?|function_calls?|dots_function_call)>|\]<\]minimax\[>\[<tool_call>"
    r"|<[|｜](?:DSML[|｜])?(?:tool|function)[▁_]calls?(?:[▁_]section)?(?:[▁_]begin[|｜])?>|(?<![\w#])Action:"
    r"|<[|｜]tool[▁_]calls[▁_]begin[|｜]>|```(?:xml|json)?))+\s*+\Z"
)
_AFTER = regex(
    r"\A\s*+(?:(?:</(?:\w{1,12}:)?(?:tool_calls?|function_calls?|dots_function_call)>|\]<\]minimax\[>\[</tool_call>"
    r"|</?[|｜](?:DSML[|｜])?(?:tool|function)[▁_]calls?(?:[▁_]section)?(?:[▁_]end[|｜])?>|```"
    r"|<[|｜]tool[▁_]calls?[▁_]end[|｜]>|<\|END_ACTION\|>)\s*+)+"
)
_STRAYS = (
    r"<\|(?:im_end|eot_id|eom_id|end_of_text|endoftext|eot|eom|end|return|call|CHATBOT_TOKEN|END_OF_TURN_TOKEN"
    r"|START_RESPONSE|END_RESPONSE|START_TEXT|END_TEXT)\|>|</s>|<end_of_turn>|<｜end▁of▁sentence｜>"
    r"|<channel\|>|<\|channel>(?:thought\s{0,4}<channel\|>)?"
)
_STRAY_START = regex(rf"\A(?:\s{{0,8}}(?:{_STRAYS}))+")
_STRAY_END = regex(rf"(?:(?:{_STRAYS})\s{{0,8}})+\Z")
EDGE = 400
"""How far from a call the marks around it are looked for."""
MESSAGES_READ = 2_000
"""Messages in one reply that are looked at, in families that divide it."""
PROBLEMS = 16
"""More than so many tell a model nothing new."""
MESSAGES = {
    "unknown_tool": 'There is no tool "{}".',
    "cut_off": 'The call to "{}" is incomplete, so it was not run. Call again with less content.',
    "unreadable": (
        'The call to "{}" cannot be read: write its arguments as one JSON object, and escape quotation marks '
        "inside strings."
    ),
}
NAMELESS = {
    "cut_off": "A call is incomplete, so it was not run. Call again with less content.",
    "unreadable": "A call cannot be read: write the tool's name, and its arguments as one JSON object.",
}
"""For calls that do not tell which tool they mean."""
DECISIONS = ("EXECUTOR_DECISION", "PLANNER_DECISION")
"""Objects that say what to do next; a field `_type` has their name. One that cannot be read is an attempt at
a call of that name."""
UNREADABLE_DECISION = (
    "The decision cannot be read: its `action` is CALL_TOOL with `tool: {name, args}`, DONE, ESCALATE, or of"
    " a planner EXECUTE with `task_type` and `goals`, or COMPLETE."
)


@dataclass(frozen=True, slots=True)
class ReplyPart:
    """Part of a reply: text for people, thinking, or calls."""

    kind: Literal["content", "reasoning", "calls"]
    text: str
    attempts: tuple[CallAttempt, ...] = ()


def check_attempt(attempt: CallAttempt, book: ToolBook) -> ParsedCall | CallProblem:
    """An attempt at a call, checked against the tools that exist."""
    tool = book.find(attempt.name)
    if tool is None:
        if attempt.name in DECISIONS:
            return CallProblem("decision", attempt.name, UNREADABLE_DECISION)
        if attempt.fault and not attempt.name:
            return CallProblem(attempt.fault, "", NAMELESS[attempt.fault])
        reason: Reason = "unknown_tool"
        return CallProblem(reason, attempt.name, MESSAGES[reason].format(attempt.name[:80]))
    arguments = attempt.arguments
    if arguments is None and not attempt.fault and not read_properties(tool.parameters):
        arguments = {}
    if attempt.fault or arguments is None:
        reason = attempt.fault or "unreadable"
        return CallProblem(reason, tool.name, MESSAGES[reason].format(tool.name))
    values = coerce_arguments(arguments, tool.parameters)
    name = attempt.name if is_variant(tool, attempt.name) else tool.name
    return ParsedCall(name, clean_text(json.dumps(values, ensure_ascii=False)), attempt.id)


def assemble_reply(parts: Sequence[ReplyPart], book: ToolBook, whole_batch: bool = False) -> ParsedReply:
    """The parsed reply. `whole_batch`: where one call is bad, none is taken."""
    calls: list[ParsedCall] = []
    problems: list[CallProblem] = []
    content: list[str] = []
    reasoning = [_strip_before(part.text) for part in parts if part.kind == "reasoning"]
    after_call = False
    for part in parts:
        if part.kind == "content":
            content.append(_strip_after(part.text) if after_call else part.text)
            after_call = False
        if part.kind != "calls":
            continue
        verdicts = [check_attempt(attempt, book) for attempt in part.attempts]
        good = [verdict for verdict in verdicts if isinstance(verdict, ParsedCall)]
        problems += [verdict for verdict in verdicts if isinstance(verdict, CallProblem)]
        calls += good
        after_call = bool(good)
        if not good:
            content.append(part.text)
        elif content:
            content[-1] = _strip_before(content[-1])
    if whole_batch and problems and calls:
        calls = []
        content = [part.text for part in parts if part.kind != "reasoning"]
    text = "".join(content)
    text = _STRAY_START.sub("", text[:EDGE]) + text[EDGE:]
    text = text[:-EDGE] + _STRAY_END.sub("", text[-EDGE:], 1)
    if calls:
        text = text.rstrip()
    if calls or reasoning:
        text = text.lstrip() if reasoning else text.lstrip("\n")
    thought = "\n".join(part for part in (part.strip() for part in reasoning) if part)
    return ParsedReply(text, thought, tuple(calls), tuple(problems[:PROBLEMS]))


def _strip_before(text: str) -> str:
    return text[:-EDGE] + _BEFORE.sub("", text[-EDGE:], 1)


def _strip_after(text: str) -> str:
    return _AFTER.sub("", text[:EDGE], 1) + text[EDGE:]


# Calls that are only talked about.


_EXAMPLE = regex(
    r"\b(?:examples?|e\.g\.|for instance|(?:you|one|it|this) (?:would|could|might|can)|looks? like)\b"
    r".{0,80}:\s*\Z",
    re.IGNORECASE,
)
_TRAILING_TAGS = regex(r"(?:\s{0,8}<[^<>\s]{1,40}>){1,4}\s*\Z")
_LOOK_BACK = 240


class QuotedText:
    """Answers for positions that only grow, so that a reply is looked at once."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._counted = start
        self._odd = False

    def skip_to(self, position: int) -> None:
        """Leaves a part out, such as a call with its arguments."""
        self._counted = max(self._counted, position)
        self._odd = False

    def is_quoted(self, start: int, end: int) -> bool:
        """Whether the part stands in inline code, or the line before it announces an example."""
        return self._is_inline(start, end) or self._is_example(start)

    def _is_inline(self, start: int, end: int) -> bool:
        line = self._text.rfind("\n", self._counted, start) + 1
        if line:
            self._counted, self._odd = line, False
        self._odd ^= self._text.count("`", self._counted, start) % 2 == 1
        self._counted = start
        if not self._odd:
            return False
        line_end = self._text.find("\n", end, end + 400)
        return self._text.find("`", end, line_end if line_end >= 0 else end + 400) >= 0

    def _is_example(self, start: int) -> bool:
        before = self._text[max(0, start - _LOOK_BACK) : start]
        before = _TRAILING_TAGS.sub("", before).rstrip()
        return _EXAMPLE.search(before[before.rfind("\n") + 1 :]) is not None


# Marked calls that no reader understands: each is answered with a correction, never passed over in silence.


_NAMED = regex(r'"(?:name|tool_name)"\s*:\s*"([^"\\]{1,200})"')
_ORDINARY = regex(r"<(?!longcat_)[A-Za-z]")
"""Tags that may stand in text about something else."""
_NEVER = ("<tools>", "<tool>")
"""Tags that hold descriptions of tools as often as calls."""
_NAME = regex(r"""[\s\[{"']*+(?:call:)?([\w.\-]{1,128}+)""")


def find_unreadable(
    source: Source, mark: re.Match[str], closings: Sequence[str], book: ToolBook
) -> CallsFound | None:
    """The attempt that begins with this mark, up to the mark that closes it; None where it is none.

    `mark.re` finds all marks: where one follows at once, that one tells.
    """
    text, start = source.text, source.skip_space(mark.end())
    following = mark.re.match(text, start)
    if mark[0] in _NEVER or (following and not (following["think"] or following["answer"])):
        return None
    places = [(place, closing) for closing in closings if (place := source.find(closing, start)) >= 0]
    place, closing = min(places, default=(-1, ""))
    end = place + len(closing) if places else mark.end()
    head = _NAME.match(text, start)
    named = head is not None and book.find(head[1]) is not None
    if _ORDINARY.match(mark[0]):
        inner = mark.re.search(text, start, max(place, start))
        if inner or not (named or text[start : start + 1] in ("{", "[") or text[start : max(place, start)]):
            return None
    elif not text[start:].strip():
        return None
    name = head[1] if head and named else guess_name(text, start)
    return CallsFound(end, (CallAttempt(name, fault="unreadable"),))


def guess_name(text: str, start: int) -> str:
    """The tool's name in an object that cannot be read to its end."""
    match = _NAMED.search(text, start, start + 2_000)
    return match[1] if match else ""
