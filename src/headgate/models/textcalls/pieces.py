"""A reply in pieces, in order, and how they become the parsed reply."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headgate.core import clean_text
from headgate.models.textcalls.coercion import coerce_arguments
from headgate.models.textcalls.result import (
    Attempt,
    Parsed,
    ParsedCall,
    Problem,
    Reason,
    ToolBook,
    read_properties,
)

# Marks around calls that mean nothing by themselves, before and after one; and ends of turns.
_BEFORE = re.compile(
    r"(?:\s*+(?:<(?:\w{1,12}:)?(?:tool_calls?|function_calls?|dots_function_call)>|\]<\]minimax\[>\[<tool_call>"
    r"|<[|｜](?:DSML[|｜])?(?:tool|function)[▁_]calls?(?:[▁_]section)?(?:[▁_]begin[|｜])?>|(?<![\w#])Action:"
    r"|<[|｜]tool[▁_]calls[▁_]begin[|｜]>|```(?:xml|json)?))+\s*+\Z"
)
_AFTER = re.compile(
    r"\A\s*+(?:(?:</(?:\w{1,12}:)?(?:tool_calls?|function_calls?|dots_function_call)>|\]<\]minimax\[>\[</tool_call>"
    r"|</?[|｜](?:DSML[|｜])?(?:tool|function)[▁_]calls?(?:[▁_]section)?(?:[▁_]end[|｜])?>|```"
    r"|<[|｜]tool[▁_]calls?[▁_]end[|｜]>|<\|END_ACTION\|>)\s*+)+"
)
_STRAYS = (
    r"<\|(?:im_end|eot_id|eom_id|end_of_text|endoftext|eot|eom|end|return|call|CHATBOT_TOKEN|END_OF_TURN_TOKEN"
    r"|START_RESPONSE|END_RESPONSE|START_TEXT|END_TEXT)\|>|</s>|<end_of_turn>|<start_function_response>|<｜end▁of▁sentence｜>"
    r"|<channel\|>|<\|channel>(?:thought\s{0,4}<channel\|>)?"
)
_STRAY_START = re.compile(rf"\A(?:\s{{0,8}}(?:{_STRAYS}))+")
_STRAY_END = re.compile(rf"(?:(?:{_STRAYS})\s{{0,8}})+\Z")
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


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a reply: text for people, thinking, or calls."""

    kind: Literal["content", "reasoning", "calls"]
    text: str
    attempts: tuple[Attempt, ...] = ()


def judge(attempt: Attempt, book: ToolBook) -> ParsedCall | Problem:
    """An attempt at a call, checked against the tools that exist."""
    tool = book.find(attempt.name)
    if tool is None:
        if attempt.fault and not attempt.name:
            return Problem(attempt.fault, "", NAMELESS[attempt.fault])
        reason: Reason = "unknown_tool"
        return Problem(reason, attempt.name, MESSAGES[reason].format(attempt.name[:80]))
    arguments = attempt.arguments
    if arguments is None and not attempt.fault and not read_properties(tool.parameters):
        arguments = {}
    if attempt.fault or arguments is None:
        reason = attempt.fault or "unreadable"
        return Problem(reason, tool.name, MESSAGES[reason].format(tool.name))
    values = coerce_arguments(arguments, tool.parameters)
    return ParsedCall(tool.name, clean_text(json.dumps(values, ensure_ascii=False)), attempt.id)


def assemble(pieces: Sequence[Piece], book: ToolBook, whole_batch: bool = False) -> Parsed:
    """The parsed reply. `whole_batch`: where one call is bad, none is taken."""
    calls: list[ParsedCall] = []
    problems: list[Problem] = []
    content: list[str] = []
    reasoning = [_strip_before(piece.text) for piece in pieces if piece.kind == "reasoning"]
    after_call = False
    for piece in pieces:
        if piece.kind == "content":
            content.append(_strip_after(piece.text) if after_call else piece.text)
            after_call = False
        if piece.kind != "calls":
            continue
        verdicts = [judge(attempt, book) for attempt in piece.attempts]
        good = [verdict for verdict in verdicts if isinstance(verdict, ParsedCall)]
        problems += [verdict for verdict in verdicts if isinstance(verdict, Problem)]
        calls += good
        after_call = bool(good)
        if not good:
            content.append(piece.text)
        elif content:
            content[-1] = _strip_before(content[-1])
    if whole_batch and problems and calls:
        calls = []
        content = [piece.text for piece in pieces if piece.kind != "reasoning"]
    text = "".join(content)
    text = _STRAY_START.sub("", text[:EDGE]) + text[EDGE:]
    text = text[:-EDGE] + _STRAY_END.sub("", text[-EDGE:], 1)
    if calls:
        text = text.rstrip()
    if calls or reasoning:
        text = text.lstrip() if reasoning else text.lstrip("\n")
    thought = "\n".join(part for part in (part.strip() for part in reasoning) if part)
    return Parsed(text, thought, tuple(calls), tuple(problems[:PROBLEMS]))


def _strip_before(text: str) -> str:
    return text[:-EDGE] + _BEFORE.sub("", text[-EDGE:], 1)


def _strip_after(text: str) -> str:
    return _AFTER.sub("", text[:EDGE], 1) + text[EDGE:]
