"""Families that write JSON between marks: most of them."""

import re

from headgate.models.textcalls.pythonic import read_pythonic
from headgate.models.textcalls.result import Attempt, Fault, Found
from headgate.models.textcalls.shapes import attempts_in, guess_name, read_arguments
from headgate.models.textcalls.source import Source, Value
from headgate.models.textcalls.toolbook import ToolBook

CALLS = 500
"""Calls in one place: no model means more."""
_MISTRAL_NAME = re.compile(
    r"\s*+([\w.\-]{1,128}+)\s*+(?:\[CALL_ID\]([\w\-]{1,64}+))?\s*+(?:\[ARGS\])?\s*+(?=\{)"
)
_MISTRAL_ALONE = re.compile(r"\s*+([\w.\-]{1,128}+)\s*+(?:\[ARGS\])?\s*+(?=\Z|\[TOOL_CALLS\]|</s>)")
_KIMI_HEAD = re.compile(
    r"\s*+(?:functions\.)?([\w.\-]{1,128}+)(?::\d{1,9}+)?\s*+<\|tool_call_argument_begin\|>\s*+"
)
_DEEPSEEK_HEAD = re.compile(r"\s*+(?:function\s*+<[|｜]tool[▁_]sep[|｜]>\s*+)?([\w.\-]{1,128}+)\s*+")
_DEEPSEEK_JSON = re.compile(r"(?:<[|｜]tool[▁_]sep[|｜]>|```json|```)?\s*+(?=\{)")
_DEEPSEEK_END = re.compile(r"\s*+(?:```)?\s*+(?:<[|｜]tool[▁_]call[▁_]end[|｜]>)?")


class MarkedJson:
    """`<mark>` and one call, a list of calls, or calls after each other, as JSON or as Python."""

    def __init__(self, *closings: str, keyed: bool = False, pythonic: bool = False) -> None:
        self.closings = closings
        self._keyed = keyed
        self._pythonic = pythonic

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads values up to the closing mark, or to the end of the last one where the mark is missing."""
        text, position = source.text, source.skip_space(opening.end())
        attempts: list[Attempt] = []
        while text[position : position + 1] in ("{", "[") and len(attempts) < CALLS:
            value = (
                source.json_at(position, self._closing_at(source, position))
                if self._is_json(source, position)
                else None
            )
            if value is None and self._pythonic:
                if not (found := read_pythonic(source, position, book)):
                    return None
                attempts += found.attempts
                position = source.skip_space(found.end)
            elif value is None:
                return Found(position + 1, (Attempt(guess_name(text, position), None, "", "unreadable"),))
            elif value.cut:
                attempts.append(Attempt(guess_name(text, position), None, "", "cut_off"))
                return Found(value.end, tuple(attempts))
            else:
                calls = attempts_in(value.value, self._keyed)
                if calls is None:
                    break
                attempts += calls
                position = self._separator(source, value)
        for closing in self.closings:
            if text.startswith(closing, position):
                position += len(closing)
                break
        return Found(position, tuple(attempts)) if attempts else None

    def _closing_at(self, source: Source, position: int) -> int:
        places = [source.find(closing, position) for closing in self.closings]
        return min((place for place in places if place >= 0), default=-1)

    def _is_json(self, source: Source, position: int) -> bool:
        return not (
            self._pythonic and source.text[(place := source.skip_space(position + 1)) : place + 1].isalpha()
        )

    def _separator(self, source: Source, value: Value) -> int:
        position = source.skip_space(value.end)
        if source.text[position : position + 1] in (";", ","):
            following = source.skip_space(position + 1)
            if source.text[following : following + 1] == "{":
                return following
        return position


class NamedJson:
    """A name, then its arguments as JSON: Mistral since 2024-11."""

    closings: tuple[str, ...] = ()

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads `name[ARGS]{...}`, perhaps with an id between, or a name alone."""
        head = _MISTRAL_NAME.match(source.text, opening.end())
        if not head:
            alone = _MISTRAL_ALONE.match(source.text, opening.end())
            return Found(alone.end(), (Attempt(alone[1]),)) if alone and book.find(alone[1]) else None
        value = source.json_at(head.end())
        return _named(head[1], head[2] or "", value, head.end())


class KimiCall:
    """Kimi K2: `functions.NAME:INDEX`, then arguments; at times the index alone."""

    closings: tuple[str, ...] = ("<|tool_call_end|>",)

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads one call of a section."""
        head = _KIMI_HEAD.match(source.text, opening.end())
        if not head:
            return None
        call_id = source.text[opening.end() : head.start(0)] + head[0].partition("<|")[0].strip()
        value = source.json_at(head.end(), source.find("<|tool_call_end|>", head.end()))
        name = head[1]
        if value and name.isdigit() and isinstance(value.value, dict):
            tool = book.find_by_keys(value.value)
            name = tool.name if tool else name
        return _named(name, call_id, value, head.end(), "<|tool_call_end|>", source)


class DeepSeekCall:
    """DeepSeek R1, V3 and V3.1: the name, then arguments, in a fence or without."""

    closings: tuple[str, ...] = ("<｜tool▁call▁end｜>", "<|tool_call_end|>")

    def read(self, source: Source, opening: re.Match[str], book: ToolBook) -> Found | None:
        """Reads one call of a section."""
        head = _DEEPSEEK_HEAD.match(source.text, opening.end())
        body = _DEEPSEEK_JSON.match(source.text, head.end()) if head else None
        if not head or not body:
            return None
        found = _named(head[1], "", source.json_at(body.end()), body.end())
        end = _DEEPSEEK_END.match(source.text, found.end)
        return Found(end.end() if end else found.end, found.attempts)


def _named(
    name: str, call_id: str, value: Value | None, start: int, closing: str = "", source: Source | None = None
) -> Found:
    if value is None:
        return Found(start, (Attempt(name, None, call_id, "unreadable"),))
    if value.cut:
        return Found(value.end, (Attempt(name, None, call_id, "cut_off"),))
    arguments = read_arguments(value.value)
    end = value.end
    if source and closing and source.text.startswith(closing, source.skip_space(end)):
        end = source.skip_space(end) + len(closing)
    fault: Fault = "" if arguments is not None else "unreadable"
    return Found(end, (Attempt(name, arguments, call_id, fault),))
