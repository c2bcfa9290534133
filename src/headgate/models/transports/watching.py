"""A reply while it streams, for people: text, thinking, and which tool is being called; never raw JSON."""

import re
from collections.abc import Sequence
from dataclasses import replace

from headgate.core.messages import Delta, OnDelta, ToolSpec
from headgate.models.jsontext import decode_json
from headgate.models.profile import Profile
from headgate.models.textcalls import CallScanner

_THOUGHT = re.compile(r'"thought"\s*:\s*"((?:[^"\\]|\\.)*)(")?')
_HEAD = 4_000
"""A call whose name does not come within so many characters is not looked at any further."""


def watch(on_delta: OnDelta | None, tools: Sequence[ToolSpec], profile: Profile) -> OnDelta | None:
    """Passes a stream on, sorted into text, thinking and calls."""
    if on_delta is None:
        return None
    scanner, head = CallScanner(tools, profile.calls), CallHead(tools)

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
