"""Parsing a reply: calls, text and thinking of a whole one, and what a streamed one shows so far."""

import re
from collections.abc import Sequence
from typing import Literal

from headgate.core import Delta, ToolSpec
from headgate.models.encoding import repair_text
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import (
    THINKING_MARKS,
    ParsedReply,
    ReplyPart,
    assemble_reply,
)
from headgate.models.textcalls.scan import MARK, ReplyScan
from headgate.models.textcalls.source import Source, WorkLimitReached
from headgate.models.textcalls.table import FRAMES, NAMES


def parse_calls(
    text: str, tools: Sequence[ToolSpec], family: str | None = None, thinking: bool = False
) -> ParsedReply:
    """The calls, the text and the thinking in a model's reply. Never raises on a reply, whatever it holds.

    `family` is how the model is known to write calls: its form is then tried first, and forms that are too
    plain to be told from text without it are read as well; other forms are still found. `thinking` says that
    the prompt ends inside the thinking, so that the reply begins there. ValueError for an unknown family.
    """
    if family is not None and family not in NAMES:
        raise ValueError(f'There is no family "{family}"; the families are {", ".join(sorted(NAMES))}.')
    text = repair_text(text)
    try:
        return _parse(text, ToolBook(tools), family, thinking)
    except (WorkLimitReached, RecursionError):
        return ParsedReply(text)


def _parse(text: str, book: ToolBook, family: str | None, thinking: bool) -> ParsedReply:
    # A mark of a frame counts only before the first call: arguments may hold anything.
    first = MARK.search(text)
    head = text[: first.start()] if first else text
    for frame in FRAMES:
        if frame.claims(head, frame.name == family):
            return assemble_reply(frame.read(Source(text), book), book, frame.whole_batch)
    if family == "kimi-k3" and thinking:
        return assemble_reply([ReplyPart("reasoning", text)], book)
    return assemble_reply(ReplyScan(Source(text), book, family or "", thinking).parts(), book)


# A reply while it streams.


HOLD = 64
"""No mark is longer: so many characters tell whether one begins."""
_MAYBE = re.compile(r"[<\[\]]")


class CallScanner:
    """Takes a reply in parts, cut anywhere, and sorts what can be shown already.

    That is for people to watch. What counts is decided on the whole reply (`parse_calls`), because a later
    word can turn a call into thinking, or into an example.
    """

    def __init__(self) -> None:
        self._held = ""
        self._mode: Literal["start", "text", "thinking", "calls"] = "start"
        self._closing = ""

    def feed(self, chunk: str) -> Delta:
        """Takes the next part; returns what it shows: text, thinking, or parts of calls."""
        self._held += chunk
        shown: dict[str, list[str]] = {"text": [], "reasoning": [], "arguments": []}
        while self._held and self._step(shown):
            pass
        text, reasoning, arguments = ("".join(parts) for parts in shown.values())
        return Delta(text, reasoning, arguments)

    def _step(self, shown: dict[str, list[str]]) -> bool:
        """Moves something out of what is held; False where more has to come first."""
        match self._mode:
            case "calls":
                return self._show(shown["arguments"], len(self._held))
            case "thinking":
                return self._step_thinking(shown["reasoning"])
            case "start":
                self._held = self._held.lstrip()
                if not self._held:
                    return False
                if self._held[0] == "{":
                    self._mode = "calls"
                    return True
        return self._step_text(shown["text"])

    def _step_thinking(self, shown: list[str]) -> bool:
        thinking, found, rest = self._held.partition(self._closing)
        if found:
            shown.append(thinking)
            self._held = rest
            self._mode = "start"
            return True
        return self._show(shown, len(self._held) - HOLD)

    def _step_text(self, shown: list[str]) -> bool:
        maybe = _MAYBE.search(self._held)
        if not maybe:
            self._mode = "text"
            return self._show(shown, len(self._held))
        if maybe.start():
            self._mode = "text"
            return self._show(shown, maybe.start())
        mark = MARK.match(self._held)
        # The longest mark decides: `<tool_call>` may still become another one.
        if len(self._held) < HOLD and not (mark and mark["think"]):
            return False
        if mark and mark["think"] and self._mode == "start":
            self._held = self._held[mark.end() :]
            self._closing = THINKING_MARKS[mark[0]]
            self._mode = "thinking"
            return True
        if mark and not mark["think"] and not mark["answer"]:
            self._mode = "calls"
            return True
        self._mode = "text"
        return self._show(shown, 1)

    def _show(self, shown: list[str], length: int) -> bool:
        if length <= 0:
            return False
        shown.append(self._held[:length])
        self._held = self._held[length:]
        return True
