"""Tool calls that models write as text, in all their forms: of a whole reply, and of one that streams."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from headgate.core import Delta, OnDelta, ToolSpec
from headgate.first_use import regex
from headgate.models.encoding import decode_json, repair_text
from headgate.models.textcalls.offered_tools import ToolBook
from headgate.models.textcalls.result import (
    THINKING_MARKS,
    CallProblem,
    ParsedCall,
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
        mark = frame.hinted_mark if frame.name == family and frame.hinted_mark else frame.mark
        if mark.search(head):
            return assemble_reply(frame.read(Source(text), book), book, frame.whole_batch)
    if family == "kimi-k3" and thinking:
        return assemble_reply([ReplyPart("reasoning", text)], book)
    return assemble_reply(ReplyScan(Source(text), book, family or "", thinking).parts(), book)


# A reply while it streams, for people: text, thinking, and which tool is being called; never raw JSON.


HOLD = 64
"""No mark is longer: so many characters tell whether one begins."""
_MAYBE = regex(r"[<\[\]]")


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


_THOUGHT = regex(r'"thought"\s*:\s*"((?:[^"\\]|\\.)*)(")?')
_HEAD = 4_000
"""A call whose name does not come within so many characters is not looked at any further."""


def sort_stream(on_delta: OnDelta | None, tools: Sequence[ToolSpec]) -> OnDelta | None:
    """Passes a stream on, sorted into text, thinking and calls."""
    if on_delta is None:
        return None
    scanner, head = CallScanner(), CallHead(tools)

    def sort(delta: Delta) -> None:
        if not delta.text:
            on_delta(delta)
            return
        shown = scanner.feed(delta.text)
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
